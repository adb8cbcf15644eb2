//! Decodes call frame instructions (DWARF 5, section 6.4.2).

use cfipack_format::{Address, Register};

use crate::Function;
use crate::cursor::Cursor;
use cfipack_format::Reason;

/// A call frame instruction. Factored operands are already multiplied by their factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction<'a> {
    /// `DW_CFA_nop`: padding.
    Nop,
    /// `DW_CFA_advance_loc` and its longer forms, in bytes of code.
    Advance(u64),
    /// `DW_CFA_set_loc`.
    SetLocation(Address),
    /// `DW_CFA_def_cfa`, `DW_CFA_def_cfa_sf`.
    DefCfa(Register, i64),
    /// `DW_CFA_def_cfa_register`.
    DefCfaRegister(Register),
    /// `DW_CFA_def_cfa_offset`, `DW_CFA_def_cfa_offset_sf`.
    DefCfaOffset(i64),
    /// `DW_CFA_def_cfa_expression`.
    DefCfaExpression(&'a [u8]),
    /// `DW_CFA_undefined`.
    Undefined(Register),
    /// `DW_CFA_same_value`.
    SameValue(Register),
    /// `DW_CFA_offset` and its longer forms: the register is saved at the CFA plus this many bytes.
    Offset(Register, i64),
    /// `DW_CFA_val_offset`, `DW_CFA_val_offset_sf`: the register's value is the CFA plus this many bytes.
    ValOffset(Register, i64),
    /// `DW_CFA_register`: the first register is saved in the second.
    Register(Register, Register),
    /// `DW_CFA_expression`.
    Expression(Register, &'a [u8]),
    /// `DW_CFA_val_expression`.
    ValExpression(Register, &'a [u8]),
    /// `DW_CFA_restore`, `DW_CFA_restore_extended`.
    Restore(Register),
    /// `DW_CFA_remember_state`.
    RememberState,
    /// `DW_CFA_restore_state`.
    RestoreState,
    /// `DW_CFA_GNU_args_size`: the number of bytes of pushed arguments. No row depends on it.
    ArgsSize(u64),
    /// Opcode 0x2d: `DW_CFA_AARCH64_negate_ra_state`, on other architectures `DW_CFA_GNU_window_save`.
    NegateRaState,
    /// `DW_CFA_AARCH64_set_ra_state`: the new state of the return address's signature, and the distance in bytes
    /// from here to the instruction that signs.
    SetRaState(u64, i64),
}

/// The most common instructions in their shortest form. This type is faster to pass around than
/// [`Instruction`].
#[derive(Clone, Copy, Debug)]
pub enum Short {
    /// `DW_CFA_nop`, with all padding that follows.
    Nop,
    /// `DW_CFA_advance_loc` and `DW_CFA_advance_loc1`, in bytes of code.
    Advance(u64),
    /// `DW_CFA_offset` of a register below 64.
    Offset(Register, i64),
    /// `DW_CFA_def_cfa_offset` of less than 2^14.
    DefCfaOffset(i64),
}

/// The opcodes [outside DWARF](Instructions::is_outside_dwarf).
const MIPS_ADVANCE_LOC8: u8 = 0x1d;
const GNU_NEGATIVE_OFFSET_EXTENDED: u8 = 0x2f;

/// An iterator over the instructions of a CIE or an FDE. After an error, do not rely on further items.
#[derive(Clone, Copy, Debug)]
pub struct Instructions<'a, 'f> {
    function: &'f Function<'a>,
    cursor: Cursor<'a>,
}

impl<'a, 'f> Instructions<'a, 'f> {
    /// Decodes the instructions in `bytes`. They belong to `function` or to its CIE.
    #[inline]
    pub fn new(function: &'f Function<'a>, bytes: &'a [u8]) -> Self {
        Self { function, cursor: Cursor::new(bytes, function.arch().endian()) }
    }

    /// Returns the bytes that have not been decoded.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Continues at `rest`, which must be a tail of the undecoded bytes.
    #[inline(always)]
    pub(crate) fn set_rest(&mut self, rest: &'a [u8]) {
        self.cursor.set_rest(rest);
    }

    /// Returns whether the next instruction is known to this crate but not to DWARF: `DW_CFA_MIPS_advance_loc8` or
    /// `DW_CFA_GNU_negative_offset_extended`.
    pub fn is_outside_dwarf(&self) -> bool {
        matches!(self.rest(), [MIPS_ADVANCE_LOC8 | GNU_NEGATIVE_OFFSET_EXTENDED, ..])
    }

    /// Decodes the next instruction if it is a short `DW_CFA_offset`.
    #[inline(always)]
    pub(crate) fn short_offset(&mut self) -> Option<(Register, i64)> {
        let &[opcode @ 0x80..=0xbf, operand @ 0..=0x7f, ref rest @ ..] = self.cursor.rest() else {
            return None;
        };
        self.cursor.set_rest(rest);
        let offset = i64::from(operand).wrapping_mul(self.function.cie.data_alignment);
        Some((Register(u16::from(opcode & 0x3f)), offset))
    }

    /// Decodes the next instruction if it is a short `DW_CFA_def_cfa_offset` of less than 2^14.
    #[inline(always)]
    pub(crate) fn short_cfa_offset(&mut self) -> Option<i64> {
        let (offset, rest) = match *self.cursor.rest() {
            [0x0e, low @ 0..=0x7f, ref rest @ ..] => (low.into(), rest),
            [0x0e, low, high @ 0..=0x7f, ref rest @ ..] => {
                (i64::from(low & 0x7f) | i64::from(high) << 7, rest)
            }
            _ => return None,
        };
        self.cursor.set_rest(rest);
        Some(offset)
    }

    /// Decodes the next instruction if [`Short`] has it.
    #[doc(hidden)]
    #[inline(always)]
    pub fn short(&mut self) -> Option<Short> {
        if let Some((register, offset)) = self.short_offset() {
            return Some(Short::Offset(register, offset));
        }
        if let Some(offset) = self.short_cfa_offset() {
            return Some(Short::DefCfaOffset(offset));
        }
        let (short, rest) = match *self.cursor.rest() {
            [opcode @ 0x40..=0x7f, ref rest @ ..] => {
                let delta = u64::from(opcode & 0x3f).wrapping_mul(self.function.cie.code_alignment);
                (Short::Advance(delta), rest)
            }
            [0x02, delta, ref rest @ ..] => {
                (Short::Advance(u64::from(delta).wrapping_mul(self.function.cie.code_alignment)), rest)
            }
            [0x00, ref rest @ ..] => {
                let padding = rest.iter().position(|byte| *byte != 0).unwrap_or(rest.len());
                (Short::Nop, rest.get(padding..).unwrap_or_default())
            }
            _ => return None,
        };
        self.cursor.set_rest(rest);
        Some(short)
    }

    /// Decodes the next instruction.
    #[inline]
    pub(crate) fn decode(&mut self) -> Option<Result<Instruction<'a>, Reason>> {
        let opcode = self.cursor.u8()?;
        let instruction = self.operands(opcode);
        Some(instruction.ok_or_else(|| self.malformed(opcode)))
    }

    /// Returns why an instruction was not decoded. A test compares these opcodes with those that are decoded.
    #[cold]
    fn malformed(&self, opcode: u8) -> Reason {
        match opcode {
            0x2c if self.function.arch().is_aarch64() => Reason::SignedWithPc,
            0x2b if self.function.arch().is_aarch64() => Reason::InstructionMalformed(opcode),
            0x00..=0x16 | MIPS_ADVANCE_LOC8 | 0x2d | 0x2e | GNU_NEGATIVE_OFFSET_EXTENDED | 0x40.. => {
                Reason::InstructionMalformed(opcode)
            }
            _ => Reason::InstructionUnknown(opcode),
        }
    }

    #[inline]
    fn operands(&mut self, opcode: u8) -> Option<Instruction<'a>> {
        let low = u16::from(opcode & 0x3f);
        match opcode >> 6 {
            1 => Some(self.advance(low.into())),
            2 => Some(Instruction::Offset(Register(low), self.factored()?)),
            3 => Some(Instruction::Restore(Register(low))),
            _ => self.extended(opcode),
        }
    }

    #[inline]
    fn extended(&mut self, opcode: u8) -> Option<Instruction<'a>> {
        Some(match opcode {
            0x00 => Instruction::Nop,
            0x01 => self.set_location()?,
            0x02 => {
                let delta = self.cursor.u8()?;
                self.advance(delta.into())
            }
            0x03 => {
                let delta = self.cursor.u16()?;
                self.advance(delta.into())
            }
            0x04 => {
                let delta = self.cursor.u32()?;
                self.advance(delta.into())
            }
            0x05 => Instruction::Offset(self.register()?, self.factored()?),
            0x06 => Instruction::Restore(self.register()?),
            0x07 => Instruction::Undefined(self.register()?),
            0x08 => Instruction::SameValue(self.register()?),
            0x09 => Instruction::Register(self.register()?, self.register()?),
            0x0a => Instruction::RememberState,
            0x0b => Instruction::RestoreState,
            0x0c => Instruction::DefCfa(self.register()?, self.unfactored()?),
            0x0d => Instruction::DefCfaRegister(self.register()?),
            0x0e => Instruction::DefCfaOffset(self.unfactored()?),
            0x0f => Instruction::DefCfaExpression(self.block()?),
            0x10 => Instruction::Expression(self.register()?, self.block()?),
            0x11 => Instruction::Offset(self.register()?, self.factored_signed()?),
            0x12 => Instruction::DefCfa(self.register()?, self.factored_signed()?),
            0x13 => Instruction::DefCfaOffset(self.factored_signed()?),
            0x14 => Instruction::ValOffset(self.register()?, self.factored()?),
            0x15 => Instruction::ValOffset(self.register()?, self.factored_signed()?),
            0x16 => Instruction::ValExpression(self.register()?, self.block()?),
            MIPS_ADVANCE_LOC8 => {
                let delta = self.cursor.u64()?;
                self.advance(delta)
            }
            0x2b if self.function.arch().is_aarch64() => {
                let (state, signing) = (self.cursor.uleb()?, self.cursor.sleb()?);
                Instruction::SetRaState(state, signing.wrapping_mul(self.function.cie.code_alignment as i64))
            }
            0x2d => Instruction::NegateRaState,
            0x2e => Instruction::ArgsSize(self.cursor.uleb()?),
            GNU_NEGATIVE_OFFSET_EXTENDED => {
                Instruction::Offset(self.register()?, self.factored()?.wrapping_neg())
            }
            _ => return None,
        })
    }

    #[inline]
    fn advance(&self, delta: u64) -> Instruction<'a> {
        Instruction::Advance(delta.wrapping_mul(self.function.cie.code_alignment))
    }

    #[inline]
    fn register(&mut self) -> Option<Register> {
        u16::try_from(self.cursor.uleb()?).ok().map(Register)
    }

    #[inline]
    fn unfactored(&mut self) -> Option<i64> {
        Some(self.cursor.uleb()? as i64)
    }

    #[inline]
    fn factored(&mut self) -> Option<i64> {
        Some((self.cursor.uleb()? as i64).wrapping_mul(self.function.cie.data_alignment))
    }

    #[inline]
    fn factored_signed(&mut self) -> Option<i64> {
        Some(self.cursor.sleb()?.wrapping_mul(self.function.cie.data_alignment))
    }

    #[inline]
    fn block(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.cursor.uleb()?).ok()?;
        self.cursor.take(length)
    }

    #[cold]
    fn set_location(&mut self) -> Option<Instruction<'a>> {
        let (address, rest) = self.function.read_location(self.cursor.rest())?;
        self.cursor.set_rest(rest);
        Some(Instruction::SetLocation(address))
    }
}

impl<'a> Iterator for Instructions<'a, '_> {
    type Item = Result<Instruction<'a>, Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decode()
    }
}
