//! Walks a stack by rows inside the process, as a runtime's own unwinder or an in-process profiler does.

use cfipack::decoder::sframe::{Frame as Found, Registers, step};
use cfipack::format::{Address, Arch};

/// The registers of a frame of generated code.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The return address in this frame.
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

/// Returns the return addresses, starting with a frame of generated code, up to the first address without a
/// row. `lookup` finds the row of a PC in a registry of generated code, or in a table.
///
/// # Safety
/// The frame must be active on this thread's stack. The rows must describe the code on the stack.
pub unsafe fn backtrace(arch: Arch, lookup: impl Fn(Address) -> Option<Found>, frame: Frame) -> Vec<u64> {
    let mut frames = vec![frame.pc];
    let mut registers = Registers { sp: frame.sp, fp: Some(frame.fp), lr: None, others: &[] };
    let mut pc = frame.pc;
    // Looks up the call, which ends just before the return address. A wrong row can lead to address 0.
    while let Some(found) = pc.checked_sub(1).and_then(|call| lookup(Address(call))) {
        // SAFETY: rows lead to the places where functions stored their return addresses.
        let memory = |address: Address| Some(unsafe { *(address.0 as *const u64) });
        let Ok(caller) = step(arch, &found.row, &registers, memory) else { break };
        frames.push(caller.pc.0);
        (pc, registers) = (caller.pc.0, caller.registers());
    }
    frames
}
