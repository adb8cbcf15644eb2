//! The state of the interpreter, and the effect of each instruction on it.

use alloc::vec::Vec;

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

use crate::Instruction;
use crate::expression::{constant, simple};
use cfipack_format::Reason;

/// The rules of registers other than the CFA, the return address and the frame pointer. Implement this trait
/// for the registers that your rows need, or use [`StackPointer`](crate::StackPointer).
pub trait Registers: Copy {
    /// Returns the state before the first instruction.
    fn at_entry(arch: Arch) -> Self;

    /// Sets the rule of a register. Returns whether the register matters.
    fn set(&mut self, register: Register, rule: Rule) -> bool;

    /// Returns a bit set of registers that never matter. `set` need not be called for these registers.
    fn ignored(&self, arch: Arch) -> u64;

    /// Restores the rule that a register had after the CIE's instructions. Returns whether the register
    /// matters.
    fn restore(&mut self, register: Register, initial: &Self) -> bool;
}

/// The rules at a PC, after all instructions up to the PC.
#[derive(Clone, Copy, Debug)]
pub struct State<'a, R> {
    /// The row. Its `start` is the PC.
    pub row: Row,
    /// The expression of the CFA, even if `row` can represent it. It is empty if `DW_CFA_def_cfa` has set a
    /// register and an offset. Only then may instructions change just the register or just the offset.
    pub cfa_expression: &'a [u8],
    /// The rules of further registers.
    pub registers: R,
    /// AArch64: true if a rule gives the state of the signature, or keeps it. After this rule,
    /// `DW_CFA_AARCH64_negate_ra_state` is not allowed (DWARF for the Arm 64-bit Architecture, 4.6).
    pub sign_state_has_rule: bool,
}

/// How deep `DW_CFA_remember_state` may nest. Compilers never come near this limit, and it bounds memory for
/// hostile input.
const MAX_REMEMBERED: usize = 1024;

/// AArch64's pseudo register for the state of the return address's signature.
pub const RA_SIGN_STATE: Register = Register(34);

impl<'a, R: Registers> State<'a, R> {
    /// Returns the state before the first instruction.
    pub fn at_entry(arch: Arch) -> Self {
        Self {
            row: Row::at_entry(arch),
            cfa_expression: &[],
            registers: R::at_entry(arch),
            sign_state_has_rule: false,
        }
    }

