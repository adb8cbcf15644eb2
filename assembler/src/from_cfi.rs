//! Makes directives from call frame information.

use alloc::vec::Vec;

use cfipack_format::{Reason, Unsupported};

use crate::Directives;
use crate::cfi::write::InstructionWriter;
use crate::cfi::{Function, Instruction, Instructions};
use crate::instructions::at_entry;

impl Directives {
    /// Returns the directives for a function's call frame information: the instructions of its CIE, followed by
    /// its own. An instruction without a directive becomes a `.cfi_escape`. You must add pointers yourself,
    /// with [`personality`](Self::personality) and [`lsda`](Self::lsda), because their keys are yours.
    ///
    /// # Errors
    /// An instruction cannot be read, or needs an address that is not known. Instructions that no directive can
    /// represent are in [`errors`](Self::errors).
    pub fn from_cfi(function: &Function<'_>) -> Result<Self, Unsupported> {
        let arch = function.arch();
        let refused = |offset| move |reason| Unsupported { function: function.key, offset, reason };
        let cie: Result<Vec<_>, _> = Instructions::new(function, function.cie.instructions).collect();
        let cie = cie.map_err(refused(0))?;
        let cie: Vec<_> = cie.into_iter().filter(|instruction| *instruction != Instruction::Nop).collect();
        let entry: Vec<_> = at_entry(arch).collect();
        let (is_simple, cie) = match cie.strip_prefix(&entry[..]) {
            Some(rest) => (false, rest),
            None => (true, &cie[..]),
        };
        let mut directives = Self::new(arch, function.size).with_simple(is_simple);
        if function.cie.signal_frame {
            directives.signal_frame();
        }
        if function.cie.pauth_key_b {
            directives.b_key_frame();
        }
        if function.cie.tagged {
            directives.mte_tagged_frame();
        }
        if function.cie.return_address != arch.return_address() {
            directives.return_column(function.cie.return_address);
        }
        for &instruction in cie {
            directives.put_instruction(instruction).map_err(refused(0))?;
        }
        directives.in_cie = Some(directives.list.len());
        let mut location = 0u64;
        for instruction in Instructions::new(function, function.instructions) {
            match instruction.map_err(refused(location))? {
                Instruction::Advance(delta) => {
                    location = location.saturating_add(delta);
                    directives.at(location);
                }
                Instruction::SetLocation(address) => {
                    location = function.location_of(address).map_err(refused(location))?;
                    directives.at(location);
                }
                instruction => directives.put_instruction(instruction).map_err(refused(location))?,
            }
        }
        Ok(directives)
    }

    fn put_instruction(&mut self, instruction: Instruction<'_>) -> Result<(), Reason> {
        match instruction {
            Instruction::Nop => self,
            Instruction::DefCfa(register, offset) => self.def_cfa(register, offset),
            Instruction::DefCfaRegister(register) => self.def_cfa_register(register),
            Instruction::DefCfaOffset(offset) => self.def_cfa_offset(offset),
            Instruction::Undefined(register) => self.undefined(register),
            Instruction::SameValue(register) => self.same_value(register),
            Instruction::Offset(register, offset) => self.offset(register, offset),
            Instruction::ValOffset(register, offset) => self.val_offset(register, offset),
            Instruction::Register(register, source) => self.register_in(register, source),
            Instruction::Restore(register) => self.restore(register),
            Instruction::RememberState => self.remember_state(),
            Instruction::RestoreState => self.restore_state(),
            Instruction::NegateRaState if self.arch().is_aarch64() => self.negate_ra_state(),
            Instruction::NegateRaState => self.window_save(),
            Instruction::SetRaState(state, signing) => self.set_ra_state(state, signing),
            Instruction::ArgsSize(_)
            | Instruction::DefCfaExpression(_)
            | Instruction::Expression(..)
            | Instruction::ValExpression(..) => {
                let mut writer = InstructionWriter::new(self.arch(), 1, 1);
                // These instructions have no factor, so the writer accepts all of them.
                writer.put(instruction).map_err(|_| Reason::CieInstruction)?;
                self.escape(writer.as_bytes())
            }
            // A CIE has no locations.
            Instruction::Advance(_) | Instruction::SetLocation(_) => return Err(Reason::CieInstruction),
        };
        Ok(())
    }
}
