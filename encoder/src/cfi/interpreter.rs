//! Runs a function's instructions and pushes its rows.

use alloc::vec::Vec;

use cfipack_format::{Arch, Cfa, FunctionOffset, Register, Row, Rule};

use super::expression::simple;
use super::{Function, Instruction, Instructions};
use crate::{Reason, Unsupported};

/// The registers beside the CFA, the return address and the frame pointer whose rules matter to
/// whoever consumes the rows.
pub trait Registers: Copy {
    /// The state before any instruction.
    fn at_entry(arch: Arch) -> Self;

    /// A rule for a register. Returns whether it matters.
    fn set(&mut self, register: Register, rule: Rule) -> bool;

    /// Back to the rule after the CIE's instructions. Returns whether it matters.
    fn restore(&mut self, register: Register, initial: &Self) -> bool;
}

/// What the instructions have said up to a PC.
#[derive(Clone, Copy, Debug)]
pub struct State<'a, R> {
    /// The row; its `start` is the PC.
    pub row: Row,
    /// The expression behind [`Cfa::Expression`].
    pub cfa_expression: &'a [u8],
    /// Rules of further registers.
    pub registers: R,
}

/// Takes rows as they come to be.
pub trait RowSink<'a, R> {
    /// A row that answers from its start up to the start of the next. Starts ascend strictly and
    /// lie inside the function. A reason ends the function.
    fn row(&mut self, state: &State<'a, R>) -> Result<(), Reason>;
}

/// How far a function's instructions went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Bytes of the function's own instructions that were needed; what follows them is padding.
    pub needed: usize,
    /// The location at the end, from the function's start.
    pub end: u64,
    /// Whether an instruction names an address, so that the rows hold for this place only.
    pub names_address: bool,
}

/// The state machine of DWARF 5 section 6.4.2, for many functions one after the other.
#[derive(Clone, Debug)]
pub struct Interpreter<'a, R> {
    /// The state after the instructions of the CIE that was used last.
    initial: Option<Initial<'a, R>>,
    /// States put aside by `DW_CFA_remember_state`.
    remembered: Vec<State<'a, R>>,
}

#[derive(Clone, Debug)]
struct Initial<'a, R> {
    cie: super::Cie<'a>,
    arch: Arch,
    state: State<'a, R>,
}

/// How deep `DW_CFA_remember_state` may nest: far beyond what compilers write, and a bound on what
/// hostile input can make us remember.
const MAX_REMEMBERED: usize = 1024;

/// AArch64's pseudo register for the state of the return address's signature.
const RA_SIGN_STATE: Register = Register(34);

impl<'a, R: Registers> Interpreter<'a, R> {
    /// An interpreter that has seen no function.
    pub fn new() -> Self {
        Self { initial: None, remembered: Vec::new() }
    }

    /// Runs one function. Rows at or past its end are left out; a function of size 0 has none.
    #[inline]
    pub fn run(
        &mut self,
        function: &Function<'a>,
        sink: &mut impl RowSink<'a, R>,
    ) -> Result<Ran, Unsupported> {
        let mut state = match &self.initial {
            Some(initial) if initial.holds_for(function) => initial.state,
            _ => self.run_cie(function)?,
        };
        self.remembered.clear();
        let at = |pc: u64, reason| unsupported(function, pc, reason);
        let initial = state.registers;
        let initial_row = state.row;
        let mut location: u64 = 0;
        let mut changed = true;
        let mut needed = 0;
        let mut names_address = false;
        let mut instructions = Instructions::new(function, function.instructions);
        while let Some(instruction) = instructions.decode() {
            let instruction = instruction.map_err(|reason| at(location, reason))?;
            if instruction == Instruction::Nop {
                continue;
            }
            needed = function.instructions.len() - instructions.rest().len();
            let target = match instruction {
                Instruction::Advance(delta) => location.saturating_add(delta),
                Instruction::SetLocation(address) => {
                    let target = address.0.wrapping_sub(function.start.0);
                    if target < location || target > i64::MAX as u64 {
                        return Err(at(location, Reason::LocationBackwards));
                    }
                    names_address = true;
                    target
                }
                _ => {
                    changed |= state
                        .apply(instruction, function.arch(), &initial_row, &initial, &mut self.remembered)
                        .map_err(|reason| at(location, reason))?;
                    continue;
                }
            };
            if target == location {
                continue;
            }
            if changed && location < function.size {
                changed = false;
                push(&mut state, location, sink).map_err(|reason| at(location, reason))?;
            }
            location = target;
        }
        if changed && location < function.size {
            push(&mut state, location, sink).map_err(|reason| at(location, reason))?;
        }
        Ok(Ran { needed, end: location, names_address })
    }

