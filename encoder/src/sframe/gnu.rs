//! Layout `gnu`: the row structure of gas 2.47.
//!
//! gas does not compare rows. It ends a row where an instruction that it tracks is followed by an
//! advance, even if nothing has changed, and always at the function's end; instructions on
//! registers that it does not track vanish together with their advance. The rows' *contents* here are the
//! state machine's of DWARF: gas has one slot for remembered states where DWARF has a stack, takes
//! `.cfi_def_cfa_register`'s offset from the row before, and more. Where gas's row is wrong, ours differs.
//! What gas leaves out for what it believes of its rows, rightly or not, is left out here too ([`Beliefs`]).

use alloc::vec::Vec;
use core::iter;

use cfipack_format::sframe::{FdeType, FreType};
use cfipack_format::{Arch, Cfa, FunctionOffset, Row, Rule};

use super::belief::{Belief, Beliefs};
use super::effect::{Effect, effect};
use super::fre::Fre;
use super::fres::{Fres, MAX_ROWS};
use super::stack_pointer::StackPointer;
use crate::cfi::{Function, Instruction, Instructions, Interpreter, State};
use crate::{Reason, Unsupported};

/// The rows of one function as gas would write them.
pub(super) struct GnuRows<'a, 'f, 'b> {
    function: &'f Function<'a>,
    interpreter: &'b mut Interpreter<'a, StackPointer>,
    fres: &'b mut Fres,
    arch: Arch,
    fde_type: FdeType,
    /// Whether a flex FDE turned out to be needed.
    flex: bool,
    /// Whether there is a row at all: not before the first instruction or advance.
    begun: bool,
    touched: bool,
    /// What gas believes of its rows.
    beliefs: Beliefs,
    /// The location, from the function's start.
    location: u64,
}

impl<'a, 'f, 'b> GnuRows<'a, 'f, 'b> {
    pub(super) fn new(
        function: &'f Function<'a>,
        interpreter: &'b mut Interpreter<'a, StackPointer>,
        fres: &'b mut Fres,
    ) -> Self {
        let arch = function.arch();
        let fde_type = FdeType::Default;
        Self {
            function,
            interpreter,
            fres,
            arch,
            fde_type,
            flex: false,
            begun: false,
            touched: false,
            beliefs: Beliefs::default(),
            location: 0,
        }
    }

    /// Writes the rows. Returns the type of the FDE.
    pub(super) fn run(&mut self, flex_allowed: bool) -> Result<FdeType, Unsupported> {
        self.run_as(FdeType::Default)?;
        if !self.flex {
            return Ok(FdeType::Default);
        }
        if !flex_allowed {
            return Err(self.unsupported(Reason::FlexNeeded));
        }
        self.run_as(FdeType::Flex)?;
        Ok(FdeType::Flex)
    }

    fn run_as(&mut self, fde_type: FdeType) -> Result<(), Unsupported> {
        (self.fde_type, self.begun, self.touched, self.location) = (fde_type, false, false, 0);
        self.beliefs = Beliefs::default();
        // gas chooses by the function's size, so that every possible start fits.
        self.fres.begin(FreType::for_start(u32::try_from(self.function.size).unwrap_or(u32::MAX)));
        self.rows().map_err(|reason| self.unsupported(reason))
    }

    fn unsupported(&self, reason: Reason) -> Unsupported {
        Unsupported { function: self.function.key, offset: self.location, reason }
    }

