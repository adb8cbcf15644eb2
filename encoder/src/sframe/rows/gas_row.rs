//! Rows as gas 2.47 tracks them, its errors included (docs/known-errors.md, "GNU as").

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

use crate::cfi::Instruction;

/// A register that no architecture has: where gas's row names none.
const NO_REGISTER: Register = Register(u16::MAX);

/// A row that gas fills.
#[derive(Clone, Copy, Debug)]
pub(super) struct GasRow {
    row: Row,
    /// True if a directive has given the CFA a register.
    has_base: bool,
    /// True if the return address is undefined, which no rule for it undoes on x86-64.
    is_undefined: bool,
}

/// The rows of a function that gas knows at a PC.
#[derive(Clone, Copy, Debug)]
pub(super) struct GasRows {
    arch: Arch,
    pub(super) current: GasRow,
    /// The row that ended last, from which `.cfi_def_cfa_register` takes the offset.
    last: Option<GasRow>,
    /// The row that ended first, to which `.cfi_restore` returns.
    first: Option<GasRow>,
    /// The one remembered row.
    remembered: GasRow,
}

impl GasRows {
    pub(super) fn new(arch: Arch) -> Self {
        let cfa = Cfa::Register { register: arch.stack_pointer(), offset: 0 };
        let row = Row { cfa, ..Row::at_entry(arch) };
        let current = GasRow { row, has_base: false, is_undefined: false };
        Self { arch, current, last: None, first: None, remembered: current }
    }

    /// The register that the CFA is counted from.
    pub(super) fn cfa_base(&self) -> Option<Register> {
        match self.current.row.cfa {
            Cfa::Register { register, .. } | Cfa::Memory { register, .. } if self.current.has_base => {
                Some(register)
            }
            _ => None,
        }
    }

    /// The row ends. Returns whether gas keeps the function.
    pub(super) fn end_row(&mut self) -> bool {
        self.last = Some(self.current);
        self.first.get_or_insert(self.current);
        let Row { cfa, return_address, frame_pointer, .. } = self.current.row;
        let is_saved = |rule| matches!(rule, Rule::Cfa(_));
        let has_lone_frame_pointer =
            self.arch.is_aarch64() && is_saved(frame_pointer) && !is_saved(return_address);
        let offset = cfa_offset(cfa).map(|offset| scaled(self.arch, offset));
        !has_lone_frame_pointer && offset.is_none_or(|offset| i32::try_from(offset).is_ok())
    }

    /// Follows an instruction that gas takes. Returns whether it keeps the function.
    pub(super) fn follow(&mut self, instruction: Instruction<'_>) -> bool {
        match instruction {
            Instruction::DefCfa(register, offset) => self.set_cfa(Cfa::Register { register, offset }),
            Instruction::DefCfaRegister(register) => {
                let row = self.last.unwrap_or(self.current).row;
                self.set_cfa(Cfa::Register { register, offset: cfa_offset(row.cfa).unwrap_or(0) });
            }
            Instruction::DefCfaOffset(offset) => {
                if !self.current.has_base {
                    return false;
                }
                match &mut self.current.row.cfa {
                    Cfa::Register { offset: old, .. } | Cfa::Memory { offset: old, .. } => *old = offset,
                    Cfa::Expression | Cfa::Undefined => {}
                }
            }
            Instruction::DefCfaExpression(block) => {
                let offset = block.get(1).map_or(0, |&byte| short_sleb(byte));
                self.set_cfa(Cfa::Memory { register: self.arch.frame_pointer(), offset });
            }
            Instruction::RememberState => self.remembered = self.current,
            Instruction::RestoreState => self.current = self.remembered,
            Instruction::NegateRaState => self.current.row.signed = !self.current.row.signed,
            Instruction::Offset(register, offset) => self.set(register, Rule::Cfa(offset)),
            Instruction::Register(register, source) => {
                self.set(register, Rule::Register { register: source, offset: 0 });
            }
            Instruction::SameValue(register) => self.set(register, Rule::SameValue),
            Instruction::Undefined(register) if register == self.arch.return_address() => {
                self.current.is_undefined = true;
            }
            Instruction::Expression(register, block) if register == self.arch.frame_pointer() => {
                self.current.row.frame_pointer = match (self.arch, block) {
                    (Arch::Amd64, &[0x76, offset]) => Rule::Memory { register, offset: short_sleb(offset) },
                    _ => Rule::Register { register: NO_REGISTER, offset: 0 },
                };
            }
            Instruction::Restore(register) => self.restore(register),
            Instruction::Nop
            | Instruction::Advance(_)
            | Instruction::SetLocation(_)
            | Instruction::ArgsSize(_)
            | Instruction::Undefined(_)
            | Instruction::ValOffset(..)
            | Instruction::Expression(..)
            | Instruction::ValExpression(..) => {}
        }
        true
    }

