//! A method for each directive.

use cfipack_format::{Key, Register};

use super::Directives;
use crate::Misuse;
use crate::cfi::PointerEncoding;
use crate::cfi::write::leb128;
use crate::directive::{Directive, EscapeOperand};

impl Directives {
    /// `.cfi_def_cfa`: the CFA is `register` plus `offset`.
    pub fn def_cfa(&mut self, register: Register, offset: i64) -> &mut Self {
        let misuse = self.register(register).or_else(|| self.cfa_offset(offset));
        self.put_cfa(Directive::DefCfa(register, offset), offset, misuse)
    }

    /// `.cfi_def_cfa_offset`: the CFA is `offset` from the same register as before.
    pub fn def_cfa_offset(&mut self, offset: i64) -> &mut Self {
        self.put_cfa(Directive::DefCfaOffset(offset), offset, self.cfa_offset(offset))
    }

    /// `.cfi_adjust_cfa_offset`: the CFA's offset grows by `by` bytes.
    pub fn adjust_cfa_offset(&mut self, by: i64) -> &mut Self {
        let directive = Directive::AdjustCfaOffset(by);
        match self.cfa_offset.checked_add(by) {
            Some(offset) => self.put_cfa(directive, offset, self.cfa_offset(offset)),
            None => self.put(directive, Some(self.overflow(by))),
        }
    }

    /// `.cfi_def_cfa_register`: the CFA is counted from this register, with the same offset as before.
    pub fn def_cfa_register(&mut self, register: Register) -> &mut Self {
        self.put(Directive::DefCfaRegister(register), self.register(register))
    }

    /// `.cfi_offset`: the caller's value of `register` is at the CFA plus `offset`.
    pub fn offset(&mut self, register: Register, offset: i64) -> &mut Self {
        let misuse = self.register(register).or_else(|| self.factored(offset));
        self.put(Directive::Offset(register, offset), misuse)
    }

    /// `.cfi_rel_offset`: the caller's value of `register` is at the CFA's register plus `offset`.
    pub fn rel_offset(&mut self, register: Register, offset: i64) -> &mut Self {
        let misuse = self.register(register).or_else(|| match offset.checked_sub(self.cfa_offset) {
            Some(from_cfa) => self.factored(from_cfa),
            None => Some(self.overflow(offset)),
        });
        self.put(Directive::RelOffset(register, offset), misuse)
    }

    /// `.cfi_val_offset`: the caller's value of `register` is the CFA plus `offset`.
    pub fn val_offset(&mut self, register: Register, offset: i64) -> &mut Self {
        let misuse = self.register(register).or_else(|| self.factored(offset));
        self.put(Directive::ValOffset(register, offset), misuse)
    }

    /// `.cfi_register`: the caller's value of `register` is in `source`.
    pub fn register_in(&mut self, register: Register, source: Register) -> &mut Self {
        let misuse = self.register(register).or_else(|| self.register(source));
        self.put(Directive::Register(register, source), misuse)
    }

    /// `.cfi_restore`: `register` gets back the rule that it had at the function's start.
    pub fn restore(&mut self, register: Register) -> &mut Self {
        self.put(Directive::Restore(register), self.register(register))
    }

    /// `.cfi_undefined`: the caller's value of `register` is lost.
    pub fn undefined(&mut self, register: Register) -> &mut Self {
        self.put(Directive::Undefined(register), self.register(register))
    }

    /// `.cfi_same_value`: `register` has the caller's value.
    pub fn same_value(&mut self, register: Register) -> &mut Self {
        self.put(Directive::SameValue(register), self.register(register))
    }

    /// `.cfi_remember_state`: puts all rules on a stack.
    pub fn remember_state(&mut self) -> &mut Self {
        self.remembered.push(self.cfa_offset);
        self.put(Directive::RememberState, None)
    }

    /// `.cfi_restore_state`: takes all rules from the stack of [`remember_state`](Self::remember_state).
    pub fn restore_state(&mut self) -> &mut Self {
        match self.remembered.pop() {
            Some(offset) => self.put_cfa(Directive::RestoreState, offset, None),
            None => self.put(Directive::RestoreState, Some(Misuse::RestoreWithoutRemember)),
        }
    }

