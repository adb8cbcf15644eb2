//! Layout `gnu`: the row structure of gas 2.47.
//!
//! gas does not compare rows. It ends a row where an advance follows an instruction that gas tracks, even if
//! nothing has changed, and always at the function's end. Instructions on registers that gas does not track
//! vanish together with their advance.
//!
//! The *contents* of the rows here come from DWARF's state machine. gas has a single slot for remembered states
//! where DWARF has a stack, takes the offset of `.cfi_def_cfa_register` from the row before, and differs in
//! more ways. If gas's row is wrong, ours is different. If gas omits a function because of the state that it
//! tracks, rightly or not, this layout omits the function too ([`GasStates`]).

use alloc::vec::Vec;

use cfipack_format::sframe::{Abi, FdeType, Version};
use cfipack_format::{Arch, Cfa, Row, Rule};

use crate::cfi::StackPointer;
use crate::cfi::{Cie, Function, Instruction, Instructions, Interpreter, Registers, Short, State};
use crate::sframe::options::{Layout, Options};
use crate::sframe::rows::fre::Fre;
use crate::sframe::rows::fres::{Fres, MAX_ROWS};
use crate::sframe::rows::gas_instruction::{GasAction, gas_action};
use crate::sframe::rows::gas_marks::GasMarks;
use crate::sframe::rows::gas_state::{GasState, GasStates};
use crate::{Reason, Unsupported};

/// State that is kept from one function to the next.
#[derive(Clone, Default, Debug)]
pub(crate) struct Gnu<'a> {
    /// The start of the functions of the CIE that was used last.
    start: Option<Start<'a>>,
    /// States put aside by `DW_CFA_remember_state`.
    remembered: Vec<State<'a, StackPointer>>,
}

/// The state after a CIE's instructions.
#[derive(Clone, Debug)]
struct Start<'a> {
    cie: Cie<'a>,
    /// The rules that registers are restored to.
    initial: State<'a, StackPointer>,
    state: State<'a, StackPointer>,
    gnu_state: GnuState,
}

/// The state of gas's machine at a PC.
#[derive(Clone, Copy, Debug)]
struct GnuState {
    /// True if the function needs a flex FDE.
    flex: bool,
    /// True after the first instruction or advance: the function has a row.
    begun: bool,
    /// True if an instruction has changed the row: the row ends at the next advance.
    touched: bool,
    /// True if nothing but the CFA's offset differs from the row of the last FRE.
    only_offset: bool,
    /// The state that gas tracks of its rows.
    gas: GasStates,
    /// The location, from the function's start.
    location: u64,
    /// The row at the current location before a change that gas ignores, if there was one.
    entered: Option<Row>,
}

/// Makes the rows of a function as gas would write them.
pub(crate) struct GnuRows<'a, 'f, 'b> {
    function: &'f Function<'a>,
    marks: &'f GasMarks,
    interpreter: &'b mut Interpreter<'a, StackPointer>,
    gnu: &'b mut Gnu<'a>,
    fres: &'b mut Fres,
    arch: Arch,
    fde_type: FdeType,
    version: Version,
    /// True if the options allow rows without a caller.
    outermost: bool,
    gnu_state: GnuState,
}

impl GnuState {
    fn new(arch: Arch) -> Self {
        let entered = Some(Row::at_entry(arch));
        let gas = GasStates::default();
        Self { flex: false, begun: false, touched: false, only_offset: false, gas, location: 0, entered }
    }
}

impl<'a, 'f, 'b> GnuRows<'a, 'f, 'b> {
    pub(crate) fn new(
        function: &'f Function<'a>,
        marks: &'f GasMarks,
        interpreter: &'b mut Interpreter<'a, StackPointer>,
        gnu: &'b mut Gnu<'a>,
        fres: &'b mut Fres,
        options: &Options,
    ) -> Self {
        let arch = function.arch();
        let (fde_type, gnu_state) = (FdeType::Default, GnuState::new(arch));
        let (version, outermost) = (options.version, options.outermost);
        Self { function, marks, interpreter, gnu, fres, arch, fde_type, version, outermost, gnu_state }
    }

    /// Writes the rows. Returns the type of the FDE.
    pub(crate) fn run(&mut self, options: &Options) -> Result<FdeType, Unsupported> {
        if let Some((offset, reason)) = self.marks.omitted {
            return Err(Unsupported { function: self.function.key, offset, reason });
        }
        self.run_as(FdeType::Default)?;
        if !self.gnu_state.flex {
            return Ok(FdeType::Default);
        }
        if !options.flex {
            return Err(self.unsupported(Reason::FlexNeeded));
        }
        self.run_as(FdeType::Flex)?;
        Ok(FdeType::Flex)
    }

