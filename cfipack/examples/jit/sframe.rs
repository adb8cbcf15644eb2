//! A walk by rows, in the process itself: what a runtime's own unwinder, or a profiler in the process, does.

use cfipack::decoder::sframe::{Frame as Found, Registers, step};
use cfipack::format::{Address, Arch};

/// The registers of a frame of generated code.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The return address in it.
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

/// The return addresses from a frame of generated code on, up to the first one without a row. `lookup` finds the row of a
/// PC: in a registry of generated code, or in a table.
///
/// # Safety
/// The frame is one of this thread's, below the caller's, and the rows are those of the code on its stack.
pub unsafe fn backtrace(arch: Arch, lookup: impl Fn(Address) -> Option<Found>, frame: Frame) -> Vec<u64> {
    let mut frames = vec![frame.pc];
    let mut registers = Registers { sp: frame.sp, fp: Some(frame.fp), lr: None, others: &[] };
    let mut pc = frame.pc;
    // The call is before its return address; a wrong row can lead to 0.
    while let Some(found) = pc.checked_sub(1).and_then(|call| lookup(Address(call))) {
        // SAFETY: rows lead to where the functions put their return addresses.
        let memory = |address: Address| Some(unsafe { *(address.0 as *const u64) });
        let Ok(caller) = step(arch, &found.row, &registers, memory) else { break };
        frames.push(caller.pc.0);
        (pc, registers) = (caller.pc.0, caller.registers());
    }
    frames
}
