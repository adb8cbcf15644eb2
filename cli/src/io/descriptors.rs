//! Descriptors that the process inherits. Finds out if standard descriptors are closed, and copies descriptors by
//! number.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, RawFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit `N`: descriptor `N` is closed when the program starts.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Notes if descriptors 0 to 2 are closed.
///
/// This function has to run before Rust's runtime, because the runtime opens `/dev/null` in place of closed
/// descriptors. A descriptor of `/dev/null` is no evidence: other programs open it for their children too.
extern "C" fn note_closed() {
    for descriptor in 0..=2 {
        // SAFETY: F_GETFD reads a flag and changes nothing. For a closed descriptor it returns an error.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to functions. The C runtime calls these functions one after the other, before
// `main`. The function uses nothing of Rust's runtime: only a system call and an atomic.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static AT_START: extern "C" fn() = note_closed;

/// Returns an error if a standard descriptor is closed when the program starts.
pub fn check_open(descriptor: RawFd) -> io::Result<()> {
    if matches!(descriptor, 0..=2) && CLOSED.load(Ordering::Relaxed) & 1 << descriptor != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    Ok(())
}

/// Copies an open descriptor. The copy has the same offset and the same append mode. If you open `/dev/fd/N` on Linux,
/// the new file has its own offset.
pub fn copy(descriptor: RawFd) -> io::Result<File> {
    check_open(descriptor)?;
    // SAFETY: the user can give any number. For a closed descriptor the call returns an error.
    let copy = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
    if copy == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and only the file returned owns it.
    Ok(unsafe { File::from_raw_fd(copy) })
}
