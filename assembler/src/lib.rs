//! Unwind tables for an assembler or JIT: CFI directives in, call frame information, `.sframe`, compact unwind and
//! what runtimes register out.
//!
//! Directives say, at offsets of a function's code, how the canonical frame address changes and which registers are
//! saved where. From one such description every form is made that a reader wants.

#![no_std]

extern crate alloc;

pub mod region;

pub use cfipack_format as format;
