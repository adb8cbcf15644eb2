//! Layout `gnu`: the row structure of gas 2.47.
//!
//! gas does not compare rows. It ends a row where an instruction that it tracks is followed by an
//! advance, even if nothing has changed, and always at the function's end; instructions on
//! registers that it does not track vanish together with their advance. The rows' *contents* here are the
//! state machine's of DWARF: gas has one slot for remembered states where DWARF has a stack, takes
//! `.cfi_def_cfa_register`'s offset from the row before, and more. Where gas's row is wrong, ours differs.

use alloc::vec::Vec;
use core::iter;

use cfipack_format::sframe::{FdeType, FreType};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

use super::fre::Fre;
use super::fres::Fres;
use super::stack_pointer::StackPointer;
use crate::cfi::{Function, Instruction, Instructions, Interpreter, State};
use crate::{Reason, Unsupported};

/// What gas does with an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It is of no interest.
    None,
    /// The row ends at the next advance.
    Touch,
    /// Likewise, and the function's FDE becomes flex.
    Flex,
}

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
    /// AArch64: whether the return address was last said to be on the stack. To gas it still is
    /// when it has become undefined since.
    ra_on_stack: bool,
    /// The same of the first row, once there is one: gas restores from there and not from the CIE.
    ra_on_stack_first: Option<bool>,
    /// The same beside each remembered state.
    remembered_ra_on_stack: Vec<bool>,
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
            ra_on_stack: false,
            ra_on_stack_first: None,
            remembered_ra_on_stack: Vec::new(),
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
        (self.ra_on_stack, self.ra_on_stack_first) = (false, None);
        self.remembered_ra_on_stack.clear();
        // gas chooses by the function's size, so that every possible start fits.
        self.fres.begin(FreType::for_start(u32::try_from(self.function.size).unwrap_or(u32::MAX)));
        self.rows().map_err(|reason| self.unsupported(reason))
    }

    fn unsupported(&self, reason: Reason) -> Unsupported {
        let pc = Address(self.function.start.0.wrapping_add(self.location));
        Unsupported { function: self.function.start, pc, reason }
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
                Instruction::SetLocation(address) => address.0.wrapping_sub(function.start.0),
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
                (self.begun, self.touched, self.location) = (true, false, advanced);
                entered = state.row;
            }
        }
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
        let effect = self.effect(instruction, &state.row)?;
        let before = *state;
        state.apply(instruction, self.arch, initial, remembered)?;
        self.follow_return_address(instruction, &initial.0);
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

    fn follow_return_address(&mut self, instruction: Instruction<'a>, initial: &Row) {
        let ra = self.arch.return_address();
        match instruction {
            Instruction::Offset(register, _) if register == ra => self.ra_on_stack = true,
            Instruction::SameValue(register) if register == ra => self.ra_on_stack = false,
            Instruction::Restore(register) if register == ra => {
                let in_cie = matches!(initial.return_address, Rule::Cfa(_));
                self.ra_on_stack = self.ra_on_stack_first.unwrap_or(in_cie);
            }
            Instruction::RememberState => self.remembered_ra_on_stack.push(self.ra_on_stack),
            Instruction::RestoreState => {
                self.ra_on_stack = self.remembered_ra_on_stack.pop().unwrap_or_default();
            }
            _ => {}
        }
    }

    fn push(&mut self, state: &mut State<'a, StackPointer>) -> Result<(), Reason> {
        if self.location > self.function.size {
            return Ok(());
        }
        self.ra_on_stack_first.get_or_insert(self.ra_on_stack);
        let row = &mut state.row;
        row.start = FunctionOffset(u32::try_from(self.location).map_err(|_| Reason::FunctionSize)?);
        if row.return_address != Rule::Undefined && !state.registers.is_cfa(self.arch, row) {
            return Err(Reason::StackPointerRule);
        }
        if self.fres.count() == u32::from(u16::MAX) {
            return Err(Reason::RowCount);
        }
        let fp_on_stack = matches!(row.frame_pointer, Rule::Cfa(_));
        if self.arch.is_aarch64() && row.return_address == Rule::Undefined && fp_on_stack && !self.ra_on_stack
        {
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

    /// What gas 2.47 does with an instruction, or why it leaves the function out.
    fn effect(&self, instruction: Instruction<'a>, row: &Row) -> Result<Effect, Reason> {
        let is_aarch64 = self.arch.is_aarch64();
        let is_s390x = self.arch == Arch::S390x;
        let (sp, fp, ra) = (self.arch.stack_pointer(), self.arch.frame_pointer(), self.arch.return_address());
        // Where the ABI fixes the return address's place, gas ignores most of what is said of it.
        let tracks_ra = is_aarch64 || is_s390x;
        let cfa_base = match row.cfa {
            Cfa::Register { register, .. } | Cfa::Memory { register, .. } => Some(register),
            Cfa::Undefined | Cfa::Expression => None,
        };
        Ok(match instruction {
            Instruction::Nop | Instruction::Advance(_) | Instruction::SetLocation(_) => Effect::None,
            Instruction::DefCfa(register, _) | Instruction::DefCfaRegister(register) => {
                if register == sp || register == fp {
                    Effect::Touch
                } else if is_aarch64 {
                    return Err(Reason::GasRegister(register));
                } else {
                    Effect::Flex
                }
            }
            Instruction::DefCfaOffset(_) | Instruction::RestoreState => Effect::Touch,
            Instruction::NegateRaState if is_aarch64 => Effect::Touch,
            Instruction::NegateRaState => return Err(Reason::GasInstruction(0x2d)),
            // One byte of offset from rbp, then a load: what GCC writes where it realigns the stack.
            Instruction::DefCfaExpression([0x76, _, 0x06]) if self.arch == Arch::Amd64 => Effect::Flex,
            Instruction::DefCfaExpression(_) => return Err(Reason::GasInstruction(0x0f)),
            Instruction::Offset(register, _) if register == fp => Effect::Touch,
            Instruction::Offset(register, offset) if register == ra => {
                if tracks_ra || Rule::Cfa(offset) == Row::at_entry(self.arch).return_address {
                    Effect::Touch
                } else {
                    Effect::Flex
                }
            }
            Instruction::Register(register, _) if register == sp && is_s390x => Effect::None,
            Instruction::Register(register, _) if register == sp => return Err(Reason::GasRegister(sp)),
            Instruction::Register(register, _) if register == fp || register == ra => {
                if is_aarch64 {
                    return Err(Reason::GasRegister(register));
                }
                Effect::Flex
            }
            Instruction::Restore(register) | Instruction::SameValue(register) => {
                self.touch_if(register == fp || register == ra && tracks_ra)
            }
            Instruction::Undefined(register) if register == fp || register == sp => {
                return Err(Reason::GasRegister(register));
            }
            Instruction::Undefined(register) => self.touch_if(register == ra),
            Instruction::ValOffset(register, offset) => {
                let refused = register == fp
                    || register == ra && tracks_ra
                    || register == sp && offset != self.arch.stack_pointer_from_cfa();
                if refused {
                    return Err(Reason::GasRegister(register));
                }
                Effect::None
            }
            Instruction::RememberState if !self.begun => return Err(Reason::GasInstruction(0x0a)),
            Instruction::ArgsSize(size) if size != 0 && (cfa_base != Some(fp) || size >= 0x80) => {
                return Err(Reason::GasInstruction(0x2e));
            }
            Instruction::Expression(register, block) => self.expression(register, block, cfa_base)?,
            Instruction::ValExpression(..) => return Err(Reason::GasInstruction(0x16)),
            Instruction::RememberState
            | Instruction::ArgsSize(_)
            | Instruction::Offset(..)
            | Instruction::Register(..) => Effect::None,
        })
    }

    /// `DW_CFA_expression`, of which gas takes only one-byte offsets from a register.
    fn expression(
        &self,
        register: Register,
        block: &[u8],
        cfa_base: Option<Register>,
    ) -> Result<Effect, Reason> {
        if block.len() != 2 || register.0 >= 0x80 {
            return Err(Reason::GasInstruction(0x10));
        }
        if register == self.arch.frame_pointer() {
            return Ok(Effect::Flex);
        }
        let tracks_ra = self.arch != Arch::Amd64;
        let is_ra = register == self.arch.return_address() && tracks_ra;
        if register == self.arch.stack_pointer() || is_ra || Some(register) == cfa_base {
            return Err(Reason::GasInstruction(0x10));
        }
        Ok(Effect::None)
    }

    fn touch_if(&self, tracked: bool) -> Effect {
        if tracked { Effect::Touch } else { Effect::None }
    }
}

/// The instructions, but for those that gas never writes by itself and refuses in `.cfi_escape`:
/// `DW_CFA_MIPS_advance_loc8` and `DW_CFA_GNU_negative_offset_extended`.
fn instructions<'a>(
    mut instructions: Instructions<'a, '_>,
) -> impl Iterator<Item = Result<Instruction<'a>, Reason>> {
    iter::from_fn(move || match instructions.rest() {
        [opcode @ (0x1d | 0x2f), ..] => Some(Err(Reason::GasInstruction(*opcode))),
        _ => instructions.next(),
    })
}
