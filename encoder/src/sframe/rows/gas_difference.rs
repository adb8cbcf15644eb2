//! Where the table of gas 2.47 contradicts the call frame information that it writes beside it.

use alloc::vec::Vec;

use cfipack_format::{Reason, Row, Rule};

use super::gas_instruction::{GasAction, gas_action};
use super::gas_marks::Marked;
use super::gas_row::GasRows;
use crate::cfi::{Function, Instruction, Instructions, StackPointer, State};

/// A PC from which the rows of gas 2.47 have another meaning than the directives: layout [`Gnu`](super::super::Layout::Gnu)
/// encodes the directives there, or omits the function, and its bytes are not gas's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GasDifference {
    /// Bytes from the function's start.
    pub offset: u64,
    /// The directive of which gas makes something else, such as `.cfi_restore`.
    pub directive: &'static str,
}

impl GasDifference {
    /// Finds the first such PC of a function that gas keeps; none if its rows are those of the directives.
    pub fn of(marked: Marked<'_, '_>) -> Option<Self> {
        if marked.marks.omitted.is_some() {
            return None;
        }
        let mut walk = Walk::new(marked.function, false);
        let is_kept = walk.run();
        if is_kept && walk.is_flex {
            walk = Walk::new(marked.function, true);
            walk.run();
        }
        walk.found.filter(|_| is_kept)
    }
}

/// gas's rows and DWARF's, side by side.
struct Walk<'a, 'f> {
    function: &'f Function<'a>,
    gas: GasRows,
    state: State<'a, StackPointer>,
    remembered: Vec<State<'a, StackPointer>>,
    /// True if the rows are those of a flex FDE.
    is_written_flex: bool,
    is_flex: bool,
    /// True if gas has a row.
    has_begun: bool,
    is_touched: bool,
    /// True if an instruction had no meaning.
    is_undefined: bool,
    /// The directive since which both differ.
    cause: Option<&'static str>,
    location: u64,
    found: Option<GasDifference>,
}

impl<'a, 'f> Walk<'a, 'f> {
    fn new(function: &'f Function<'a>, is_written_flex: bool) -> Self {
        let arch = function.arch();
        Self {
            function,
            gas: GasRows::new(arch),
            state: State::at_entry(arch),
            remembered: Vec::new(),
            is_written_flex,
            is_flex: is_written_flex,
            has_begun: false,
            is_touched: false,
            is_undefined: false,
            cause: None,
            location: 0,
            found: None,
        }
    }

    /// Returns whether gas keeps the function.
    fn run(&mut self) -> bool {
        let function = self.function;
        let entry = (self.state.row, self.state.registers);
        let is_kept = self.instructions(Instructions::new(function, function.cie.instructions), &entry) && {
            let initial = (self.state.row, self.state.registers);
            self.instructions(Instructions::new(function, function.instructions), &initial)
        };
        if self.location < function.size {
            self.compare();
        }
        is_kept && (!self.has_begun || self.gas.end_row())
    }

    fn instructions(&mut self, instructions: Instructions<'a, '_>, initial: &(Row, StackPointer)) -> bool {
        instructions.into_iter().all(|instruction| {
            instruction.is_ok_and(|instruction| self.instruction(instruction, initial).is_ok_and(|kept| kept))
        })
    }

    /// Returns whether gas keeps the function, or why it does not.
    fn instruction(
        &mut self,
        instruction: Instruction<'a>,
        initial: &(Row, StackPointer),
    ) -> Result<bool, Reason> {
        let arch = self.function.arch();
        let target = match instruction {
            Instruction::Advance(delta) => self.location.saturating_add(delta),
            Instruction::SetLocation(address) => self.function.location_of(address)?,
            _ => self.location,
        };
        if matches!(instruction, Instruction::Advance(_) | Instruction::SetLocation(_)) {
            if target > self.location {
                self.compare();
            }
            let is_kept = !self.is_touched || self.gas.end_row();
            (self.has_begun, self.is_touched, self.location) = (true, false, target);
            return Ok(is_kept);
        }
        match gas_action(arch, instruction, self.gas.cfa_base(), self.has_begun)? {
            GasAction::None => {}
            action => {
                self.is_flex |= action == GasAction::Flex;
                (self.is_touched, self.has_begun) = (true, true);
            }
        }
        let is_kept = self.gas.follow(instruction);
        self.is_undefined |= self.state.apply(instruction, arch, initial, &mut self.remembered).is_err();
        if self.agrees() {
            self.cause = None;
        } else {
            self.cause.get_or_insert(directive(instruction));
        }
        Ok(is_kept)
    }

    fn agrees(&self) -> bool {
        let State { row, registers, .. } = &self.state;
        let gas = self.gas.meaning(self.is_written_flex);
        !self.is_undefined
            && row.unwinds_as(&gas)
            && (row.return_address == Rule::Undefined || registers.is_cfa(self.function.arch(), row))
    }

    /// Compares the rows that PCs from here on have.
    fn compare(&mut self) {
        if self.has_begun && self.found.is_none() && !self.agrees() {
            let directive = self.cause.unwrap_or(".cfi_startproc");
            self.found = Some(GasDifference { offset: self.location, directive });
        }
    }
}

/// The directive of an instruction.
fn directive(instruction: Instruction<'_>) -> &'static str {
    match instruction {
        Instruction::DefCfa(..) => ".cfi_def_cfa",
        Instruction::DefCfaRegister(_) => ".cfi_def_cfa_register",
        Instruction::DefCfaOffset(_) => ".cfi_def_cfa_offset",
        Instruction::Undefined(_) => ".cfi_undefined",
        Instruction::SameValue(_) => ".cfi_same_value",
        Instruction::Offset(..) => ".cfi_offset",
        Instruction::ValOffset(..) => ".cfi_val_offset",
        Instruction::Register(..) => ".cfi_register",
        Instruction::Restore(_) => ".cfi_restore",
        Instruction::RememberState => ".cfi_remember_state",
        Instruction::RestoreState => ".cfi_restore_state",
        Instruction::NegateRaState => ".cfi_negate_ra_state",
        Instruction::Nop
        | Instruction::Advance(_)
        | Instruction::SetLocation(_)
        | Instruction::DefCfaExpression(_)
        | Instruction::Expression(..)
        | Instruction::ValExpression(..)
        | Instruction::ArgsSize(_) => ".cfi_escape",
    }
}
