//! Finds the caller of a frame as the kernel does.

use cfipack_format::Arch;

use super::table::{Row, Word};

/// A frame of a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The next instruction. In a caller's frame, the return address.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub fp: u64,
    /// True if `pc` has not run yet. False if it follows a call.
    pub is_exact: bool,
}

/// All registers by DWARF number, with the link register. They are known only in the innermost frame.
pub type Machine<'m> = Option<&'m [u64]>;

/// How a caller was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// By a row of the table.
    Table,
    /// By the frame pointer, or on s390x by the back chain. This is a guess.
    FramePointer,
}

/// A frame's caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The frame's registers.
    pub frame: Frame,
    /// How it was found.
    pub way: Way,
}

/// A walk ends: neither the table nor the frame pointer has an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop;

/// Returns the pointer at an address of the recorded stack.
pub type Stack<'s> = &'s dyn Fn(u64) -> Option<u64>;

/// Finds the caller by the frame's row. If there is no row, or the row does not help, the frame pointer is used.
pub fn step(
    arch: Arch,
    row: Option<Row>,
    frame: &Frame,
    machine: Machine<'_>,
    stack: Stack<'_>,
) -> Result<Caller, Stop> {
    let by_table = row.and_then(|row| by_row(arch, &row, frame, machine, stack));
    let found = match by_table {
        Some(frame) => Some(Caller { frame, way: Way::Table }),
        None => by_frame_pointer(arch, frame, stack).map(|frame| Caller { frame, way: Way::FramePointer }),
    };
    // The kernel requires that stack pointers grow. The innermost function may not have used its stack yet.
    let grows =
        |caller: &Caller| caller.frame.sp > frame.sp || machine.is_some() && caller.frame.sp == frame.sp;
    found.filter(|caller| grows(caller) && caller.frame.pc != 0).ok_or(Stop)
}

/// Steps by a row. `None` also for an outermost frame: the reader ends with an error before it looks at the row.
fn by_row(arch: Arch, row: &Row, frame: &Frame, machine: Machine<'_>, stack: Stack<'_>) -> Option<Frame> {
    let register = |number: u32| match number {
        sp if sp == u32::from(arch.stack_pointer().0) => Some(frame.sp),
        fp if fp == u32::from(arch.frame_pointer().0) => Some(frame.fp),
        other => machine.and_then(|registers| registers.get(other as usize).copied()),
    };
    let value = |word: Word, cfa: u64| match word {
        Word::CfaSlot(offset) => stack(cfa.wrapping_add_signed(offset)),
        Word::Register(number, offset) => Some(register(number)?.wrapping_add_signed(offset)),
        Word::Memory(number, offset) => stack(register(number)?.wrapping_add_signed(offset)),
    };
    let cfa = value(row.cfa?, 0)?;
    let pc = match row.ra {
        Some(word) => value(word, cfa)?,
        None => machine?.get(usize::from(arch.return_address().0)).copied()?,
    };
    let fp = match row.fp {
        Some(word) => value(word, cfa)?,
        None => frame.fp,
    };
    let sp = if arch == Arch::S390x { cfa.wrapping_sub(160) } else { cfa };
    Some(Frame { pc, sp, fp, is_exact: row.is_signal })
}

/// Steps by the frame pointer. On x86-64 and AArch64 it leads to the caller's frame pointer and the return address. On
/// s390x the back chain leads to the caller's stack pointer: r14 is in the register save area there, and r11 is assumed
/// to be unchanged.
fn by_frame_pointer(arch: Arch, frame: &Frame, stack: Stack<'_>) -> Option<Frame> {
    let (record, sp, fp, pc) = match arch {
        Arch::S390x => {
            let sp = stack(frame.sp)?;
            (sp, sp, frame.fp, stack(sp.wrapping_add(112))?)
        }
        _ => (frame.fp, frame.fp.wrapping_add(16), stack(frame.fp)?, stack(frame.fp.wrapping_add(8))?),
    };
    (record % 8 == 0 && record != 0).then_some(Frame { pc, sp, fp, is_exact: false })
}
