//! Finds the unwind tables of the files that this process has loaded, for a profiler inside the process.
//!
//! [`ProcessModules`] asks the dynamic loader for the loaded files. It copies the `.sframe` of each file that has one in
//! memory, and makes a table of the `.eh_frame` of every other file. A signal handler takes [`CurrentModules`], and walks
//! with it. Another thread calls [`ProcessModules::refresh`] after `dlopen` and `dlclose`. Neither waits for the other.
//!
//! The crate is empty on other systems than Linux, and on machines for which `.sframe` is not defined.
//!
//! - `loader` declares `dl_iterate_phdr`, and gives the segments and the memory of each file.
//! - `table` copies or makes the table of a file.
//! - `slots` replaces a value while signal handlers use it.
//! - `modules` has [`ProcessModules`].
//! - `space` is the address space of a walk.
//! - `start` finds the frame in which the process started.

#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")
))]

mod loader;
mod modules;
mod slots;
mod space;
mod start;
mod table;

pub use modules::{Busy, Options, ProcessModules, Refreshed};
pub use space::CurrentModules;

use cfipack_format::Arch;

/// The architecture of this process.
const ARCH: Arch = if cfg!(target_arch = "x86_64") {
    Arch::Amd64
} else if cfg!(target_arch = "s390x") {
    Arch::S390x
} else if cfg!(target_endian = "big") {
    Arch::Aarch64Be
} else {
    Arch::Aarch64
};
