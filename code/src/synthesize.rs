//! Rows of a function that has no CFI, from its code.

mod together;

use cfipack_format::{Address, Arch, Cfa, Family, FunctionOffset, Register, Row, Rule};

use crate::analysis::{Analysis, Doubt};
use crate::instruction::{Flow, Instruction, Special, callee_saved, register_of};
use crate::rows::{FullRow, Rows};
use crate::state::State;
use crate::value::Value;

pub use together::{Candidate, Jump, Surroundings, synthesize, synthesize_with};

/// The reason why a function gets no rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Omission {
    /// Something about its ways is not known.
    Doubt(Doubt),
    /// The file has no code there, or not all of it.
    NoCode,
    /// No symbol of a function starts there.
    NoEntry,
    /// No way returns, or goes on in another function: what enters it need not be a call.
    NeverReturns,
    /// The CFA has no known distance from the stack pointer or the frame pointer.
    Cfa,
    /// The return address is at no known place.
    ReturnAddress,
    /// The caller's frame pointer is at no known place.
    FramePointer,
    /// Another register of the caller is at no known place.
    NoPlace,
    /// A way out leaves the stack pointer elsewhere than the call did.
    StackAtReturn,
    /// A way out has another value in a register that a function keeps for its caller.
    SavedRegister,
    /// It is not known whether the return address is signed, or it is signed in a way that tables do not have.
    SigningState,
    /// A system call may start a thread on another stack, or not return.
    SystemCall,
    /// A jump leads into another function, behind its start.
    IntoFunction,
    /// Another function jumps into it, or to it with a frame in place.
    Entered,
    /// It calls a function that does not keep to the calling convention.
    OddCall,
}

impl Omission {
    /// The name in reports.
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

/// Bytes below the stack pointer that nothing overwrites (System V's psABI for x86-64).
const fn red_zone(arch: Arch) -> i32 {
    match arch {
        Arch::Amd64 => 128,
        Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => 0,
    }
}

impl Analysis<'_> {
    /// The function's rows, each from where one of them changes: the canonical frame address by the stack pointer or the frame
    /// pointer, the return address, the caller's frame pointer.
    ///
    /// They hold if the function is entered at its start alone, by a call or a jump that leaves the frame as a call does.
    ///
    /// # Errors
    /// Not every way of the function is decided, or one breaks the calling convention.
    pub fn synthesize(&self) -> Result<Vec<Row>, Omission> {
        let arch = self.code().arch;
        let mut rows: Vec<Row> = Vec::new();
        let mut places = Places::default();
        self.each_row(|instruction, state| {
            let mut row = row(arch, instruction, state, rows.last(), &mut places)?;
            if rows.is_empty() {
                // Padding before it is no way.
                row.start = FunctionOffset(0);
            }
            if rows.last().is_none_or(|last| !last.unwinds_as(&row)) {
                rows.push(row);
            }
            Ok(())
        })?;
        // Many functions have two, and those of a file are kept together.
        rows.shrink_to_fit();
        Ok(rows)
    }