    /// Executes an instruction other than an advance. Returns whether it set a rule of the row or of a register
    /// that matters, even if the rule is the same as before. `initial` is the state after the CIE's
    /// instructions.
    #[inline]
    pub fn apply(
        &mut self,
        instruction: Instruction<'a>,
        arch: Arch,
        initial: &Self,
        remembered: &mut Vec<Self>,
    ) -> Result<bool, Reason> {
        match instruction {
            Instruction::Nop
            | Instruction::ArgsSize(_)
            | Instruction::Advance(_)
            | Instruction::SetLocation(_) => return Ok(false),
            Instruction::DefCfa(register, offset) => {
                self.row.cfa = Cfa::Register { register, offset };
                self.cfa_expression = &[];
            }
            Instruction::DefCfaRegister(register) => *self.cfa_base()?.0 = register,
            Instruction::DefCfaOffset(offset) => *self.cfa_base()?.1 = offset,
            Instruction::DefCfaExpression(block) => {
                self.row.cfa = match simple(block) {
                    Some(base) if base.deref => Cfa::Memory { register: base.register, offset: base.offset },
                    Some(base) => Cfa::Register { register: base.register, offset: base.offset },
                    None => Cfa::Expression,
                };
                self.cfa_expression = block;
            }
            Instruction::Offset(register, offset) => return self.set(arch, register, Rule::Cfa(offset)),
            Instruction::Restore(register) => return Ok(self.restore(arch, register, initial)),
            Instruction::Undefined(register) => return self.set(arch, register, Rule::Undefined),
            Instruction::SameValue(register) => return self.set(arch, register, Rule::SameValue),
            Instruction::ValOffset(register, offset) => {
                return self.set(arch, register, Rule::ValCfa(offset));
            }
            Instruction::Register(register, source) => {
                return self.set(arch, register, Rule::Register { register: source, offset: 0 });
            }
            Instruction::Expression(register, block) => {
                let rule = match simple(block) {
                    Some(base) if !base.deref => {
                        Rule::Memory { register: base.register, offset: base.offset }
                    }
                    _ => Rule::Expression,
                };
                return self.set(arch, register, rule);
            }
            Instruction::ValExpression(RA_SIGN_STATE, block) if arch.is_aarch64() => {
                let state = constant(block, arch.endian()).ok_or(Reason::SignStateRule)?;
                self.set_sign_state(state)?;
                self.sign_state_has_rule = true;
            }
            Instruction::ValExpression(register, block) => {
                let rule = match simple(block) {
                    Some(base) if base.deref => Rule::Memory { register: base.register, offset: base.offset },
                    Some(base) => Rule::Register { register: base.register, offset: base.offset },
                    None => Rule::Expression,
                };
                return self.set(arch, register, rule);
            }
            Instruction::RememberState => {
                if remembered.len() >= MAX_REMEMBERED {
                    return Err(Reason::RememberDepth);
                }
                remembered.push(*self);
                return Ok(false);
            }
            Instruction::RestoreState => {
                *self = remembered.pop().ok_or(Reason::RestoreWithoutRemember)?;
            }
            Instruction::NegateRaState | Instruction::SetRaState(..) if self.sign_state_has_rule => {
                return Err(Reason::SignStateRule);
            }
            Instruction::SetRaState(state, _) => self.set_sign_state(state)?,
            Instruction::NegateRaState if arch.is_aarch64() => self.row.signed = !self.row.signed,
            Instruction::NegateRaState => return Err(Reason::InstructionUnknown(0x2d)),
        }
        Ok(true)
    }

    /// Returns the CFA's register and offset, to change one of them (DWARF 5, section 6.4.2.2).
    ///
    /// # Errors
    /// [`Reason::CfaWithoutBase`]: the CFA has no rule or is an expression, even if the expression is a
    /// register plus an offset.
    #[inline(always)]
    pub fn cfa_base(&mut self) -> Result<(&mut Register, &mut i64), Reason> {
        match &mut self.row.cfa {
            Cfa::Register { register, offset } if self.cfa_expression.is_empty() => Ok((register, offset)),
            _ => Err(Reason::CfaWithoutBase),
        }
    }

    /// Sets the state of the signature: not signed, signed with the stack pointer, or with the PC too (DWARF for the
    /// Arm 64-bit Architecture, 4.1, "RA_SIGN_STATE").
    fn set_sign_state(&mut self, state: u64) -> Result<(), Reason> {
        self.row.signed = match state {
            0 => false,
            1 => true,
            2 => return Err(Reason::SignedWithPc),
            _ => return Err(Reason::SignStateRule),
        };
        Ok(())
    }

    /// Sets the rule of a register. Returns whether the register matters.
    #[inline]
    pub(crate) fn set(&mut self, arch: Arch, register: Register, rule: Rule) -> Result<bool, Reason> {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = rule;
        } else if register == arch.return_address() {
            self.row.return_address = rule;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            // This rule repeats the default, so it is allowed.
            if rule != Rule::SameValue || self.row.signed {
                return Err(Reason::SignStateRule);
            }
            self.sign_state_has_rule = true;
            return Ok(false);
        } else {
            return Ok(self.registers.set(register, rule));
        }
        Ok(true)
    }

    #[inline]
    fn restore(&mut self, arch: Arch, register: Register, initial: &Self) -> bool {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = initial.row.frame_pointer;
        } else if register == arch.return_address() {
            self.row.return_address = initial.row.return_address;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            self.row.signed = initial.row.signed;
        } else {
            return self.registers.restore(register, &initial.registers);
        }
        true
    }
}
