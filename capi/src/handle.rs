//! Handles: objects that this library allocates and frees. Only one thread at a time uses a handle.

use core::fmt;

use crate::arguments::{reference, reference_mut, write_optional};
use crate::cfipack_message;
use crate::cfipack_status;
use crate::status::guarded;

/// A type that C only knows through pointers.
pub(crate) trait Opaque {
    /// The Rust value behind the pointer.
    type State;
}

/// An error, with the status that the call returns.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: cfipack_status,
    pub(crate) message: String,
}

impl Failure {
    /// Creates a failure with the text of an error.
    pub(crate) fn new(status: cfipack_status, error: &dyn fmt::Display) -> Self {
        Self { status, message: error.to_string() }
    }

    /// Returns the message for C, or the text of the status if there is no message.
    fn message(&self) -> cfipack_message {
        if self.message.is_empty() {
            cfipack_message::for_status(self.status)
        } else {
            cfipack_message::new(&self.message)
        }
    }

    /// Creates a failure for an invalid argument.
    pub(crate) fn argument(what: &dyn fmt::Display) -> Self {
        Self::new(cfipack_status::InvalidArgument, what)
    }
}

impl From<cfipack_status> for Failure {
    fn from(status: cfipack_status) -> Self {
        Self { status, message: String::new() }
    }
}

/// The value of a handle, with the message of its last call.
#[derive(Debug)]
struct Handle<T> {
    value: T,
    message: cfipack_message,
}

impl<T> Handle<T> {
    /// Records the result of a call: stores the message and returns the status.
    fn ended(&mut self, result: Result<(), Failure>) -> cfipack_status {
        let failure = result.err().unwrap_or(cfipack_status::Ok.into());
        self.message = failure.message();
        failure.status
    }
}

/// Runs a call on a handle, and stores its message.
///
/// # Safety
/// The pointer is null, or comes from this library and has not been freed, and no other call uses it.
pub(crate) unsafe fn with<O: Opaque>(
    handle: *mut O,
    call: impl FnOnce(&mut O::State) -> Result<(), Failure>,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    match unsafe { reference_mut(handle.cast::<Handle<O::State>>()) } {
        Ok(handle) => {
            let result = guarded(|| Caught(call(&mut handle.value))).0;
            handle.ended(result)
        }
        Err(status) => status,
    }
}

/// The result of a call that may have panicked.
struct Caught(Result<(), Failure>);

impl From<cfipack_status> for Caught {
    fn from(status: cfipack_status) -> Self {
        Self(Err(status.into()))
    }
}

/// Creates a handle and writes its pointer to `out`.
///
/// # Safety
/// `out` is null or writable, `message` is null or writable.
pub(crate) unsafe fn create<O: Opaque>(
    out: *mut *mut O,
    message: *mut cfipack_message,
    value: impl FnOnce() -> Result<O::State, Failure>,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { create_in_part(out, message, || value().map(|value| (value, Ok(())))) }
}

/// Creates a handle and writes its pointer to `out`. `value` may return a failure together with a value. Then the
/// handle exists, and the call has the failure's status and message.
///
/// # Safety
/// The conditions of [`create`].
pub(crate) unsafe fn create_in_part<O: Opaque>(
    out: *mut *mut O,
    message: *mut cfipack_message,
    value: impl FnOnce() -> Result<(O::State, Result<(), Failure>), Failure>,
) -> cfipack_status {
    if out.is_null() || !out.is_aligned() {
        let status = cfipack_status::InvalidArgument;
        // SAFETY: promised by the caller.
        let _ = unsafe { write_optional(message, cfipack_message::for_status(status)) };
        return status;
    }
    // SAFETY: not null and aligned; writable by the caller's promise.
    unsafe { out.write(core::ptr::null_mut()) };
    let mut made = None;
    let result = guarded(|| {
        Caught(value().and_then(|(value, result)| {
            made = Some(value);
            result
        }))
    });
    let (status, text) = match result.0 {
        Ok(()) => (cfipack_status::Ok, cfipack_message::EMPTY),
        Err(failure) => (failure.status, failure.message()),
    };
    // SAFETY: promised by the caller.
    if let Err(status) = unsafe { write_optional(message, text) } {
        return status;
    }
    if let Some(value) = made {
        let handle = Box::new(Handle { value, message: cfipack_message::EMPTY });
        // SAFETY: as above.
        unsafe { out.write(Box::into_raw(handle).cast()) };
    }
    status
}

/// Frees a handle and returns its value.
///
/// # Safety
/// The conditions of [`with`].
pub(crate) unsafe fn take<O: Opaque>(handle: *mut O) -> Option<O::State> {
    let handle = handle.cast::<Handle<O::State>>();
    if handle.is_null() || !handle.is_aligned() {
        return None;
    }
    // SAFETY: given by this library, as the caller promises.
    Some(unsafe { Box::from_raw(handle) }.value)
}

/// Frees a shard that `handle` absorbs, and returns its value. A handle that is told to absorb itself stays.
///
/// # Safety
/// The conditions of [`with`], for both.
pub(crate) unsafe fn take_shard<O: Opaque>(shard: *mut O, handle: *const O) -> Result<O::State, Failure> {
    let refused = |what: &str| Failure::argument(&format_args!("{what}: only another shard can be absorbed"));
    if core::ptr::eq(shard, handle) {
        return Err(refused("the shard is what absorbs it"));
    }
    // SAFETY: promised by the caller.
    unsafe { take(shard) }.ok_or_else(|| refused("the shard is null"))
}

/// Frees a handle. Does nothing for null.
///
/// # Safety
/// The conditions of [`with`].
pub(crate) unsafe fn free<O: Opaque>(handle: *mut O) {
    guarded(|| {
        // SAFETY: promised by the caller.
        drop(unsafe { take(handle) });
        cfipack_status::Ok
    });
}

/// Returns the message of a handle's last call.
///
/// # Safety
/// The conditions of [`with`].
pub(crate) unsafe fn message<O: Opaque>(handle: *const O) -> *const core::ffi::c_char {
    // SAFETY: promised by the caller.
    match unsafe { reference(handle.cast::<Handle<O::State>>()) } {
        Ok(handle) => handle.message.text.as_ptr(),
        Err(_) => c"".as_ptr(),
    }
}

/// Returns a handle's value and leaves its message unchanged.
///
/// # Safety
/// The conditions of [`with`].
pub(crate) unsafe fn get<'a, O: Opaque>(handle: *const O) -> Result<&'a O::State, cfipack_status>
where
    O::State: 'a,
{
    // SAFETY: promised by the caller.
    Ok(unsafe { &reference(handle.cast::<Handle<O::State>>())?.value })
}