    /// `.cfi_window_save`: SPARC's register windows. On AArch64 it is another name of
    /// [`negate_ra_state`](Self::negate_ra_state).
    pub fn window_save(&mut self) -> &mut Self {
        self.put(Directive::WindowSave, None)
    }

    /// `.cfi_negate_ra_state`: the return address was signed and is not, or the other way round. AArch64.
    pub fn negate_ra_state(&mut self) -> &mut Self {
        self.put(Directive::NegateRaState, self.aarch64_only())
    }

    /// `.cfi_negate_ra_state_with_pc`: as [`negate_ra_state`](Self::negate_ra_state), for a signature that
    /// includes the PC. AArch64.
    pub fn negate_ra_state_with_pc(&mut self) -> &mut Self {
        self.put(Directive::NegateRaStateWithPc, self.aarch64_only())
    }

    /// `.cfi_set_ra_state`: the return address is not signed (state 0), signed with the stack pointer (1), or with
    /// the stack pointer and the PC (2). `signing` is the distance in bytes from here to the instruction that
    /// signs; it has no meaning in state 0. AArch64.
    pub fn set_ra_state(&mut self, state: u64, signing: i64) -> &mut Self {
        let (factor, _) = self.arch.cfi_alignment();
        let misuse = self.aarch64_only().or_else(|| multiple(signing, factor as i64));
        self.put(Directive::SetRaState(state, signing), misuse)
    }

    /// `.cfi_escape` with an operand for each byte: the bytes are put among the instructions as they are.
    pub fn escape(&mut self, bytes: &[u8]) -> &mut Self {
        let start = self.escaped.len();
        self.escaped.extend_from_slice(bytes);
        self.escape_since(start, true)
    }

    /// `.cfi_escape` with operands of any kind. An operand that is a `uleb128()` makes a difference to gas's
    /// `.sframe`.
    pub fn escape_operands(&mut self, operands: &[EscapeOperand]) -> &mut Self {
        let start = self.escaped.len();
        let endian = self.arch.endian();
        for &operand in operands {
            let escaped = &mut self.escaped;
            match operand {
                EscapeOperand::Byte(byte) => escaped.push(byte),
                EscapeOperand::Truncated(value) => escaped.push(value as u8),
                EscapeOperand::Data2(value) => escaped.extend_from_slice(&endian.put_u16(value)),
                EscapeOperand::Data4(value) => escaped.extend_from_slice(&endian.put_u32(value)),
                EscapeOperand::Data8(value) => escaped.extend_from_slice(&endian.put_u64(value)),
                EscapeOperand::Uleb128(value) => leb128::unsigned(escaped, value),
                EscapeOperand::Sleb128(value) => leb128::signed(escaped, value),
            }
        }
        self.escape_since(start, is_plain(operands))
    }

    fn escape_since(&mut self, start: usize, is_plain: bool) -> &mut Self {
        match (u32::try_from(start), u32::try_from(self.escaped.len())) {
            (Ok(start), Ok(end)) => self.put(Directive::Escape { bytes: start..end, is_plain }, None),
            _ => {
                self.escaped.truncate(start);
                self.put(Directive::Label, Some(Misuse::Length))
            }
        }
    }

    /// `.cfi_label`: a symbol at this place of the CFI. [`CallFrames::labels`](crate::CallFrames::labels)
    /// returns its offset.
    pub fn label(&mut self) -> &mut Self {
        self.put(Directive::Label, None)
    }

    /// `.cfi_signal_frame`: a signal calls the function, so its caller's PC is not the PC of a call.
    pub fn signal_frame(&mut self) -> &mut Self {
        self.frame.is_signal_frame = true;
        self.counted(None)
    }

    /// `.cfi_b_key_frame`: return addresses are signed with key B. AArch64.
    pub fn b_key_frame(&mut self) -> &mut Self {
        let misuse = self.aarch64_only();
        self.frame.is_b_key_frame |= misuse.is_none();
        self.counted(misuse)
    }