    fn set_cfa(&mut self, cfa: Cfa) {
        (self.current.row.cfa, self.current.has_base) = (cfa, true);
    }

    fn tracks_return_address(&self) -> bool {
        self.arch.pushed_by_call() == 0
    }

    fn set(&mut self, register: Register, rule: Rule) {
        let tracks_return_address = self.tracks_return_address();
        let row = &mut self.current.row;
        if register == self.arch.frame_pointer() {
            row.frame_pointer = rule;
        } else if register == self.arch.return_address() {
            if tracks_return_address {
                (row.return_address, self.current.is_undefined) = (rule, false);
            } else if rule == Row::at_entry(self.arch).return_address {
                row.return_address = rule;
            } else if rule != Rule::SameValue {
                (row.return_address, self.current.is_undefined) = (rule, false);
            }
        }
    }

    fn restore(&mut self, register: Register) {
        let Some(first) = self.first else { return };
        let tracks_return_address = self.tracks_return_address();
        let row = &mut self.current.row;
        if register == self.arch.frame_pointer() {
            row.frame_pointer = match (first.row.frame_pointer, row.frame_pointer) {
                // The number of the register is not restored.
                (Rule::Register { .. }, Rule::Register { register, .. }) => {
                    Rule::Register { register, offset: 0 }
                }
                (Rule::Register { .. } | Rule::Memory { .. }, _) => {
                    Rule::Register { register: NO_REGISTER, offset: 0 }
                }
                (rule, _) => rule,
            };
        } else if register == self.arch.return_address() && tracks_return_address {
            row.return_address = first.row.return_address;
            self.current.is_undefined = first.is_undefined;
        }
    }

    /// The meaning of the current row as it is written, in a flex FDE or another.
    pub(super) fn meaning(&self, is_flex: bool) -> Row {
        let GasRow { mut row, is_undefined, .. } = self.current;
        if is_undefined {
            row.return_address = Rule::Undefined;
            return row;
        }
        if let Cfa::Register { offset, .. } = &mut row.cfa {
            *offset = unscaled(self.arch, scaled(self.arch, *offset));
        }
        match row.return_address {
            // Taken for the word that stands for "not saved".
            Rule::Cfa(0) if !is_flex && self.tracks_return_address() => row.return_address = Rule::SameValue,
            Rule::Cfa(offset) if is_flex && !self.tracks_return_address() => {
                row.return_address = Rule::Cfa(truncated(offset, self.word_size()));
            }
            _ => {}
        }
        row
    }

    /// Bytes of the data words of a flex FDE's row, for which gas does not look at the return address's offset.
    fn word_size(&self) -> u32 {
        let of_number = |number: i64| match number {
            -0x80..=0x7f => 1,
            -0x8000..=0x7fff => 2,
            _ => 4,
        };
        let of_control = |register: Register| of_number(i64::from(register.0) << 2);
        let Row { cfa, frame_pointer, .. } = self.current.row;
        let of_cfa = match cfa {
            Cfa::Register { register, offset } | Cfa::Memory { register, offset } => {
                of_number(scaled(self.arch, offset)).max(of_control(register))
            }
            Cfa::Expression | Cfa::Undefined => 1,
        };
        let of_frame_pointer = match frame_pointer {
            Rule::Cfa(offset) => of_number(offset),
            Rule::Register { register, offset } | Rule::Memory { register, offset } => {
                of_number(offset).max(of_control(register))
            }
            Rule::SameValue | Rule::Undefined | Rule::ValCfa(_) | Rule::Expression => 1,
        };
        of_cfa.max(of_frame_pointer)
    }
}

fn cfa_offset(cfa: Cfa) -> Option<i64> {
    match cfa {
        Cfa::Register { offset, .. } | Cfa::Memory { offset, .. } => Some(offset),
        Cfa::Expression | Cfa::Undefined => None,
    }
}

/// The data word of the CFA's offset, which s390x counts in 8 bytes from 160 (SFrame 3.1.3); gas rounds towards 0.
fn scaled(arch: Arch, offset: i64) -> i64 {
    match arch {
        Arch::S390x => offset.wrapping_sub(arch.cfa_offset_at_entry()) / 8,
        Arch::Amd64 | Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::Riscv64 => offset,
    }
}

fn unscaled(arch: Arch, word: i64) -> i64 {
    match arch {
        Arch::S390x => word.wrapping_mul(8).wrapping_add(arch.cfa_offset_at_entry()),
        Arch::Amd64 | Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::Riscv64 => word,
    }
}

/// A signed LEB128 number of one byte.
fn short_sleb(byte: u8) -> i64 {
    i64::from((byte << 1) as i8 >> 1)
}

fn truncated(value: i64, size: u32) -> i64 {
    let unused = 64 - 8 * size;
    value << unused >> unused
}
