//! Runs a function's instructions and pushes its rows.

use alloc::vec::Vec;

use cfipack_format::{Address, Arch, Endian, FunctionOffset, Register, Rule};

use cfipack_format::{Reason, Unsupported};

use crate::instruction::Short;
use crate::{Function, Instruction, Instructions, Registers, State, Stretch};

/// How a row can differ from the row before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Only the CFA's offset differs, and the new offset is small and not negative. This is so for most rows of
    /// real programs.
    CfaOffset,
    /// Anything may differ.
    Any,
}

/// Receives rows from the [`Interpreter`]. Implement this trait to use rows as they are produced.
pub trait RowSink<'a, R> {
    /// Receives a row. It covers the code from its start to the start of the next row. Starts are strictly
    /// ascending and lie inside the function. If you return a reason, the function ends with an error.
    fn row(&mut self, state: &State<'a, R>, change: Change) -> Result<(), Reason>;

    /// Receives the number of bytes of arguments on the stack from here on (`DW_CFA_GNU_args_size`). It is not
    /// called for 0. No row depends on arguments, but landing pads do. If you return a reason, the function
    /// ends with an error.
    #[inline]
    fn arguments(&mut self, _size: u64) -> Result<(), Reason> {
        Ok(())
    }

    /// Receives a stretch of rows that differ only in the CFA's offset, for speed. Take as many steps as you
    /// like. The interpreter then sends the remaining rows to [`row`](Self::row), starting with the row in
    /// effect where you stopped. The default takes none.
    #[inline(always)]
    fn stretch(&mut self, _stretch: &mut Stretch<'a>) {}
}

/// The state machine of DWARF 5, section 6.4.2. Use the same interpreter for many functions: it keeps its
/// memory, and the state after the last CIE.
#[derive(Clone, Debug)]
pub struct Interpreter<'a, R> {
    /// The state after the instructions of the last CIE.
    initial: Option<Initial<'a, R>>,
    /// The states that `DW_CFA_remember_state` has saved.
    remembered: Vec<State<'a, R>>,
}

#[derive(Clone, Debug)]
struct Initial<'a, R> {
    cie: crate::Cie<'a>,
    arch: Arch,
    state: State<'a, R>,
}

impl<'a, R: Registers> Interpreter<'a, R> {
    /// Creates an interpreter.
    pub fn new() -> Self {
        Self { initial: None, remembered: Vec::new() }
    }

    /// Runs a function, and pushes its rows into `sink`. Rows at or after the function's end are omitted, and a
    /// function of size 0 has no rows.
    ///
    /// # Errors
    /// An instruction is malformed or has no meaning here, or `sink` has returned a reason.
    #[inline]
    pub fn run(
        &mut self,
        function: &Function<'a>,
        sink: &mut impl RowSink<'a, R>,
    ) -> Result<(), Unsupported> {
        if !self.initial.as_ref().is_some_and(|initial| initial.holds_for(function)) {
            self.run_cie(function)?;
        }
        let Some(Initial { state: initial, .. }) = &self.initial else {
            return Err(unsupported(function, 0, Reason::CfaMissing));
        };
        let mut state = *initial;
        self.remembered.clear();
        let arch = function.arch();
        let ignored = state.registers.ignored(arch);
        let mut location = 0;
        let refused = |location, reason| unsupported(function, location, reason);
        let mut change = Some(Change::Any);
        let mut instructions = Instructions::new(function, function.instructions);
        loop {
            if matches!(change, None | Some(Change::CfaOffset))
                && take_stretch(function, ignored, &mut state, &mut location, &mut instructions, sink)
            {
                change = Some(Change::CfaOffset);
            }
            let target = match instructions.short() {
                Some(Short::Nop) => continue,
                Some(Short::Advance(delta)) => location.saturating_add(delta),
                Some(Short::Offset(register, offset)) => {
                    let (mut register, mut offset) = (register, offset);
                    loop {
                        // The register of a short instruction is below 64.
                        if ignored >> register.0 & 1 == 0 {
                            let matters = state.set(arch, register, Rule::Cfa(offset));
                            if matters.map_err(|reason| refused(location, reason))? {
                                change = Some(Change::Any);
                            }
                        }
                        // Instructions of this kind usually follow each other.
                        let Some(next) = instructions.short_offset() else { break };
                        (register, offset) = next;
                    }
                    continue;
                }
                Some(Short::DefCfaOffset(bytes)) => {
                    let base = state.cfa_base().map_err(|reason| refused(location, reason))?;
                    *base.1 = bytes;
                    change.get_or_insert(Change::CfaOffset);
                    continue;
                }
                None => {
                    let Some(instruction) = instructions.decode() else { break };
                    let instruction = match instruction {
                        Ok(instruction) => instruction,
                        Err(reason) => return Err(refused(location, reason)),
                    };
                    match instruction {
                        Instruction::Nop => continue,
                        Instruction::Advance(delta) => location.saturating_add(delta),
                        Instruction::SetLocation(address) => advance_to(function, location, address)
                            .map_err(|reason| refused(location, reason))?,
                        instruction => {
                            if let Instruction::ArgsSize(size @ 1..) = instruction {
                                sink.arguments(size).map_err(|reason| refused(location, reason))?;
                            }
                            let changed = state
                                .apply(instruction, arch, initial, &mut self.remembered)
                                .map_err(|reason| refused(location, reason))?;
                            if changed {
                                change = Some(Change::Any);
                            }
                            continue;
                        }
                    }
                }
            };
            if target == location {
                continue;
            }
            if let Some(change) = change.take()
                && location < function.size
            {
                push(&mut state, location, change, sink).map_err(|reason| refused(location, reason))?;
            }
            location = target;
        }
        if let Some(change) = change
            && location < function.size
        {
            push(&mut state, location, change, sink).map_err(|reason| refused(location, reason))?;
        }
        Ok(())
    }

