//! Looks up rows with an index over a `.sframe` table, in memory of the caller.

use cfipack_decoder::sframe::{Error, Index};
use cfipack_format::Address;

use crate::arguments::{array_mut, write};
use crate::cfipack_row;
use crate::cfipack_status::{self, BufferSize};
use crate::in_place::{Memory, clear, get, put};
use crate::sframe::{cfipack_sframe, malformed, write_frame};
use crate::status::call;

/// A parsed table with an index, in memory of the caller. It makes lookups about twice as fast.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_sframe_index {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 32],
}

impl Memory for cfipack_sframe_index {
    const TAG: u64 = u64::from_le_bytes(*b"cfiINDEX");
    type Value = Index<'static, 'static>;
}

/// Gets the number of 32-bit words that an index of a table needs. Async-signal-safe.
///
/// # Safety
/// `table` was parsed, `words` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_index_words(
    table: *const cfipack_sframe,
    words: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        // SAFETY: promised by the caller.
        unsafe { write(words, Index::len_for(section)) }
    })
}

/// Builds an index of a table in `memory`. The memory, and the bytes of the table, must stay where they are as long
/// as the index is used. Async-signal-safe.
///
/// # Safety
/// `table` was parsed; `memory` is writable for `words` words, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_index_build(
    out: *mut cfipack_sframe_index,
    table: *const cfipack_sframe,
    memory: *mut u32,
    words: usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { clear(out) }?;
        // SAFETY: promised by the caller.
        let section = unsafe { get(table) }?;
        // SAFETY: promised by the caller.
        let memory: &'static mut [u32] = unsafe { array_mut(memory, words) }?;
        let index = Index::build(section, memory).map_err(|error| match error {
            Error::IndexMemory { .. } => BufferSize,
            error => malformed(error),
        })?;
        // SAFETY: promised by the caller.
        unsafe { put(out, index) }
    })
}

/// Looks up a row as `cfipack_sframe_lookup` does, but faster, with an index. Async-signal-safe.
///
/// # Safety
/// `index` was built, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_index_lookup(
    index: *const cfipack_sframe_index,
    pc: u64,
    out: *mut cfipack_row,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let index = unsafe { get(index) }?;
        // SAFETY: promised by the caller.
        unsafe { write_frame(out, &index.lookup_frame(Address(pc))) }
    })
}