    fn rows(&mut self) -> Result<(), Reason> {
        let function = self.function;
        let initial = self.interpreter.run_cie(function).map_err(|unsupported| unsupported.reason)?;
        let initial = (initial.row, initial.registers);
        let mut remembered = Vec::new();
        let mut state: State<'a, StackPointer> = State::at_entry(self.arch);
        // The row in force where the location came to.
        let mut entered = state.row;
        let in_cie = Instructions::new(function, function.cie.instructions);
        let in_fde = Instructions::new(function, function.instructions);
        for instruction in instructions(in_cie).chain(instructions(in_fde)) {
            let instruction = instruction?;
            let advanced = match instruction {
                Instruction::Advance(delta) => self.location.saturating_add(delta),
                Instruction::SetLocation(address) => function.location_of(address)?,
                _ => {
                    self.apply(instruction, &mut state, &initial, &mut remembered)?;
                    continue;
                }
            };
            if advanced < self.location {
                return Err(Reason::LocationBackwards);
            }
            if advanced > self.location {
                // What gas ignores by mistake must not be lost.
                if self.touched || !entered.unwinds_as(&state.row) {
                    self.push(&mut state)?;
                }
                self.check_stack_pointer(&state)?;
                (self.begun, self.touched, self.location) = (true, false, advanced);
                entered = state.row;
            }
        }
        self.check_stack_pointer(&state)?;
        if self.begun { self.push(&mut state) } else { Ok(()) }
    }

    /// Carries out an instruction that does not advance.
    fn apply(
        &mut self,
        instruction: Instruction<'a>,
        state: &mut State<'a, StackPointer>,
        initial: &(Row, StackPointer),
        remembered: &mut Vec<State<'a, StackPointer>>,
    ) -> Result<(), Reason> {
        let effect = effect(self.arch, instruction, self.beliefs.now.cfa_base, self.begun)?;
        let before = *state;
        state.apply(instruction, self.arch, initial, remembered)?;
        self.beliefs.follow(self.arch, instruction, &initial.0);
        if effect == Effect::None {
            // Behind the last PC, where gas ends with a row all the same, what it ignores is true of nothing.
            if self.location == self.function.size {
                *state = before;
            }
            return Ok(());
        }
        self.flex |= effect == Effect::Flex;
        (self.touched, self.begun) = (true, true);
        Ok(())
    }

    /// gas takes no notice of where the caller's stack pointer is.
    fn check_stack_pointer(&self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        let State { row, registers, .. } = state;
        let has_caller = row.cfa != Cfa::Undefined && row.return_address != Rule::Undefined;
        let is_inside = self.location < self.function.size;
        if is_inside && has_caller && !registers.is_cfa(self.arch, row) {
            return Err(Reason::StackPointerRule);
        }
        Ok(())
    }

    fn push(&mut self, state: &mut State<'a, StackPointer>) -> Result<(), Reason> {
        if self.location > self.function.size {
            return Ok(());
        }
        self.beliefs.end_row();
        let row = &mut state.row;
        row.start = FunctionOffset(u32::try_from(self.location).map_err(|_| Reason::FunctionSize)?);
        if self.fres.count() == MAX_ROWS {
            return Err(Reason::RowCount);
        }
        let Belief { fp_on_stack, ra_on_stack, .. } = self.beliefs.now;
        if self.arch.is_aarch64() && fp_on_stack && !ra_on_stack {
            return Err(Reason::FramePointerAlone);
        }
        match Fre::new(self.arch, row, self.fde_type) {
            Ok(fre) => self.fres.push(row.start.0, &fre),
            Err(reason) if self.fde_type == FdeType::Flex => return Err(reason),
            Err(reason @ (Reason::FramePointerAlone | Reason::CfaOffset(_) | Reason::RuleOffset(_))) => {
                return Err(reason);
            }
            Err(_) => self.flex = true,
        }
        Ok(())
    }
}

/// The instructions, but for those that gas never writes by itself and refuses in `.cfi_escape`:
/// `DW_CFA_MIPS_advance_loc8` and `DW_CFA_GNU_negative_offset_extended`.
fn instructions<'a>(
    mut instructions: Instructions<'a, '_>,
) -> impl Iterator<Item = Result<Instruction<'a>, Reason>> {
    iter::from_fn(move || match instructions.rest() {
        [opcode, ..] if instructions.is_outside_dwarf() => Some(Err(Reason::GasInstruction(*opcode))),
        _ => instructions.next(),
    })
}
