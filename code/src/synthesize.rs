//! Synthesizes the rows of a function that has no CFI, from the function's instructions.
//!
//! [`Analysis::synthesize`] and [`Analysis::describe`] work on one function. The module [`together`] works on
//! all functions of a file, which also covers functions that jump into each other.

mod describe;
mod together;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use cfipack_format::{Address, Arch, Cfa, Family, FunctionOffset, Register, Row, Rule};

use crate::analysis::{Analysis, Doubt};
use crate::instruction::{Flow, Instruction, Special, callee_saved};
use crate::state::State;
use crate::value::Value;

pub use describe::{Described, FrameAddress};
pub use together::{Candidate, Jump, Surroundings, synthesize, synthesize_with};

/// The reason why a function gets no rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Omission {
    /// The analysis of the function has a doubt. For example, it could not follow an indirect jump.
    Doubt(Doubt),
    /// The file has no bytes for the function, or not all of them.
    NoCode,
    /// No function symbol starts at the address.
    NoEntry,
    /// No path returns or ends in a jump to another function. So nothing shows that a call enters this code.
    NeverReturns,
    /// Neither the stack pointer nor the frame pointer has a known distance to the CFA.
    Cfa,
    /// The place of the return address is not known.
    ReturnAddress,
    /// The place of the caller's frame pointer is not known.
    FramePointer,
    /// The place of another register that belongs to the caller is not known.
    NoPlace,
    /// At a return or a tail call the stack pointer is not where the call left it.
    StackAtReturn,
    /// At a return or a tail call a callee-saved register does not have the caller's value.
    SavedRegister,
    /// It is not known whether the return address is signed, or it is signed with a key that tables cannot represent.
    SigningState,
    /// A system call may start a thread on another stack (`clone`), or may not return (`rt_sigreturn`).
    SystemCall,
    /// The function jumps into the middle of another function.
    IntoFunction,
    /// Another function jumps into the middle of this function, or to its start with a frame in place.
    Entered,
    /// The function calls another function that does not keep to the calling convention.
    OddCall,
}

impl Omission {
    /// Adds the offset of the instruction that shows the reason.
    pub const fn at(self, offset: u32) -> Refused {
        Refused { omission: self, offset }
    }

    /// Returns the name of the reason in reports, for example `never-returns`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Doubt(doubt) => doubt.name(),
            Self::NoCode => "no-code",
            Self::NoEntry => "no-entry",
            Self::NeverReturns => "never-returns",
            Self::Cfa => "cfa-not-known",
            Self::ReturnAddress => "return-address-not-known",
            Self::FramePointer => "frame-pointer-not-known",
            Self::NoPlace => "saved-register-not-known",
            Self::StackAtReturn => "stack-at-return",
            Self::SavedRegister => "register-not-restored",
            Self::SigningState => "signing-state",
            Self::SystemCall => "system-call",
            Self::IntoFunction => "into-function",
            Self::Entered => "entered-elsewhere",
            Self::OddCall => "odd-call",
        }
    }
}

/// The reason why a function gets no rows, and the instruction that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The reason.
    pub omission: Omission,
    /// The offset of the instruction in bytes from the function's start, or 0 if no instruction shows the reason.
    pub offset: u32,
}

