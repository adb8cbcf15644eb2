//! Writes call frame instructions (DWARF 5, section 6.4.2), each in its shortest form.

use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Endian, Register};

use super::{Error, WrittenCie, leb128};
use crate::Instruction;

/// Writes the instructions of a CIE or an FDE.
#[derive(Clone, Debug)]
pub struct InstructionWriter {
    endian: Endian,
    code_alignment: u64,
    data_alignment: i64,
    bytes: Vec<u8>,
}

impl InstructionWriter {
    /// Creates a writer for a CIE with these alignment factors.
    pub fn new(arch: Arch, code_alignment: u64, data_alignment: i64) -> Self {
        Self { endian: arch.endian(), code_alignment, data_alignment, bytes: Vec::new() }
    }

    /// Creates a writer that continues after these bytes.
    pub fn after(arch: Arch, code_alignment: u64, data_alignment: i64, bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::new(arch, code_alignment, data_alignment) }
    }

    /// Creates a writer for an FDE with this CIE.
    pub fn for_cie(cie: &WrittenCie) -> Self {
        Self::new(cie.arch, cie.code_alignment, cie.data_alignment)
    }

    /// Returns the bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends an instruction in its shortest form. An advance by 0 is omitted.
    ///
    /// # Errors
    /// An operand does not fit, or is not a multiple of its factor. Then nothing is appended. `DW_CFA_set_loc`
    /// is never written.
    pub fn put(&mut self, instruction: Instruction<'_>) -> Result<(), Error> {
        match instruction {
            Instruction::Nop => self.raw(&[0x00]),
            Instruction::Advance(delta) => return self.advance(delta),
            Instruction::SetLocation(_) => return Err(Error::SetLocation),
            Instruction::DefCfa(register, offset) if offset >= 0 => {
                self.with_register(0x0c, register);
                self.uleb(offset as u64);
            }
            Instruction::DefCfa(register, offset) => {
                let offset = self.factored(offset)?;
                self.with_register(0x12, register);
                self.sleb(offset);
            }
            Instruction::DefCfaRegister(register) => self.with_register(0x0d, register),
            Instruction::DefCfaOffset(offset) if offset >= 0 => {
                self.raw(&[0x0e]);
                self.uleb(offset as u64);
            }
            Instruction::DefCfaOffset(offset) => {
                let offset = self.factored(offset)?;
                self.raw(&[0x13]);
                self.sleb(offset);
            }
            Instruction::DefCfaExpression(block) => {
                self.raw(&[0x0f]);
                self.block(block);
            }
            Instruction::Undefined(register) => self.with_register(0x07, register),
            Instruction::SameValue(register) => self.with_register(0x08, register),
            Instruction::Offset(register, offset) => return self.offset(register, offset),
            Instruction::ValOffset(register, offset) => return self.val_offset(register, offset),
            Instruction::Register(register, source) => {
                self.with_register(0x09, register);
                self.uleb(source.0.into());
            }
            Instruction::Expression(register, block) => {
                self.with_register(0x10, register);
                self.block(block);
            }
            Instruction::ValExpression(register, block) => {
                self.with_register(0x16, register);
                self.block(block);
            }
            Instruction::Restore(Register(register @ 0..=0x3f)) => self.raw(&[0xc0 | register as u8]),
            Instruction::Restore(register) => self.with_register(0x06, register),
            Instruction::RememberState => self.raw(&[0x0a]),
            Instruction::RestoreState => self.raw(&[0x0b]),
            Instruction::NegateRaState => self.raw(&[0x2d]),
            Instruction::SetRaState(state, signing) => {
                let signing = divided(signing, self.code_alignment as i64)?;
                self.raw(&[0x2b]);
                self.uleb(state);
                self.sleb(signing);
            }
            Instruction::ArgsSize(size) => {
                self.raw(&[0x2e]);
                self.uleb(size);
            }
        }
        Ok(())
    }

    fn advance(&mut self, delta: u64) -> Result<(), Error> {
        let factor = self.code_alignment;
        if delta.checked_rem(factor) != Some(0) {
            return Err(Error::Factor { value: delta as i64, factor: factor as i64 });
        }
        let units = u32::try_from(delta / factor).map_err(|_| Error::Advance { delta })?;
        match units {
            0 => {}
            1..0x40 => self.raw(&[0x40 | units as u8]),
            0x40..0x100 => self.raw(&[0x02, units as u8]),
            0x100..0x1_0000 => {
                self.raw(&[0x03]);
                self.raw(&self.endian.put_u16(units as u16));
            }
            _ => {
                self.raw(&[0x04]);
                self.raw(&self.endian.put_u32(units));
            }
        }
        Ok(())
    }

    fn offset(&mut self, register: Register, offset: i64) -> Result<(), Error> {
        match (self.factored(offset)?, register) {
            (factored @ 0.., Register(register @ 0..=0x3f)) => {
                self.raw(&[0x80 | register as u8]);
                self.uleb(factored as u64);
            }
            (factored @ 0.., register) => {
                self.with_register(0x05, register);
                self.uleb(factored as u64);
            }
            (factored, register) => {
                self.with_register(0x11, register);
                self.sleb(factored);
            }
        }
        Ok(())
    }

    fn val_offset(&mut self, register: Register, offset: i64) -> Result<(), Error> {
        let factored = self.factored(offset)?;
        if factored >= 0 {
            self.with_register(0x14, register);
            self.uleb(factored as u64);
        } else {
            self.with_register(0x15, register);
            self.sleb(factored);
        }
        Ok(())
    }

    fn factored(&self, value: i64) -> Result<i64, Error> {
        divided(value, self.data_alignment)
    }

    fn with_register(&mut self, opcode: u8, register: Register) {
        self.raw(&[opcode]);
        self.uleb(register.0.into());
    }

    fn block(&mut self, block: &[u8]) {
        self.uleb(block.len().to_u64());
        self.raw(block);
    }

    fn uleb(&mut self, value: u64) {
        leb128::unsigned(&mut self.bytes, value);
    }

    fn sleb(&mut self, value: i64) {
        leb128::signed(&mut self.bytes, value);
    }
}

fn divided(value: i64, factor: i64) -> Result<i64, Error> {
    match (value.checked_rem(factor), value.checked_div(factor)) {
        (Some(0), Some(factored)) => Ok(factored),
        _ => Err(Error::Factor { value, factor }),
    }
}
