//! One owner of all generated code, which threads and signal handlers read while regions come and go.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use cfipack_assembler::registry::{Reader, Registry};
use cfipack_format::Address;

use crate::arguments::{arch, reference, write, write_optional};
use crate::cfipack_status::{self, NotFound};
use crate::handle::{self, Opaque};
use crate::region::{cfipack_region, failure};
use crate::status::call;
use crate::{cfipack_message, cfipack_row};

/// The rows of all generated code that is registered. One thread at a time adds and removes; readers never wait for it.
#[derive(Debug)]
pub struct cfipack_registry(());

impl Opaque for cfipack_registry {
    type State = Registry<Undo>;
}

/// A reader of a registry. Any number of threads, and signal handlers, may use it at a time.
#[derive(Debug)]
pub struct cfipack_registry_reader(());

impl Opaque for cfipack_registry_reader {
    type State = Reader;
}

/// What is called when a region is removed, or the registry freed: it undoes the region's registrations elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_undo {
    /// The function. It is called once, by the thread that removes the region, when no reader finds it any more.
    pub undo: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// The argument of `undo`.
    pub context: *mut c_void,
}

/// Calls the function when it is dropped.
#[derive(Debug)]
pub struct Undo(cfipack_undo);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(undo) = self.0.undo {
            // SAFETY: what the caller of `cfipack_registry_add` has given for this.
            unsafe { undo(self.0.context) };
        }
    }
}

/// Makes a registry without regions. `message`, which may be null, gets what is wrong. `cfipack_registry_free` frees it.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_new(
    out: *mut *mut cfipack_registry,
    architecture: u32,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, message, || Ok(Registry::new(arch(architecture)?))) }
}

/// Adds a region: readers find it from the return on. Register it elsewhere before, and publish the addresses of the code
/// after. `undo`, which may be null, is kept with it. `omitted`, which may be null, gets how many of its functions have no rows:
/// walks end in them. `CFIPACK_STATUS_REFUSED` if a registered region has some of its code. Where it is not added, `undo` is not
/// called.
///
/// # Safety
/// Pointers are null, or lead to what their types say; `undo` names a function that may be called with its context until the
/// region is removed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_add(
    registry: *mut cfipack_registry,
    region: *const cfipack_region,
    undo: *const cfipack_undo,
    omitted: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe {
        handle::with(registry, |registry| {
            let region = handle::get(region)?;
            let undo = if undo.is_null() { None } else { Some(*reference(undo)?) };
            let none = Undo(cfipack_undo { undo: None, context: null_mut() });
            let without_rows = registry.add(region, none).map_err(failure)?;
            // From now on it is called.
            if let (Some(undo), Some(value)) = (undo, registry.value_mut(region.base())) {
                value.0 = undo;
            }
            Ok(write_optional(omitted, without_rows.len())?)
        })
    }
}

/// Removes the region that starts at `base`: no reader finds it from the return on. Then what was kept with it is undone. No
/// thread may be in the code; free it after. `CFIPACK_STATUS_NOT_FOUND` if no region starts there.
///
/// # Safety
/// `registry` is null or a registry.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_remove(
    registry: *mut cfipack_registry,
    base: u64,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::with(registry, |registry| registry.remove(Address(base)).map(drop).map_err(failure)) }
}

/// Bytes of the memory that readers read.
///
/// # Safety
/// `registry` is null or a registry, `size` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_get_memory_size(
    registry: *const cfipack_registry,
    size: *mut usize,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    call(|| unsafe { write(size, handle::get(registry)?.memory_size()) })
}

/// The message of the registry's last call; empty if that had no error. It stays until the next call.
///
/// # Safety
/// `registry` is null or a registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_message(registry: *const cfipack_registry) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(registry) }
}

/// Removes all regions, undoes what was kept with them, and frees the registry; null is nothing. Readers find nothing from then
/// on.
///
/// # Safety
/// `registry` is null or a registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_free(registry: *mut cfipack_registry) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(registry) };
}

/// Makes a reader, which stays valid when the registry is freed. `cfipack_registry_reader_free` frees it.
///
/// # Safety
/// Pointers are null, or lead to what their types say.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_reader_new(
    out: *mut *mut cfipack_registry_reader,
    registry: *const cfipack_registry,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, null_mut(), || Ok(handle::get(registry)?.reader())) }
}

/// The row that answers for a PC in registered code; `CFIPACK_STATUS_NOT_FOUND` if there is none. Its start counts from that of
/// its function. Async-signal-safe, also in a handler that interrupts a call of the registry; it never waits.
///
/// # Safety
/// `reader` is null or a reader, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_lookup(
    reader: *const cfipack_registry_reader,
    pc: u64,
    out: *mut cfipack_row,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let frame = unsafe { handle::get(reader) }?.lookup(Address(pc)).ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, cfipack_row::new(&frame.row, frame.is_signal_frame)) }
    })
}

/// Frees a reader; null is nothing. Not for signal handlers.
///
/// # Safety
/// `reader` is null or a reader that no thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_reader_free(reader: *mut cfipack_registry_reader) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(reader) };
}
