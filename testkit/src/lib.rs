//! Shares code between the tests of several crates. Of cfipack it depends on `cfipack-format` alone, so that every
//! other crate can use it in its tests.

pub mod by_cfi;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod child;
pub mod gas_errors;
pub mod needs;
pub mod process;
pub mod random;
pub mod rustc;
