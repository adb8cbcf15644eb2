//! Translates a row of gimli into a [`Row`].

use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};
use gimli::{CfaRule, Endianity, RegisterRule, UnwindSection, UnwindTableRow};

use super::answer::Answer;
use super::expression::{Shape, shape};
use super::source::{Cie, Reader};
use super::storage::Deep;

/// Translates gimli's rows of a function.
pub(super) struct Translate<'t, 'f, E: Endianity, S> {
    pub section: &'t S,
    pub cie: &'t Cie<'f, E>,
    pub arch: Arch,
    /// The start of the function.
    pub first: Address,
    /// The distance from the start to the instruction that signs the return address with a PC.
    pub signing: Option<u64>,
}

impl<'f, E: Endianity, S: UnwindSection<Reader<'f, E>>> Translate<'_, 'f, E, S> {
    /// Translates a row. `cfa_is_set` says whether an instruction has set a CFA.
    pub(super) fn row(&self, row: &UnwindTableRow<usize, Deep>, cfa_is_set: bool) -> Answer {
        let arch = self.arch;
        let column = self.cie.return_address_register();
        let (frame_pointer, stack_pointer) = (arch.frame_pointer(), arch.stack_pointer());
        let (mut of_ra, mut of_fp, mut of_sp, mut sign_state) = (None, None, None, None);
        for (register, rule) in row.registers() {
            if *register == column {
                of_ra = Some(rule);
            } else if register.0 == frame_pointer.0 {
                of_fp = Some(rule);
            } else if register.0 == stack_pointer.0 {
                of_sp = Some(rule);
            } else if *register == gimli::AArch64::RA_SIGN_STATE && arch.is_aarch64() {
                sign_state = Some(rule);
            }
        }
        let start = FunctionOffset((row.start_address() - self.first.0) as u32);
        let return_address = match of_ra {
            Some(rule) => self.rule(rule, arch.return_address()),
            None if column.0 == arch.return_address().0 => Row::at_entry(arch).return_address,
            // Without a rule, the register of another column keeps its value, which is the return address.
            None => Rule::Register { register: Register(column.0), offset: 0 },
        };
        let sign_state = sign_state.map(|rule| (rule, self.constant(rule)));
        let signed = matches!(sign_state, Some((_, Some(1))));
        let frame_pointer = of_fp.map_or(Rule::SameValue, |rule| self.rule(rule, frame_pointer));
        if return_address == Rule::Undefined {
            return Answer::Row(Row { start, cfa: Cfa::Undefined, return_address, frame_pointer, signed });
        }
        let mut plt = None;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { .. } if !cfa_is_set => return Answer::Nothing,
            CfaRule::RegisterAndOffset { register, offset } => {
                Cfa::Register { register: Register(register.0), offset: *offset }
            }
            CfaRule::Expression(expression) => match self.shape(expression) {
                Some(Shape::Sum { register, offset }) => Cfa::Register { register, offset },
                Some(Shape::Load { register, offset }) => Cfa::Memory { register, offset },
                Some(Shape::Plt { register, offset, from }) if has_stub_expression(arch) => {
                    plt = Some(from);
                    Cfa::Register { register, offset }
                }
                Some(Shape::Plt { .. } | Shape::Constant(_)) | None => Cfa::Expression,
            },
        };
        let row = Row { start, cfa, return_address, frame_pointer, signed };
        if let Some(rule) = of_sp {
            let rule = self.rule(rule, stack_pointer);
            if !is_cfa(rule, cfa, arch) {
                return Answer::StackPointer { row, rule };
            }
        }
        match sign_state {
            None | Some((RegisterRule::SameValue | RegisterRule::Undefined, _) | (_, Some(0 | 1))) => {}
            Some((rule, _)) => {
                let own = Register(gimli::AArch64::RA_SIGN_STATE.0);
                return Answer::SignState(self.rule(rule, own));
            }
        }
        match (plt, self.signing) {
            (Some(from), _) => Answer::Plt { row, from },
            (None, Some(at)) if signed => Answer::SignedWithPc { row, at },
            _ => Answer::Row(row),
        }
    }

    /// Collects the rules of the registers that [`Translate::row`] does not look at. Registers that keep their value
    /// are omitted.
    pub(super) fn registers(&self, row: &UnwindTableRow<usize, Deep>, found: &mut Vec<(Register, Rule)>) {
        let arch = self.arch;
        let known = [self.cie.return_address_register().0, arch.frame_pointer().0, arch.stack_pointer().0];
        found.clear();
        for (register, rule) in row.registers() {
            let own = Register(register.0);
            let is_known =
                known.contains(&own.0) || (*register == gimli::AArch64::RA_SIGN_STATE && arch.is_aarch64());
            match self.rule(rule, own) {
                _ if is_known => {}
                Rule::SameValue => {}
                rule => found.push((own, rule)),
            }
        }
        sort_by_register(found);
    }

    /// Translates a rule for the register `own`.
    #[inline(always)]
    fn rule(&self, rule: &RegisterRule<usize>, own: Register) -> Rule {
        match rule {
            RegisterRule::Offset(offset) => Rule::Cfa(*offset),
            other => self.rare_rule(other, own),
        }
    }

    /// Translates a rule other than [`RegisterRule::Offset`].
    #[cold]
    fn rare_rule(&self, rule: &RegisterRule<usize>, own: Register) -> Rule {
        match rule {
            RegisterRule::Undefined => Rule::Undefined,
            RegisterRule::SameValue => Rule::SameValue,
            RegisterRule::ValOffset(offset) => Rule::ValCfa(*offset),
            RegisterRule::Register(register) if register.0 == own.0 => Rule::SameValue,
            RegisterRule::Register(register) => Rule::Register { register: Register(register.0), offset: 0 },
            RegisterRule::Expression(expression) => match self.shape(expression) {
                Some(Shape::Sum { register, offset }) => Rule::Memory { register, offset },
                _ => Rule::Expression,
            },
            RegisterRule::ValExpression(expression) => match self.shape(expression) {
                Some(Shape::Sum { register, offset }) => Rule::Register { register, offset },
                Some(Shape::Load { register, offset }) => Rule::Memory { register, offset },
                _ => Rule::Expression,
            },
            _ => Rule::Expression,
        }
    }

    /// Returns the value of a rule that gives a register a number.
    fn constant(&self, rule: &RegisterRule<usize>) -> Option<u64> {
        match rule {
            RegisterRule::Constant(value) => Some(*value),
            RegisterRule::ValExpression(expression) => match self.shape(expression)? {
                Shape::Constant(value) => Some(value),
                Shape::Sum { .. } | Shape::Load { .. } | Shape::Plt { .. } => None,
            },
            _ => None,
        }
    }

    fn shape(&self, expression: &gimli::UnwindExpression<usize>) -> Option<Shape> {
        shape(expression.get(self.section).ok()?, self.cie.encoding())
    }
}

