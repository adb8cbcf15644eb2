//! Whether standard output was open when the program was started.
//!
//! Before `main`, Rust opens `/dev/null` in the place of a standard stream that is closed, and what is
//! written there is lost in silence: only what runs earlier can tell.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether whoever started the program had closed its standard output.
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

#[cfg(unix)]
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static BEFORE_MAIN: extern "C" fn() = look;

#[cfg(unix)]
extern "C" fn look() {
    // SAFETY: F_GETFD reads a flag of a descriptor, which need not be open, and no memory.
    if unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1 {
        WAS_CLOSED.store(true, Ordering::Relaxed);
    }
}
