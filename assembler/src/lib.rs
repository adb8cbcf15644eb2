//! Unwind tables for an assembler or JIT: CFI directives in, call frame information, `.sframe`, compact unwind and
//! what runtimes register out.
//!
//! Directives say, at offsets of a function's code, how the canonical frame address changes and which registers are
//! saved where. From one such description every form is made that a reader wants.

#![cfg_attr(not(feature = "std"), no_std)]

pub use cfipack_format as format;