impl Analysis<'_> {
    /// Returns the function's rows: the CFA by the stack pointer or the frame pointer, the return address, and the
    /// caller's frame pointer. A new row starts wherever one of them changes.
    ///
    /// The rows hold if the function is entered only at its start, by a call or by a jump that leaves the stack as a
    /// call does. Call this on the analyses of [`synthesize_with`]: only they know that a signal handler overwrites what
    /// lies below the stack pointer.
    ///
    /// # Errors
    /// This function returns an [`Omission`] if a path through the function cannot be followed, or if a path breaks
    /// the calling convention.
    pub fn synthesize(&self) -> Result<Vec<Row>, Refused> {
        let arch = self.code().arch;
        let mut rows: Vec<Row> = Vec::new();
        let mut places = Places::default();
        self.each_row(|instruction, state| {
            let mut row = row(arch, instruction, state, rows.last(), &mut places)?;
            if rows.is_empty() {
                // Padding before the first instruction is never executed, so the first row can start at 0.
                row.start = FunctionOffset(0);
            }
            if rows.last().is_none_or(|last| !last.unwinds_as(&row)) {
                rows.push(row);
            }
            Ok(())
        })?;
        // Many functions have only two rows, and a caller keeps the rows of a whole file.
        rows.shrink_to_fit();
        Ok(rows)
    }

    /// Returns the targets of direct jumps out of the code with a frame in place. Fragments of the function start there.
    pub fn fragments(&self) -> BTreeSet<Address> {
        self.direct_exits(true)
    }

    /// Returns the targets of direct jumps out of the code without a frame: the functions that it calls last.
    pub fn tail_calls(&self) -> BTreeSet<Address> {
        self.direct_exits(false)
    }

    fn direct_exits(&self, with_frame: bool) -> BTreeSet<Address> {
        let arch = self.code().arch;
        let mut targets = BTreeSet::new();
        self.for_each_exit(|exit, state| {
            let is_wanted = state.has_frame(arch) == with_frame && !exit.is_from_table;
            targets.extend(exit.target.filter(|_| is_wanted));
        });
        targets
    }

    /// Returns whether every path is known, and leaves as the calling convention asks or goes on in a
    /// [fragment](Self::fragments). This alone does not show that the code is a function: a fragment of a function jumps
    /// back into it, and runtimes with stacks of their own end all code with jumps.
    pub fn leaves_like_a_function(&mut self) -> bool {
        let fragments = self.fragments();
        self.let_leave(fragments.into_iter(), false);
        self.synthesize().is_ok()
    }

    /// Returns whether a path leads to a return.
    pub fn returns(&self) -> bool {
        let mut returns = false;
        self.for_each(|_, instruction, state| returns |= state.is_some() && instruction.flow == Flow::Return);
        returns
    }

    /// Calls `each` with every instruction and the state before it. Fails if a path through the function cannot be
    /// followed.
    fn each_row(
        &self,
        mut each: impl FnMut(&Instruction, &State) -> Result<(), Omission>,
    ) -> Result<(), Refused> {
        if let Some((doubt, offset)) = self.doubts().next() {
            return Err(Omission::Doubt(doubt).at(offset));
        }
        let (mut failed, mut leaves, mut is_entered) = (None, false, false);
        let calls = OnceCell::new();
        self.for_each(|index, instruction, state| {
            let (None, Some(state)) = (failed, state) else { return };
            is_entered |= index == 0 || self.is_fragment;
            let result = each(instruction, state).and_then(|()| {
                self.check_system_call((index, instruction), state, &calls)?;
                leaves |= self.check_leaving(index, instruction, state)?;
                Ok(())
            });
            failed = result.err().map(|omission| omission.at(instruction.offset));
        });
        // The jump table was read too far, or not far enough.
        if let (None, Some(exit)) = (failed, self.exits().iter().find(|exit| exit.is_from_table)) {
            let offset = self.instructions().offset(exit.index);
            failed = Some(Omission::Doubt(Doubt::IndirectJump).at(offset));
        }
        match failed {
            Some(refused) => Err(refused),
            None if leaves && is_entered || self.may_stay => Ok(()),
            None => Err(Omission::NeverReturns.at(0)),
        }
    }

    /// Permits jumps to these targets in other functions, since the states there are known. A fragment is not entered
    /// at its start.
    fn let_leave(&mut self, targets: impl Iterator<Item = Address>, is_fragment: bool) {
        self.goes_on_at = targets.collect();
        self.is_fragment = is_fragment;
    }

    /// Returns whether execution leaves the function at an instruction.
    ///
    /// # Errors
    /// Fails if execution leaves while a register or the stack pointer differs from the state that the calling
    /// convention asks for.
    fn check_leaving(
        &self,
        index: usize,
        instruction: &Instruction,
        state: &State,
    ) -> Result<bool, Omission> {
        let arch = self.code().arch;
        let is_return = instruction.flow == Flow::Return;
        let leaves = match instruction.flow {
            Flow::Return => true,
            Flow::Jump(target) | Flow::Branch(target, _) => {
                target.is_none_or(|target| !self.is_inside(target) && !self.goes_on_at.contains(&target))
            }
            Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_) => {
                self.exits().binary_search_by_key(&index, |exit| exit.index).is_ok()
            }
            Flow::Next | Flow::Call(_) | Flow::Stop => false,
        };
        if !leaves {
            return Ok(false);
        }
        if state.has_frame(arch) {
            return Err(Omission::StackAtReturn);
        }
        if callee_saved(arch).iter().any(|index| state.at(*index) != Value::caller(*index)) {
            return Err(Omission::SavedRegister);
        }
        let link = arch.return_address();
        let is_there = match (arch.pushed_by_call(), state.get(arch, link)) {
            (1.., _) => state.slot(-arch.pushed_by_call()) == Value::Caller(link),
            (_, Value::Caller(register)) => register == link,
            // Instructions such as `retaa` authenticate the address and return at once.
            (_, Value::Signed) => is_return,
            _ => false,
        };
        if is_there { Ok(true) } else { Err(Omission::ReturnAddress) }
    }
}

