//! Status codes and messages.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write as _};

use crate::arguments::write_optional;

/// The status that a call returns. Values never change; later versions may add values.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cfipack_status {
    /// The call succeeded.
    Ok = 0,
    /// Nothing was found: no row for a PC, or no entry with this number.
    NotFound = 1,
    /// The frame is outermost. A stack ends this way.
    Outermost = 2,
    /// An argument is invalid: a pointer is null, misaligned or reaches beyond memory, a constant is unknown, an
    /// array is not sorted as required, a key is not an index of the array of addresses, or a handle is invalid.
    InvalidArgument = 3,
    /// The caller's buffer is too small, or does not have exactly the right length. The call sets the length that is
    /// needed.
    BufferSize = 4,
    /// The bytes of a table or of call frame information are damaged.
    Malformed = 5,
    /// The format does not support this architecture, version or option.
    Unsupported = 6,
    /// A step needs a register or a word of memory that is unknown.
    Unknown = 7,
    /// A function cannot be represented or added: it overlaps another function, lies outside of the region, or has an
    /// error.
    Refused = 8,
    /// A table cannot be written at these addresses: a function is out of reach, functions share PCs, or a number
    /// does not fit its field.
    Write = 9,
    /// A defect of cfipack. The handle can only be freed now.
    Internal = 10,
}

/// Returns the meaning of a status in English. The string is static and never null.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_status_text(status: u32) -> *const c_char {
    text_of(status).as_ptr()
}

fn text_of(status: u32) -> &'static CStr {
    match status {
        0 => c"done",
        1 => c"not found",
        2 => c"the frame is outermost",
        3 => c"an argument is invalid",
        4 => c"the buffer has another length",
        5 => c"the bytes are damaged",
        6 => c"not supported by the format",
        7 => c"a register or a word of memory is not known",
        8 => c"the function cannot be represented or added",
        9 => c"the table cannot be written at these addresses",
        10 => c"a defect of cfipack",
        _ => c"unknown status",
    }
}

/// The size of a message in bytes, including the final zero.
pub const CFIPACK_MESSAGE_SIZE: usize = 256;

/// A message for a person, with the offset and the value that are wrong. It ends with a zero, and a longer message is
/// cut off. A call that takes a message always writes it; the message is empty if the call succeeded.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct cfipack_message {
    /// The text in UTF-8.
    pub text: [c_char; CFIPACK_MESSAGE_SIZE],
}

impl cfipack_message {
    /// The empty message.
    pub(crate) const EMPTY: Self = Self { text: [0; CFIPACK_MESSAGE_SIZE] };

    /// Creates a message from a text, cut off to the size of a message.
    pub(crate) fn new(text: &dyn fmt::Display) -> Self {
        let mut bytes = [0; CFIPACK_MESSAGE_SIZE];
        let mut out = Text::new(&mut bytes[..CFIPACK_MESSAGE_SIZE - 1]);
        // Text that does not fit is counted, not written.
        let _ = write!(out, "{text}");
        Self { text: bytes.map(|byte| byte as c_char) }
    }

    /// Creates a message with the meaning of a status; it is empty for success.
    pub(crate) fn for_status(status: cfipack_status) -> Self {
        match status {
            cfipack_status::Ok => Self::EMPTY,
            // The texts are ASCII.
            _ => Self::new(&text_of(status as u32).to_str().unwrap_or_default()),
        }
    }
}

impl fmt::Debug for cfipack_message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text.map(|byte| byte as u8);
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        text.fmt(f)
    }
}

/// Writes text into a caller's buffer: the characters that fit. It counts the bytes of the whole text.
#[derive(Debug)]
pub(crate) struct Text<'b> {
    out: &'b mut [u8],
    written: usize,
    /// The number of bytes in the whole text.
    pub(crate) len: usize,
}

impl<'b> Text<'b> {
    pub(crate) fn new(out: &'b mut [u8]) -> Self {
        Self { out, written: 0, len: 0 }
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // If a text does not fit, the texts after it are counted and not written.
        if self.written == self.len {
            let room = self.out.len() - self.written;
            let part = (0..=room.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
            self.out[self.written..][..part].copy_from_slice(&text.as_bytes()[..part]);
            self.written += part;
        }
        self.len += text.len();
        Ok(())
    }
}

/// Runs the body of a call. A panic, which would be a defect, does not reach the caller.
#[cfg(feature = "write")]
pub(crate) fn guarded<R: From<cfipack_status>>(call: impl FnOnce() -> R) -> R {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    result.unwrap_or_else(|_| cfipack_status::Internal.into())
}

/// Runs the body of a call. A library without the feature `write` cannot catch a panic, which would be a defect, so a
/// panic ends the process.
#[cfg(not(feature = "write"))]
pub(crate) fn guarded<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Runs the body of a call and returns its status.
pub(crate) fn call(call: impl FnOnce() -> Result<(), cfipack_status>) -> cfipack_status {
    guarded(|| call().err().unwrap_or(cfipack_status::Ok))
}

/// An error of a call without a handle: the status to return, and a description.
pub(crate) struct Described<E> {
    status: cfipack_status,
    error: Option<E>,
}

impl<E> Described<E> {
    pub(crate) fn new(status: cfipack_status, error: E) -> Self {
        Self { status, error: Some(error) }
    }
}

impl<E> From<cfipack_status> for Described<E> {
    fn from(status: cfipack_status) -> Self {
        Self { status, error: None }
    }
}

/// Runs the body of a call, and writes its message to the caller's `message`.
///
/// # Safety
/// `message` is null or writable.
pub(crate) unsafe fn described<E: fmt::Display>(
    message: *mut cfipack_message,
    run: impl FnOnce() -> Result<(), Described<E>>,
) -> cfipack_status {
    call(|| {
        let result = run();
        let text = match &result {
            Ok(()) => cfipack_message::EMPTY,
            Err(Described { status, error: None }) => cfipack_message::for_status(*status),
            Err(Described { error: Some(error), .. }) => cfipack_message::new(error),
        };
        // SAFETY: promised by the caller.
        unsafe { write_optional(message, text) }?;
        result.map_err(|failure| failure.status)
    })
}