/// Not inlined, so that all kinds of sections share the code.
#[inline(never)]
fn sort_by_register(rules: &mut [(Register, Rule)]) {
    rules.sort_unstable_by_key(|(register, _)| *register);
}

/// Returns whether this is x86-64. Only there does ld's expression for stubs count from rsp and rip, registers 7 and
/// 16.
fn has_stub_expression(arch: Arch) -> bool {
    match arch {
        Arch::Amd64 => true,
        Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => false,
    }
}

/// Returns whether a rule for the caller's stack pointer says the same as every `.sframe` row: it is the CFA, or 160
/// bytes below the CFA on s390x.
fn is_cfa(rule: Rule, cfa: Cfa, arch: Arch) -> bool {
    let below = arch.stack_pointer_from_cfa();
    // DW_CFA_same_value: only where the CFA is counted from the stack pointer may this be the CFA.
    let unchanged = Rule::Register { register: arch.stack_pointer(), offset: 0 };
    match if rule == Rule::SameValue { unchanged } else { rule } {
        Rule::ValCfa(offset) => offset == below,
        Rule::Cfa(_) if arch.saves_stack_pointer() => true,
        moved @ Rule::Register { offset: 0, .. } if moved != unchanged && arch.saves_stack_pointer() => true,
        Rule::Register { register, offset } => {
            offset.checked_sub(below).is_some_and(|offset| cfa == Cfa::Register { register, offset })
        }
        Rule::Memory { register, offset } => below == 0 && cfa == Cfa::Memory { register, offset },
        Rule::Cfa(_) | Rule::SameValue | Rule::Undefined | Rule::Expression => false,
    }
}