/// The slots in which the function has saved registers, as the rows so far have them.
#[derive(Default)]
struct Places {
    return_address: Option<Rule>,
    frame_pointer: Option<Rule>,
}

impl Places {
    fn note(&mut self, row: &Row) {
        if let Rule::Cfa(_) = row.return_address {
            self.return_address = Some(row.return_address);
        }
        if let Rule::Cfa(_) = row.frame_pointer {
            self.frame_pointer = Some(row.frame_pointer);
        }
    }
}

/// Returns the row at an instruction. The CFA keeps the register of the row before (`last`) while that is right.
fn row(
    arch: Arch,
    instruction: &Instruction,
    state: &State,
    last: Option<&Row>,
    places: &mut Places,
) -> Result<Row, Omission> {
    if matches!(instruction.special, Special::SigningByB | Special::OtherSigning) {
        return Err(Omission::SigningState);
    }
    let cfa = cfa(arch, state, last).ok_or(Omission::Cfa)?;
    let (return_address, signed) = return_address(arch, state, places.return_address)?;
    let frame_pointer = arch.frame_pointer();
    let place = place(arch, state, (frame_pointer, places.frame_pointer), |value| {
        value == Value::Caller(frame_pointer)
    });
    let (frame_pointer, _) = place.ok_or(Omission::FramePointer)?;
    let row = Row { start: FunctionOffset(instruction.offset), cfa, return_address, frame_pointer, signed };
    places.note(&row);
    Ok(row)
}

fn cfa(arch: Arch, state: &State, last: Option<&Row>) -> Option<Cfa> {
    let frame_pointer = arch.frame_pointer();
    // A frame pointer that points at the saved frame pointer will stay where it is.
    let points_at_saved = state.pointed(arch, frame_pointer, 0) == Value::Caller(frame_pointer);
    let keeps =
        matches!(last, Some(Row { cfa: Cfa::Register { register, .. }, .. }) if *register == frame_pointer);
    let registers = if points_at_saved || keeps {
        [frame_pointer, arch.stack_pointer()]
    } else {
        [arch.stack_pointer(), frame_pointer]
    };
    for register in registers {
        if let Value::Cfa(offset) = state.get(arch, register) {
            return Some(Cfa::Register { register, offset: -i64::from(offset) });
        }
    }
    None
}

/// Returns the rule of the return address, and whether the address is signed.
fn return_address(arch: Arch, state: &State, before: Option<Rule>) -> Result<(Rule, bool), Omission> {
    let link = arch.return_address();
    match arch.pushed_by_call() {
        0 => {}
        // Below the stack pointer, a child of `vfork` overwrites the slot.
        size if state.slot(-size) == Value::Caller(link)
            && !matches!(state.get(arch, arch.stack_pointer()), Value::Cfa(top) if i64::from(top) > -size) =>
        {
            return Ok((Rule::Cfa(-size), false));
        }
        _ => return Err(Omission::ReturnAddress),
    }
    let place =
        place(arch, state, (link, before), |value| value == Value::Signed || value == Value::Caller(link));
    let (rule, value) = place.ok_or(Omission::ReturnAddress)?;
    Ok((rule, value == Value::Signed))
}