    fn run_as(&mut self, fde_type: FdeType) -> Result<(), Unsupported> {
        self.fde_type = fde_type;
        self.fres.begin(Layout::Gnu.fre_type(u32::try_from(self.function.size).unwrap_or(u32::MAX)));
        self.rows().map_err(|reason| self.unsupported(reason))
    }

    #[cold]
    fn unsupported(&self, reason: Reason) -> Unsupported {
        Unsupported { function: self.function.key, offset: self.gnu_state.location, reason }
    }

    fn rows(&mut self) -> Result<(), Reason> {
        let function = self.function;
        self.gnu.remembered.clear();
        let [initial, mut state] = self.start()?;
        let ignored = initial.registers.ignored(self.arch);
        let mut instructions = Instructions::new(function, function.instructions);
        loop {
            match instructions.short() {
                Some(Short::Nop) => {}
                Some(Short::Advance(delta)) => {
                    self.advance(&state, self.gnu_state.location.saturating_add(delta))?;
                }
                Some(Short::DefCfaOffset(bytes)) => {
                    *state.cfa_base()?.1 = bytes;
                    (self.gnu_state.touched, self.gnu_state.begun) = (true, true);
                }
                // gas does not track the register, and no row has it.
                Some(Short::Offset(register, _)) if ignored >> register.0 & 1 != 0 => {}
                Some(Short::Offset(register, offset)) => {
                    self.apply(Instruction::Offset(register, offset), &mut state, &initial)?;
                }
                None => match next(&mut instructions) {
                    Some(instruction) => self.instruction(instruction?, &mut state, &initial)?,
                    None => break,
                },
            }
        }
        self.check_stack_pointer(&state)?;
        if self.gnu_state.begun { self.push(&state) } else { Ok(()) }
    }

    /// Finds the rules that registers are restored to, and the state in which the function's own instructions
    /// begin.
    #[inline]
    fn start(&mut self) -> Result<[State<'a, StackPointer>; 2], Reason> {
        let (cie, flex) = (&self.function.cie, self.gnu_state.flex);
        match &self.gnu.start {
            // In a function without code no state is stored.
            Some(start) if self.function.size != 0 && start.cie.means_the_same(cie) => {
                self.gnu_state = GnuState { flex: start.gnu_state.flex || flex, ..start.gnu_state };
                Ok([start.initial, start.state])
            }
            _ => self.run_cie(),
        }
    }

    #[cold]
    fn run_cie(&mut self) -> Result<[State<'a, StackPointer>; 2], Reason> {
        let function = self.function;
        self.gnu.start = None;
        self.gnu_state = GnuState { flex: self.gnu_state.flex, ..GnuState::new(self.arch) };
        let initial = self.interpreter.run_cie(function).map_err(|unsupported| unsupported.reason)?;
        let mut state = State::at_entry(self.arch);
        // A `DW_CFA_restore` in the CIE goes back to it.
        let entry = state;
        let mut instructions = Instructions::new(function, function.cie.instructions);
        while let Some(instruction) = next(&mut instructions) {
            self.instruction(instruction?, &mut state, &entry)?;
        }
        if function.size != 0 && self.gnu.remembered.is_empty() && self.fde_type == FdeType::Default {
            self.gnu.start = Some(Start { cie: function.cie, initial, state, gnu_state: self.gnu_state });
        }
        Ok([initial, state])
    }

    /// Carries out an instruction.
    fn instruction(
        &mut self,
        instruction: Instruction<'a>,
        state: &mut State<'a, StackPointer>,
        initial: &State<'a, StackPointer>,
    ) -> Result<(), Reason> {
        match instruction {
            Instruction::Advance(delta) => self.advance(state, self.gnu_state.location.saturating_add(delta)),
            Instruction::SetLocation(address) => self.advance(state, self.function.location_of(address)?),
            _ => self.apply(instruction, state, initial),
        }
    }

    #[inline(always)]
    fn advance(&mut self, state: &State<'a, StackPointer>, target: u64) -> Result<(), Reason> {
        let GnuState { location, touched, entered, .. } = &self.gnu_state;
        if target < *location {
            return Err(Reason::LocationBackwards);
        }
        if target > *location {
            // Changes that gas ignores by mistake end a row too.
            if *touched || entered.is_some_and(|entered| !entered.unwinds_as(&state.row)) {
                self.push(state)?;
            }
            self.check_stack_pointer(state)?;
            let gnu_state = &mut self.gnu_state;
            (gnu_state.begun, gnu_state.touched, gnu_state.location, gnu_state.entered) =
                (true, false, target, None);
        } else if self.marks.zero_advances {
            self.zero_advance(state)?;
        }
        Ok(())
    }

    /// Goes on to another of gas's fragments at the same location.
    #[cold]
    fn zero_advance(&mut self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        if self.gnu_state.touched {
            self.push(state)?;
            self.gnu_state.entered = None;
        }
        (self.gnu_state.begun, self.gnu_state.touched) = (true, false);
        Ok(())
    }