    /// The function's rows as [`synthesize`](Self::synthesize) makes them, with every other register that it keeps for its
    /// caller. A register that was stored stays described by its slot as long as that holds its value, as compilers write it.
    ///
    /// # Errors
    /// The errors of [`synthesize`](Self::synthesize), or a register of the caller is at no known place.
    pub fn describe(&self) -> Result<Rows, Omission> {
        let arch = self.code().arch;
        let (mut rows, mut saved, mut places) = (Rows::new(), Vec::new(), Places::default());
        self.each_row(|instruction, state| {
            let last = rows.last();
            let mut row = row(arch, instruction, state, last.map(|last| last.row).as_ref(), &mut places)?;
            if last.is_none() {
                row.start = FunctionOffset(0);
            }
            row.frame_pointer =
                rule(arch, state, arch.frame_pointer(), last).ok_or(Omission::FramePointer)?;
            saved.clear();
            for index in callee_saved(arch) {
                let register = register_of(*index);
                if register == arch.frame_pointer() {
                    continue;
                }
                match rule(arch, state, register, last).ok_or(Omission::NoPlace)? {
                    Rule::SameValue => {}
                    rule => saved.push((register, rule)),
                }
            }
            if last.is_none_or(|last| !last.row.unwinds_as(&row) || last.saved != saved) {
                rows.push(row, &saved);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Calls `each` with every instruction and what is known before it, if every way of the function is decided.
    fn each_row(
        &self,
        mut each: impl FnMut(&Instruction, &State) -> Result<(), Omission>,
    ) -> Result<(), Omission> {
        let arch = self.code().arch;
        if let Some((doubt, _)) = self.doubts().next() {
            return Err(Omission::Doubt(doubt));
        }
        let (mut failed, mut leaves, mut is_entered) = (None, false, false);
        self.for_each(|index, instruction, state| {
            let (None, Some(state)) = (failed, state) else { return };
            is_entered |= index == 0 || self.is_fragment;
            let result = each(instruction, state).and_then(|()| {
                check_system_call(arch, instruction, state)?;
                leaves |= self.check_leaving(index, instruction, state)?;
                Ok(())
            });
            failed = result.err();
        });
        // A table of jumps that was read too far, or too little.
        if self.exits().iter().any(|exit| exit.is_from_table) {
            failed = failed.or(Some(Omission::Doubt(Doubt::IndirectJump)));
        }
        match failed {
            Some(omission) => Err(omission),
            None if leaves && is_entered || self.may_stay => Ok(()),
            None => Err(Omission::NeverReturns),
        }
    }

    /// Lets the function jump to places where what is known is known too; a fragment is not entered at its start.
    fn let_leave(&mut self, targets: impl Iterator<Item = Address>, is_fragment: bool) {
        self.goes_on_at = targets.collect();
        self.is_fragment = is_fragment;
    }

    /// Lets the function never return.
    fn let_stay(&mut self) {
        self.may_stay = true;
    }

    /// Returns whether execution leaves the function at an instruction.
    ///
    /// # Errors
    /// It does so with something else than a call left.
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
        if state.get(arch, arch.stack_pointer()) != Value::Cfa(-(arch.cfa_offset_at_entry() as i32)) {
            return Err(Omission::StackAtReturn);
        }
        if callee_saved(arch).iter().any(|index| state.at(*index) != Value::caller(*index)) {
            return Err(Omission::SavedRegister);
        }
        let link = arch.return_address();
        let is_there = match (arch.pushed_by_call(), state.get(arch, link)) {
            (1.., _) => state.slot(-arch.pushed_by_call()) == Value::Caller(link),
            (_, Value::Caller(register)) => register == link,
            // An instruction that returns can authenticate too.
            (_, Value::Signed) => is_return,
            _ => false,
        };
        if is_there { Ok(true) } else { Err(Omission::ReturnAddress) }
    }
}

/// The slots where a function has saved registers, by the rows so far.
#[derive(Default)]
struct Places {
    return_address: Option<Rule>,
    frame_pointer: Option<Rule>,
}

impl Places {
    fn note(&mut self, row: &Row) {
        let is_slot = |rule: &Rule| matches!(rule, Rule::Cfa(_));
        self.return_address = Some(row.return_address).filter(is_slot).or(self.return_address);
        self.frame_pointer = Some(row.frame_pointer).filter(is_slot).or(self.frame_pointer);
    }
}

/// The row at an instruction; `last` is the one before, whose way to the CFA it keeps while that is right.
fn row(
    arch: Arch,
    instruction: &Instruction,
    state: &State,
    last: Option<&Row>,
    places: &mut Places,
) -> Result<Row, Omission> {
    if instruction.special == Special::OtherSigning {
        return Err(Omission::SigningState);
    }
    let cfa = cfa(arch, state, last).ok_or(Omission::Cfa)?;
    let (return_address, signed) = return_address(arch, state, places.return_address)?;
    let frame_pointer = arch.frame_pointer();
    let is_callers = |value| value == Value::Caller(frame_pointer);
    let before = places.frame_pointer;
    let frame_pointer =
        place(arch, state, (frame_pointer, before), is_callers).ok_or(Omission::FramePointer)?.0;
    let row = Row { start: FunctionOffset(instruction.offset), cfa, return_address, frame_pointer, signed };
    places.note(&row);
    Ok(row)
}

fn cfa(arch: Arch, state: &State, last: Option<&Row>) -> Option<Cfa> {
    let by = |register: Register| match state.get(arch, register) {
        Value::Cfa(offset) => Some(Cfa::Register { register, offset: -i64::from(offset) }),
        _ => None,
    };
    let frame_pointer = arch.frame_pointer();
    // A frame pointer that points at the saved one stays where it is.
    let points_at_saved = state.pointed(arch, frame_pointer, 0) == Value::Caller(frame_pointer);
    let keeps =
        matches!(last, Some(Row { cfa: Cfa::Register { register, .. }, .. }) if *register == frame_pointer);
    let (first, second) = match points_at_saved || keeps {
        true => (frame_pointer, arch.stack_pointer()),
        false => (arch.stack_pointer(), frame_pointer),
    };
    by(first).or_else(|| by(second))
}

/// The rule of the return address, and whether it is signed.
fn return_address(arch: Arch, state: &State, before: Option<Rule>) -> Result<(Rule, bool), Omission> {
    let link = arch.return_address();
    match arch.pushed_by_call() {
        0 => {}
        size if state.slot(-size) == Value::Caller(link) => return Ok((Rule::Cfa(-size), false)),
        _ => return Err(Omission::ReturnAddress),
    }
    let is_callers = |value| matches!(value, Value::Signed) || value == Value::Caller(link);
    let (rule, value) = place(arch, state, (link, before), is_callers).ok_or(Omission::ReturnAddress)?;
    Ok((rule, value == Value::Signed))
}

/// The place where a caller's register is: a slot that calls leave alone, else the register, else a slot of the red zone.
/// Of slots the one that it was in before, because another one with the same value may be the program's own.
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
    let slot = |lowest: i32| {
        let is_there = |slot: &(i32, Value)| slot.0 >= lowest && is_callers(slot.1);
        let is_before = |slot: &(i32, Value)| before == Some(Rule::Cfa(slot.0.into()));
        let kept = state.slots().filter(is_there).find(is_before);
        kept.or_else(|| state.slots().find(is_there)).map(|(offset, value)| (Rule::Cfa(offset.into()), value))
    };
    let in_register = || {
        let value = state.get(arch, register);
        is_callers(value).then_some((Rule::SameValue, value))
    };
    let in_red_zone = || slot(stack?.saturating_sub(red_zone(arch)));
    slot(stack.unwrap_or(i32::MIN)).or_else(in_register).or_else(in_red_zone)
}

/// The rule of a register that the function keeps for its caller: the last row's while that is right.
fn rule(arch: Arch, state: &State, register: Register, last: Option<FullRow<'_>>) -> Option<Rule> {
    let lowest = match state.get(arch, arch.stack_pointer()) {
        Value::Cfa(offset) => i64::from(offset) - i64::from(red_zone(arch)),
        _ => i64::MIN,
    };
    match last.map(|last| last.rule(arch, register)) {
        Some(Rule::Cfa(offset)) if offset >= lowest && state.slot(offset) == Value::Caller(register) => {
            Some(Rule::Cfa(offset))
        }
        _ => place(arch, state, (register, None), |value| value == Value::Caller(register))
            .map(|place| place.0),
    }
}

/// Linux's numbers of the system calls after which the stack is another one: `clone`, `clone3`, `vfork`, `rt_sigreturn`.
fn leaves_the_stack(arch: Arch, number: i32) -> bool {
    match arch {
        Arch::Amd64 => matches!(number, 56 | 435 | 58 | 15),
        Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 => matches!(number, 220 | 435 | 139),
        Arch::I386 | Arch::S390x | Arch::Riscv64 => true,
    }
}

fn check_system_call(arch: Arch, instruction: &Instruction, state: &State) -> Result<(), Omission> {
    if instruction.special != Special::SystemCall {
        return Ok(());
    }
    let register = match arch.family() {
        Family::X86 => Register(0),
        Family::Aarch64 => Register(8),
        Family::S390x | Family::Riscv => return Err(Omission::SystemCall),
    };
    match state.get(arch, register) {
        Value::Number(number) if !leaves_the_stack(arch, number) => Ok(()),
        _ => Err(Omission::SystemCall),
    }
}
