//! The state that instructions leave, and what each of them changes.

use alloc::vec::Vec;

use cfipack_format::{Arch, Cfa, Register, Row, Rule};

use crate::Instruction;
use crate::expression::simple;
use cfipack_format::Reason;

/// The registers beside the CFA, the return address and the frame pointer whose rules matter to
/// the consumer of the rows.
pub trait Registers: Copy {
    /// The state before any instruction.
    fn at_entry(arch: Arch) -> Self;

    /// A rule for a register. Returns whether it matters.
    fn set(&mut self, register: Register, rule: Rule) -> bool;

    /// Registers, by their bits, whose rules never matter, so that `set` need not be called for them.
    fn ignored(&self, arch: Arch) -> u64;

    /// Back to the rule after the CIE's instructions. Returns whether it matters.
    fn restore(&mut self, register: Register, initial: &Self) -> bool;
}

/// The rules that the instructions up to a PC leave.
#[derive(Clone, Copy, Debug)]
pub struct State<'a, R> {
    /// The row; its `start` is the PC.
    pub row: Row,
    /// The expression that gives the CFA, whatever `row` makes of it; empty where the CFA is a register
    /// and an offset by `DW_CFA_def_cfa`, which alone the instructions that change one of both may change.
    pub cfa_expression: &'a [u8],
    /// Rules of further registers.
    pub registers: R,
    /// True if a rule said that the state of the return address's signature keeps its value, which no
    /// `DW_CFA_AARCH64_negate_ra_state` may follow (DWARF for the Arm 64-bit Architecture, 4.6).
    pub sign_state_is_kept: bool,
}

/// The depth to which `DW_CFA_remember_state` may nest: far beyond what compilers write, and a bound on what
/// hostile input can make us remember.
const MAX_REMEMBERED: usize = 1024;

/// AArch64's pseudo register for the state of the return address's signature.
pub const RA_SIGN_STATE: Register = Register(34);

impl<'a, R: Registers> State<'a, R> {
    /// The state before any instruction.
    pub fn at_entry(arch: Arch) -> Self {
        Self {
            row: Row::at_entry(arch),
            cfa_expression: &[],
            registers: R::at_entry(arch),
            sign_state_is_kept: false,
        }
    }

    /// Carries out an instruction other than an advance. Returns whether the row or a register
    /// that matters was given a rule, be it the same as before. `initial` is what follows the
    /// CIE's instructions.
    #[inline]
    pub fn apply(
        &mut self,
        instruction: Instruction<'a>,
        arch: Arch,
        initial: &(Row, R),
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
            Instruction::NegateRaState if self.sign_state_is_kept => return Err(Reason::SignStateRule),
            Instruction::NegateRaState if arch.is_aarch64() => self.row.signed = !self.row.signed,
            Instruction::NegateRaState => return Err(Reason::InstructionUnknown(0x2d)),
        }
        Ok(true)
    }

    /// The register and the offset that the CFA is, where nothing else gives it (DWARF 5, section 6.4.2.2):
    /// an expression is no base, even one that comes to a register and an offset.
    #[inline(always)]
    pub fn cfa_base(&mut self) -> Result<(&mut Register, &mut i64), Reason> {
        match &mut self.row.cfa {
            Cfa::Register { register, offset } if self.cfa_expression.is_empty() => Ok((register, offset)),
            _ => Err(Reason::CfaWithoutBase),
        }
    }

    /// A rule for a register. Returns whether it matters.
    #[inline]
    pub(crate) fn set(&mut self, arch: Arch, register: Register, rule: Rule) -> Result<bool, Reason> {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = rule;
        } else if register == arch.return_address() {
            self.row.return_address = rule;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            // The one rule that says what is so without it.
            if rule != Rule::SameValue || self.row.signed {
                return Err(Reason::SignStateRule);
            }
            self.sign_state_is_kept = true;
            return Ok(false);
        } else {
            return Ok(self.registers.set(register, rule));
        }
        Ok(true)
    }

    #[inline]
    fn restore(&mut self, arch: Arch, register: Register, (row, registers): &(Row, R)) -> bool {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = row.frame_pointer;
        } else if register == arch.return_address() {
            self.row.return_address = row.return_address;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            self.row.signed = row.signed;
        } else {
            return self.registers.restore(register, registers);
        }
        true
    }
}
