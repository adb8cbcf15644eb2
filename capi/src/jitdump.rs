//! Writes the records of a jitdump file, for perf.

use cfipack_assembler::region::jitdump::{self, Event};

use crate::arguments::{arch, array, array_mut, reference, write_optional};
use crate::cfipack_status;
use crate::handle;
use crate::region::{cfipack_buffer, cfipack_region, failure, fill};
use crate::status::call;

/// The time when a function was generated, and the thread that generated it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_jitdump_event {
    /// The process ID.
    pub pid: u32,
    /// The thread ID.
    pub tid: u32,
    /// The time of `CLOCK_MONOTONIC`, in nanoseconds.
    pub time: u64,
    /// A number that is unique among the functions of the process.
    pub code_index: u64,
}

/// Writes the header of a jitdump file: 40 bytes.
///
/// # Safety
/// `out` is null or writable for 40 bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_jitdump_header(
    architecture: u32,
    pid: u32,
    time: u64,
    out: *mut u8,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let out: &mut [u8] = unsafe { array_mut(out, 40) }?;
        out.copy_from_slice(&jitdump::header(arch(architecture)?, pid, time));
        Ok(())
    })
}

/// Writes the record that ends a jitdump file: 16 bytes.
///
/// # Safety
/// `out` is null or writable for 16 bytes.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_jitdump_close(architecture: u32, time: u64, out: *mut u8) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let out: &mut [u8] = unsafe { array_mut(out, 16) }?;
        out.copy_from_slice(&jitdump::close(arch(architecture)?, time));
        Ok(())
    })
}

/// Makes the records of a function, by its index in the order of addresses. Write all of them to the file with a
/// single call. `code` is the code of the function. `room` may be null; otherwise it gets the number of bytes, from
/// the function's start, in which no other function may lie.
///
/// # Safety
/// Each pointer is null or points to a value of its type; the buffer is writable for its capacity.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_region_jitdump(
    region: *mut cfipack_region,
    index: usize,
    code: *const u8,
    code_len: usize,
    event: *const cfipack_jitdump_event,
    out: *mut cfipack_buffer,
    room: *mut u64,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(region, |region| {
            let function = jitdump::Function::new(region, index, jitdump::Options::new()).map_err(failure)?;
            write_optional(room, function.room())?;
            let cfipack_jitdump_event { pid, tid, time, code_index } = *reference(event)?;
            let event = Event { pid, tid, time, code_index };
            fill(&function.records(array(code, code_len)?, event).map_err(failure)?, out)
        })
    }
}
