//! A reader of `.sframe` in the process itself: what a runtime's own unwinder, or a profiler in the process, does with
//! the table that is registered.

use cfipack::assembler::region::Registration;
use cfipack::decoder::sframe::{Registers, Section, step};
use cfipack::format::Address;

/// The registers of a frame of generated code.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The return address in it.
    pub pc: u64,
    pub sp: u64,
    pub fp: u64,
}

/// The return addresses from a frame of generated code on, up to the first one that is not in `registered`.
///
/// # Safety
/// The table lies where it is registered, and the frame is one of this thread's, below the caller's.
pub unsafe fn backtrace(registered: &Registration, frame: Frame) -> Vec<u64> {
    let Registration { table, table_size, text, text_size, .. } = *registered;
    // SAFETY: the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(table.0 as *const u8, table_size as usize) };
    let mut frames = vec![frame.pc];
    let Ok(section) = Section::parse(bytes, table) else { return frames };
    let mut registers = Registers { sp: frame.sp, fp: Some(frame.fp), lr: None, others: &[] };
    let mut pc = Address(frame.pc);
    while pc.0.wrapping_sub(text.0) < text_size {
        // The call is before its return address.
        let Ok(Some(row)) = section.lookup(Address(pc.0 - 1)) else { break };
        // SAFETY: rows lead to where the functions put their return addresses.
        let memory = |address: Address| Some(unsafe { *(address.0 as *const u64) });
        let Ok(caller) = step(section.arch(), &row, &registers, memory) else { break };
        frames.push(caller.pc.0);
        (pc, registers) = (caller.pc, caller.registers());
    }
    frames
}
