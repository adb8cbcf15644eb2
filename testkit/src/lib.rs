//! What the tests of several crates share. This crate depends on `cfipack-format` alone of cfipack, so that the tests of
//! every other crate can use it.

pub mod by_cfi;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod child;
pub mod gas_errors;
pub mod needs;
pub mod process;
pub mod random;
pub mod rustc;