    /// Runs the instructions of a function's CIE and returns the state after them. The state is kept for the
    /// next function.
    ///
    /// # Errors
    /// An instruction is malformed, or it may not be in a CIE.
    pub fn run_cie(&mut self, function: &Function<'a>) -> Result<State<'a, R>, Unsupported> {
        let arch = function.arch();
        let mut state = State::at_entry(arch);
        let entry = state;
        self.remembered.clear();
        let mut ruled = Ruled(0);
        let mut instructions = Instructions::new(function, function.cie.instructions);
        while let Some(instruction) = instructions.decode() {
            instruction
                .and_then(|instruction| match instruction {
                    Instruction::Nop => Ok(false),
                    Instruction::Advance(_) | Instruction::SetLocation(_) => Err(Reason::CieInstruction),
                    // gas writes a restore into a CIE, but only of a register without a rule.
                    Instruction::Restore(register) if ruled.has(register) => Err(Reason::CieInstruction),
                    _ => {
                        ruled.add(&instruction);
                        state.apply(instruction, arch, &entry, &mut self.remembered)
                    }
                })
                .map_err(|reason| unsupported(function, 0, reason))?;
        }
        self.initial = Some(Initial { cie: function.cie, arch, state });
        Ok(state)
    }
}

/// A bit set of the registers that the CIE has given a rule. Bit 127 stands for all registers from 127 on.
///
/// `DW_CFA_restore` restores the rule from the CIE. So it has no meaning in the CIE itself, after a rule for
/// its register.
struct Ruled(u128);

impl Ruled {
    fn bit(register: Register) -> u128 {
        1 << register.0.min(127)
    }

    fn has(&self, register: Register) -> bool {
        self.0 & Self::bit(register) != 0
    }

    fn add(&mut self, instruction: &Instruction<'_>) {
        let register = match *instruction {
            Instruction::Offset(register, _)
            | Instruction::Undefined(register)
            | Instruction::SameValue(register)
            | Instruction::ValOffset(register, _)
            | Instruction::Register(register, _)
            | Instruction::Expression(register, _)
            | Instruction::ValExpression(register, _) => register,
            // These instructions change the whole state, or DWARF does not define them.
            Instruction::RememberState
            | Instruction::RestoreState
            | Instruction::NegateRaState
            | Instruction::SetRaState(..)
            | Instruction::ArgsSize(_) => {
                self.0 = u128::MAX;
                return;
            }
            _ => return,
        };
        self.0 |= Self::bit(register);
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
        // Equal offsets do not prove that the CIE is the same: the functions may come from two objects.
        self.cie.offset == function.cie.offset
            && self.arch == function.arch()
            && self.cie.means_the_same(&function.cie)
    }
}

/// Lets the sink take a stretch. Returns whether the sink took any steps; then the row at the new location has
/// not been pushed.
#[inline(always)]
fn take_stretch<'a, R: Registers>(
    function: &Function<'a>,
    ignored: u64,
    state: &mut State<'a, R>,
    location: &mut u64,
    instructions: &mut Instructions<'a, '_>,
    sink: &mut impl RowSink<'a, R>,
) -> bool {
    let Ok((_, offset)) = state.cfa_base() else { return false };
    let rest = instructions.rest();
    let mut stretch = Stretch {
        rest,
        location: *location,
        offset: *offset,
        end: function.size,
        code_alignment: function.cie.code_alignment,
        little_endian: function.arch().endian() == Endian::Little,
        ignored,
    };
    sink.stretch(&mut stretch);
    let took = stretch.rest.len() != rest.len();
    if took {
        (*location, *offset) = stretch.row();
        instructions.set_rest(stretch.rest);
    }
    took
}

/// Returns the location of an address, which must be at or after `from`.
#[cold]
fn advance_to(function: &Function<'_>, from: u64, address: Address) -> Result<u64, Reason> {
    let target = function.location_of(address)?;
    if target < from || target > i64::MAX as u64 { Err(Reason::LocationBackwards) } else { Ok(target) }
}

#[cold]
fn unsupported(function: &Function<'_>, location: u64, reason: Reason) -> Unsupported {
    Unsupported { function: function.key, offset: location, reason }
}

#[inline(always)]
fn push<'a, R>(
    state: &mut State<'a, R>,
    location: u64,
    change: Change,
    sink: &mut impl RowSink<'a, R>,
) -> Result<(), Reason> {
    let start = u32::try_from(location).map_err(|_| Reason::FunctionSize)?;
    state.row.start = FunctionOffset(start);
    sink.row(state, change)
}
