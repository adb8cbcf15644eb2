//! One `.sframe` table that grows in place, while other threads read it.

use core::ffi::c_char;
use core::sync::atomic::AtomicU32;

use cfipack_assembler::region::sframe_table::{Capacity, SframeTable};
use cfipack_format::Address;

use crate::arguments::{arch, array, reference, write, write_optional};
use crate::cfipack_message;
use crate::cfipack_status::{self, InvalidArgument};
use crate::handle::{self, Opaque};
use crate::region::{cfipack_region, cfipack_registration, failure};
use crate::status::call;

/// A `.sframe` table that grows in memory of the caller. One thread writes; any number may read the memory.
#[derive(Debug)]
pub struct cfipack_sframe_table(());

impl Opaque for cfipack_sframe_table {
    type State = SframeTable<'static>;
}

/// Finds the capacity of a table. The format counts both in 32 bits.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct cfipack_sframe_capacity {
    /// Functions, removed ones included.
    pub functions: usize,
    /// Bytes of rows, about 3 for each.
    pub row_bytes: usize,
}

/// # Safety
/// `capacity` is null or leads to one.
unsafe fn most(capacity: *const cfipack_sframe_capacity) -> Result<Capacity, cfipack_status> {
    // SAFETY: promised by the caller.
    let cfipack_sframe_capacity { functions, row_bytes } = *unsafe { reference(capacity) }?;
    match (u32::try_from(functions), u32::try_from(row_bytes)) {
        (Ok(functions), Ok(row_bytes)) => Ok(Capacity { functions, row_bytes }),
        _ => Err(InvalidArgument),
    }
}

/// Returns the number of words of 32 bits that a table needs.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_words(
    capacity: *const cfipack_sframe_capacity,
    words: *mut usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe {
            let needed = most(capacity)?.words().map_err(|error| failure(error).status)?;
            write(words, needed)
        }
    })
}

/// Makes an empty table in `memory`, of `words` words, which lies at `address` in the process that reads it. It may be
/// registered at once. The memory has to stay until `cfipack_sframe_table_free`, and is only written to by this library.
/// `message`, which may be null, gets what is wrong.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `memory` is writable for `words` words.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_new(
    out: *mut *mut cfipack_sframe_table,
    architecture: u32,
    capacity: *const cfipack_sframe_capacity,
    memory: *mut u32,
    words: usize,
    address: u64,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::create(out, message, || {
            let memory: &'static [AtomicU32] = array(memory.cast::<AtomicU32>(), words)?;
            SframeTable::new(memory, Address(address), arch(architecture)?, most(capacity)?).map_err(failure)
        })
    }
}

/// Adds the functions of a region, which lie after all that the table has. `omitted`, which may be null, gets how many of
/// them the table cannot represent. The table is unchanged if there is no room.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_add(
    table: *mut cfipack_sframe_table,
    region: *const cfipack_region,
    omitted: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(table, |table| {
            let without_rows = table.add(handle::get(region)?).map_err(failure)?;
            Ok(write_optional(omitted, without_rows.len())?)
        })
    }
}

/// Removes the functions that start in `length` bytes of code at `start`. No thread may be in them.
///
/// # Safety
/// `table` is null or a table.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_remove(
    table: *mut cfipack_sframe_table,
    start: u64,
    length: u64,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::with(table, |table| table.remove(Address(start), length).map_err(failure)) }
}

/// Gets what to register for code that lies, or will lie, in `length` bytes at `text`.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_get_registration(
    table: *const cfipack_sframe_table,
    text: u64,
    length: u64,
    out: *mut cfipack_registration,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(out, handle::get(table)?.registration(Address(text), length).into()) })
}

/// The message of the table's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `table` is null or a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_message(table: *const cfipack_sframe_table) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(table) }
}

/// Frees the handle; null is nothing. The memory is the caller's, and the table in it stays as it is.
///
/// # Safety
/// `table` is null or a table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_sframe_table_free(table: *mut cfipack_sframe_table) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(table) };
}