    /// `.cfi_mte_tagged_frame`: the stack frame's memory is tagged. AArch64.
    pub fn mte_tagged_frame(&mut self) -> &mut Self {
        let misuse = self.aarch64_only();
        self.frame.is_mte_tagged_frame |= misuse.is_none();
        self.counted(misuse)
    }

    /// `.cfi_return_column`: the column that has the return address.
    pub fn return_column(&mut self, register: Register) -> &mut Self {
        let too_wide = Misuse::ReturnColumn { register };
        let misuse = self.register(register).or((register.0 > 0xff).then_some(too_wide));
        if misuse.is_none() {
            self.frame.return_column = Some(register);
        }
        self.counted(misuse)
    }

    /// `.cfi_personality`: the routine that unwinding calls, or with an indirect encoding the cell that holds
    /// its address. `routine` is a number of your choice for the routine. The encoding
    /// [`PointerEncoding::OMITTED`] removes an earlier personality.
    pub fn personality(&mut self, encoding: PointerEncoding, routine: Key) -> &mut Self {
        let misuse = pointer(encoding);
        if misuse.is_none() {
            self.frame.personality = (encoding != PointerEncoding::OMITTED).then_some((encoding, routine));
        }
        self.counted(misuse)
    }

    /// `.cfi_lsda`: the language-specific data area. `table` is a number of your choice for it.
    pub fn lsda(&mut self, encoding: PointerEncoding, table: Key) -> &mut Self {
        let misuse = pointer(encoding);
        if misuse.is_none() {
            self.frame.lsda = (encoding != PointerEncoding::OMITTED).then_some((encoding, table));
        }
        self.counted(misuse)
    }

    fn register(&self, register: Register) -> Option<Misuse> {
        let arch = self.arch;
        (!arch.has_register(register)).then_some(Misuse::Register { register, arch })
    }

    fn aarch64_only(&self) -> Option<Misuse> {
        (!self.arch.is_aarch64()).then_some(Misuse::Architecture { arch: self.arch })
    }

    fn overflow(&self, value: i64) -> Misuse {
        Misuse::Overflow { cfa_offset: self.cfa_offset, value }
    }

    /// Checks an offset of the CFA. CFI counts negative offsets in units of the data alignment.
    fn cfa_offset(&self, offset: i64) -> Option<Misuse> {
        if offset < 0 { self.factored(offset) } else { None }
    }

    fn factored(&self, value: i64) -> Option<Misuse> {
        multiple(value, self.arch.cfi_alignment().1)
    }
}

fn multiple(value: i64, factor: i64) -> Option<Misuse> {
    (value % factor != 0).then_some(Misuse::Factor { value, factor })
}

/// Checks an encoding: it must be absolute or PC-relative, and of 2, 4 or 8 bytes. It may be indirect.
fn pointer(encoding: PointerEncoding) -> Option<Misuse> {
    let is_fixed = matches!(encoding.0 & 0x0f, 0x00 | 0x02..=0x04 | 0x0a..=0x0c);
    let is_known = is_fixed && matches!(encoding.0 & 0x70, 0x00 | 0x10);
    (encoding != PointerEncoding::OMITTED && !is_known).then_some(Misuse::Encoding { encoding })
}

fn is_plain(operands: &[EscapeOperand]) -> bool {
    let offset = match operands.first() {
        Some(EscapeOperand::Byte(0x0f)) => 3,
        Some(EscapeOperand::Byte(0x10)) => 4,
        _ => 0,
    };
    let is_truncated = matches!(operands.first(), Some(EscapeOperand::Truncated(_)));
    !is_truncated
        && operands.iter().enumerate().skip(1).all(|(index, operand)| match operand {
            EscapeOperand::Byte(_) => true,
            EscapeOperand::Sleb128(_) | EscapeOperand::Truncated(_) => index == offset,
            EscapeOperand::Data2(_)
            | EscapeOperand::Data4(_)
            | EscapeOperand::Data8(_)
            | EscapeOperand::Uleb128(_) => false,
        })
}
