//! A registry of generated code. Threads and signal handlers read it while regions come and go.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use cfipack_assembler::registry::{Reader, Registry};
use cfipack_format::Address;

use crate::arguments::{arch, reference, write, write_optional};
use crate::cfipack_status::{self, InvalidArgument, NotFound};
use crate::handle::{self, Opaque};
use crate::region::{cfipack_region, failure};
use crate::status::call;
use crate::{cfipack_message, cfipack_row};

/// The rows of all registered regions of generated code. One thread at a time adds and removes regions. Readers never
/// wait for it, and it never waits for a reader.
///
/// A child after `fork` may use its copy as its parent does: look up, add, remove and free. Only no thread may be
/// adding or removing at the moment of the fork. If several threads may fork or change the registry, take its lock in
/// `pthread_atfork` before the fork, and release it afterwards in the parent and in the child. Lookups need no
/// preparation.
///
/// A lookup that never ends delays no other call: its thread may be stopped, or it does not exist in the child. Such
/// lookups keep at most four times as much memory as the registry has had at most, until the registry and its readers
/// are freed.
///
/// As with every function of this library, a thread must not be cancelled asynchronously in a call, nor leave it by
/// `longjmp` from a signal handler. No call is a cancellation point.
#[derive(Debug)]
pub struct cfipack_registry(());

impl Opaque for cfipack_registry {
    type State = Registry<Undo>;
}

/// A reader of a registry. Any number of threads and signal handlers may use it at the same time.
#[derive(Debug)]
pub struct cfipack_registry_reader(());

impl Opaque for cfipack_registry_reader {
    type State = Reader;
}

/// A function to call when a region is removed or the registry is freed. Use it to undo the region's registrations
/// elsewhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_undo {
    /// The function. The thread that removes the region calls it once, after readers can no longer find the region. It may
    /// call any function of the registry but `cfipack_registry_free`, also while the registry is being freed.
    pub undo: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// The argument of `undo`.
    pub context: *mut c_void,
}

/// Calls the caller's function when it is dropped.
#[derive(Debug)]
pub struct Undo(cfipack_undo);

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some(undo) = self.0.undo {
            // SAFETY: the caller of `cfipack_registry_add` has given this function for this call.
            unsafe { undo(self.0.context) };
        }
    }
}

/// Creates an empty registry. `message` may be null; otherwise it gets a description of the error. Free the registry
/// with `cfipack_registry_free`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
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

/// Adds a region. Readers find it as soon as this function returns. Register the region elsewhere before this call,
/// and publish the addresses of its code after it. `undo` may be null; otherwise it is kept with the region.
/// `omitted` may be null; otherwise it gets the number of functions without rows, and walks end in these functions.
/// Returns `CFIPACK_STATUS_REFUSED` if a registered region overlaps. If the region is not added, `undo` is not
/// called.
///
/// # Safety
/// Each pointer is null or points to a value of its type; `undo` names a function that may be called with its context
/// until the region is removed.
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
            // A call that fails must not add the region, so check the pointer first.
            write_optional(omitted, 0)?;
            let none = Undo(cfipack_undo { undo: None, context: null_mut() });
            let without_rows = registry.add(region, none).map_err(failure)?;
            // From now on `undo` is called.
            if let (Some(undo), Some(value)) = (undo, registry.value_mut(region.base())) {
                value.0 = undo;
            }
            Ok(write_optional(omitted, without_rows.len())?)
        })
    }
}

/// Removes the region that starts at `base`. Readers cannot find it after this function returns. Its `undo` is called
/// then. No thread may be running the region's code; free the code after this call. Returns
/// `CFIPACK_STATUS_NOT_FOUND` if no region starts at `base`.
///
/// # Safety
/// `registry` is null or a registry.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_remove(
    registry: *mut cfipack_registry,
    base: u64,
) -> cfipack_status {
    let mut removed = None;
    let remove = |registry: &mut Registry<Undo>| {
        removed = Some(registry.remove(Address(base)).map_err(failure)?);
        Ok(())
    };
    // SAFETY: promised by the caller.
    let status = unsafe { handle::with(registry, remove) };
    // The `undo` may call functions of the registry, so this call no longer uses it.
    drop(removed);
    status
}

/// Gets the size of the memory that readers use, in bytes.
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

/// Returns the message of the registry's last call, or an empty string if that call succeeded. The string stays valid
/// until the next call.
///
/// # Safety
/// `registry` is null or a registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_message(registry: *const cfipack_registry) -> *const c_char {
    // SAFETY: promised by the caller.
    unsafe { handle::message(registry) }
}

/// Removes each region, calls its `undo`, and frees the registry last. A region that an `undo` adds is removed too. Does
/// nothing for null. Readers find nothing from then on.
///
/// # Safety
/// `registry` is null or a registry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_free(registry: *mut cfipack_registry) {
    let first = || {
        // SAFETY: promised by the caller. The registry is in use only until this returns.
        let registry = unsafe { handle::get(registry.cast_const()) }.ok()?;
        registry.regions().next().map(|(base, ..)| base.0)
    };
    while let Some(base) = first() {
        // SAFETY: promised by the caller.
        if unsafe { cfipack_registry_remove(registry, base) } != cfipack_status::Ok {
            break;
        }
    }
    // SAFETY: promised by the caller.
    unsafe { handle::free(registry) };
}

/// Creates a reader. It stays valid when the registry is freed. Free it with `cfipack_registry_reader_free`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_reader_new(
    out: *mut *mut cfipack_registry_reader,
    registry: *const cfipack_registry,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, null_mut(), || Ok(handle::get(registry)?.reader())) }
}

/// Gets the row for a PC in registered code, or returns `CFIPACK_STATUS_NOT_FOUND` if there is none. The start of the
/// row counts from the start of its function. Async-signal-safe, even in a handler that interrupts a call of the
/// registry. It never waits, and no other call waits for it.
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
        if out.is_null() {
            return Err(InvalidArgument);
        }
        // SAFETY: promised by the caller.
        let frame = unsafe { handle::get(reader) }?.lookup(Address(pc)).ok_or(NotFound)?;
        // SAFETY: promised by the caller.
        unsafe { write(out, cfipack_row::new(&frame.row, frame.is_signal_frame)) }
    })
}

/// Frees a reader. Does nothing for null. Do not call this in a signal handler.
///
/// # Safety
/// `reader` is null or a reader that no thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_registry_reader_free(reader: *mut cfipack_registry_reader) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(reader) };
}