/// Returns the place that holds the caller's value of a register. A slot that calls cannot overwrite is best, then
/// the register itself, then a slot in the red zone. The slot that held the value in the row before goes first,
/// because another slot with the same value may be a variable of the program.
fn place(
    arch: Arch,
    state: &State,
    (register, before): (Register, Option<Rule>),
    is_callers: impl Fn(Value) -> bool,
) -> Option<(Rule, Value)> {
    let stack = match state.get(arch, arch.stack_pointer()) {
        Value::Cfa(offset) => Some(offset),
        _ => None,
    };
    if let Some(slot) = slot_with(state, stack.unwrap_or(i32::MIN), before, &is_callers) {
        return Some(slot);
    }
    let value = state.get(arch, register);
    if is_callers(value) {
        return Some((Rule::SameValue, value));
    }
    slot_with(state, stack?.saturating_sub_unsigned(arch.red_zone()), before, &is_callers)
}

/// Returns the slot at or above the offset `lowest` that holds the caller's value. If several slots hold it, the slot
/// that had the rule `before` goes first.
fn slot_with(
    state: &State,
    lowest: i32,
    before: Option<Rule>,
    is_callers: &impl Fn(Value) -> bool,
) -> Option<(Rule, Value)> {
    let mut first = None;
    for (offset, value) in state.slots() {
        if offset < lowest || !is_callers(value) {
            continue;
        }
        let slot = (Rule::Cfa(offset.into()), value);
        if before == Some(slot.0) {
            return Some(slot);
        }
        first = first.or(Some(slot));
    }
    first
}

/// Returns whether the stack may be another stack after a system call of Linux: `clone` with a stack, `clone3`,
/// `rt_sigreturn`. After `vfork` it is the same stack.
fn leaves_the_stack(arch: Arch, number: i32, state: &State) -> bool {
    let (clone, stack, others) = match arch {
        Arch::Amd64 => (56, Register(4), [435, 15]),
        Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => (220, Register(1), [435, 139]),
        Arch::I386 | Arch::S390x | Arch::Riscv64 => return true,
    };
    let is_new_stack = number == clone && state.get(arch, stack) != Value::Number(0);
    is_new_stack || others.contains(&number)
}

impl Analysis<'_> {
    /// Checks that execution stays on its stack after a system call.
    ///
    /// The number of the call may be an argument of the function. The call may be `clone` then. But if the function
    /// only returns afterwards, a new thread has a return address on its stack too, and the rows find it there. `calls` keeps
    /// the instructions from which paths [lead to calls](Self::leading_to_calls) for further system calls.
    fn check_system_call(
        &self,
        (index, instruction): (usize, &Instruction),
        state: &State,
        calls: &OnceCell<Vec<bool>>,
    ) -> Result<(), Omission> {
        if instruction.special != Special::SystemCall {
            return Ok(());
        }
        let arch = self.code().arch;
        let register = match arch.family() {
            Family::X86 => Register(0),
            Family::Aarch64 => Register(8),
            Family::S390x | Family::Riscv => return Err(Omission::SystemCall),
        };
        // A return from an interrupt or to a program: no call led here.
        if instruction.flow == Flow::Stop {
            return Err(Omission::SystemCall);
        }
        let stays = match state.get(arch, register) {
            Value::Number(number) => !leaves_the_stack(arch, number, state),
            _ => calls.get_or_init(|| self.leading_to_calls()).get(index + 1) == Some(&false),
        };
        if stays { Ok(()) } else { Err(Omission::SystemCall) }
    }

    /// Returns for each instruction whether a path leads from it to a call, or to an instruction at which execution stops.
    fn leading_to_calls(&self) -> Vec<bool> {
        let all = self.instructions().iter();
        let calls: Vec<bool> = all.map(|one| matches!(one.flow, Flow::Call(_) | Flow::Stop)).collect();
        self.leading_to(&calls, &BTreeSet::new())
    }
}