    /// Carries out an instruction that does not advance.
    fn apply(
        &mut self,
        instruction: Instruction<'a>,
        state: &mut State<'a, StackPointer>,
        initial: &State<'a, StackPointer>,
    ) -> Result<(), Reason> {
        let has_register_words =
            Abi::for_arch(self.arch).is_some_and(|abi| abi.has_register_words(self.version));
        let is_word = has_register_words && matches!(instruction, Instruction::Register(..));
        let gnu_state = &mut self.gnu_state;
        let action = gas_action(self.arch, instruction, gnu_state.gas.current.cfa_base, gnu_state.begun)?;
        let remembered = &mut self.gnu.remembered;
        if action == GasAction::None && gnu_state.location == self.function.size {
            // gas writes a row even after the last PC. A change that gas ignores there concerns no PC.
            let mut ignored = *state;
            ignored.apply(instruction, self.arch, initial, remembered)?;
            gnu_state.gas.follow(self.arch, instruction, &initial.row);
            return Ok(());
        }
        gnu_state.only_offset = false;
        if action == GasAction::None {
            gnu_state.entered.get_or_insert(state.row);
        } else {
            gnu_state.flex |= action == GasAction::Flex && !is_word;
            (gnu_state.touched, gnu_state.begun) = (true, true);
        }
        state.apply(instruction, self.arch, initial, remembered)?;
        gnu_state.gas.follow(self.arch, instruction, &initial.row);
        Ok(())
    }

    /// Refuses rules for the caller's stack pointer, which gas ignores.
    #[inline(always)]
    fn check_stack_pointer(&self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        if state.registers.is_unset() { Ok(()) } else { self.check_stack_pointer_rule(state) }
    }

    #[cold]
    fn check_stack_pointer_rule(&self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        let State { row, registers, .. } = state;
        let has_caller = row.cfa != Cfa::Undefined && row.return_address != Rule::Undefined;
        let is_inside = self.gnu_state.location < self.function.size;
        if is_inside && has_caller && !registers.is_cfa(self.arch, row) {
            return Err(Reason::StackPointerRule);
        }
        Ok(())
    }

    #[inline(always)]
    fn push(&mut self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        let gnu_state = &mut self.gnu_state;
        if gnu_state.only_offset
            && let Cfa::Register { offset, .. } = state.row.cfa
            && let Some(fre) = self.fres.last().with_cfa_offset(self.arch, offset)
            && gnu_state.location <= self.function.size
            && let Ok(start) = u32::try_from(gnu_state.location)
            && self.fres.count() < MAX_ROWS
        {
            self.fres.push_short(start, fre);
            return Ok(());
        }
        self.push_any(state)
    }

    #[inline(never)]
    fn push_any(&mut self, state: &State<'a, StackPointer>) -> Result<(), Reason> {
        let gnu_state = &mut self.gnu_state;
        if gnu_state.location > self.function.size {
            return Ok(());
        }
        gnu_state.gas.end_row();
        let start = u32::try_from(gnu_state.location).map_err(|_| Reason::FunctionSize)?;
        if self.fres.count() == MAX_ROWS {
            return Err(Reason::RowCount);
        }
        let GasState { fp_on_stack, ra_on_stack, .. } = gnu_state.gas.current;
        if self.arch.is_aarch64() && fp_on_stack && !ra_on_stack {
            return Err(Reason::FramePointerAlone);
        }
        if state.row.return_address == Rule::Undefined && !self.outermost {
            return Err(Reason::ReturnAddressRule);
        }
        match Fre::new(self.arch, self.version, &state.row, self.fde_type) {
            Ok(fre) => {
                gnu_state.only_offset = self.fde_type == FdeType::Default;
                self.fres.push(start, &fre);
            }
            Err(reason) if self.fde_type == FdeType::Flex => return Err(reason),
            Err(reason @ (Reason::FramePointerAlone | Reason::CfaOffset(_) | Reason::RuleOffset(_))) => {
                return Err(reason);
            }
            Err(_) => (gnu_state.only_offset, gnu_state.flex) = (false, true),
        }
        Ok(())
    }
}

/// Returns the next instruction. Refuses instructions that gas never writes by itself and refuses in
/// `.cfi_escape`: `DW_CFA_MIPS_advance_loc8` and `DW_CFA_GNU_negative_offset_extended`.
fn next<'a>(instructions: &mut Instructions<'a, '_>) -> Option<Result<Instruction<'a>, Reason>> {
    match instructions.rest() {
        [opcode, ..] if instructions.is_outside_dwarf() => Some(Err(Reason::GasInstruction(*opcode))),
        _ => instructions.next(),
    }
}