    /// The state after the instructions of a function's CIE, kept for the next function.
    pub(crate) fn run_cie(&mut self, function: &Function<'a>) -> Result<State<'a, R>, Unsupported> {
        let arch = function.arch();
        let entry = Row::at_entry(arch);
        let mut state = State { row: entry, cfa_expression: &[], registers: R::at_entry(arch) };
        let registers = state.registers;
        self.remembered.clear();
        for instruction in Instructions::new(function, function.cie.instructions) {
            instruction
                .and_then(|instruction| match instruction {
                    Instruction::Nop => Ok(false),
                    Instruction::Advance(_) | Instruction::SetLocation(_) | Instruction::Restore(_) => {
                        Err(Reason::CieInstruction)
                    }
                    _ => state.apply(instruction, arch, &entry, &registers, &mut self.remembered),
                })
                .map_err(|reason| unsupported(function, 0, reason))?;
        }
        self.initial = Some(Initial { cie: function.cie, arch, state });
        Ok(state)
    }
}

impl<R: Registers> Default for Interpreter<'_, R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R> Initial<'_, R> {
    #[inline]
    fn holds_for(&self, function: &Function<'_>) -> bool {
        // One object's CIEs differ in their offsets; equal offsets may come from two objects.
        self.cie.offset == function.cie.offset
            && self.arch == function.arch()
            && self.cie.means_the_same(&function.cie)
    }
}

#[cold]
fn unsupported(function: &Function<'_>, location: u64, reason: Reason) -> Unsupported {
    let pc = cfipack_format::Address(function.start.0.wrapping_add(location));
    Unsupported { function: function.start, pc, reason }
}

#[inline(always)]
fn push<'a, R>(
    state: &mut State<'a, R>,
    location: u64,
    sink: &mut impl RowSink<'a, R>,
) -> Result<(), Reason> {
    let start = u32::try_from(location).map_err(|_| Reason::FunctionSize)?;
    state.row.start = FunctionOffset(start);
    sink.row(state)
}

impl<'a, R: Registers> State<'a, R> {
    /// The state before any instruction.
    pub fn at_entry(arch: Arch) -> Self {
        Self { row: Row::at_entry(arch), cfa_expression: &[], registers: R::at_entry(arch) }
    }

    /// Carries out an instruction other than an advance. Returns whether the row or a register
    /// that matters was given a rule, be it the same as before.
    #[inline(always)]
    pub(crate) fn apply(
        &mut self,
        instruction: Instruction<'a>,
        arch: Arch,
        initial_row: &Row,
        initial: &R,
        remembered: &mut Vec<Self>,
    ) -> Result<bool, Reason> {
        match instruction {
            Instruction::Nop
            | Instruction::ArgsSize(_)
            | Instruction::Advance(_)
            | Instruction::SetLocation(_) => return Ok(false),
            Instruction::DefCfa(register, offset) => self.row.cfa = Cfa::Register { register, offset },
            Instruction::DefCfaRegister(register) => match &mut self.row.cfa {
                Cfa::Register { register: base, .. } => *base = register,
                _ => return Err(Reason::CfaWithoutBase),
            },
            Instruction::DefCfaOffset(offset) => match &mut self.row.cfa {
                Cfa::Register { offset: bytes, .. } => *bytes = offset,
                _ => return Err(Reason::CfaWithoutBase),
            },
            Instruction::DefCfaExpression(block) => {
                self.row.cfa = match simple(block) {
                    Some(base) if base.deref => Cfa::Memory { register: base.register, offset: base.offset },
                    Some(base) => Cfa::Register { register: base.register, offset: base.offset },
                    None => Cfa::Expression,
                };
                self.cfa_expression = block;
            }
            Instruction::Offset(register, offset) => return self.set(arch, register, Rule::Cfa(offset)),
            Instruction::Restore(register) => return self.restore(arch, register, initial_row, initial),
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
            Instruction::NegateRaState if arch.is_aarch64() => self.row.signed = !self.row.signed,
            Instruction::NegateRaState => return Err(Reason::InstructionUnknown(0x2d)),
        }
        Ok(true)
    }

    #[inline]
    fn set(&mut self, arch: Arch, register: Register, rule: Rule) -> Result<bool, Reason> {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = rule;
        } else if register == arch.return_address() {
            self.row.return_address = rule;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            return Err(Reason::SignStateRule);
        } else {
            return Ok(self.registers.set(register, rule));
        }
        Ok(true)
    }

    #[inline]
    fn restore(
        &mut self,
        arch: Arch,
        register: Register,
        initial_row: &Row,
        initial: &R,
    ) -> Result<bool, Reason> {
        if register == arch.frame_pointer() {
            self.row.frame_pointer = initial_row.frame_pointer;
        } else if register == arch.return_address() {
            self.row.return_address = initial_row.return_address;
        } else if register == RA_SIGN_STATE && arch.is_aarch64() {
            self.row.signed = initial_row.signed;
        } else {
            return Ok(self.registers.restore(register, initial));
        }
        Ok(true)
    }
}
