//! Unwind tables for a linker: call frame information and tables of many objects in, one table out.
//!
//! A linker gives the sections of its input objects before relocation, and what it knows of them: which functions
//! live, under which [keys](format::Key), and which stubs it will write. It gets a table whose size is exact before
//! anything has an address, and which is written into the output when addresses are known, again after each
//! relayout, without reading an input twice.
//!
//! [`sframe`] makes the ELF section `.sframe`, [`stubs`] knows the rows of the code that linkers write themselves.
//! [`unwind_info`] makes the Mach-O section `__unwind_info`.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod linked;
pub mod sframe;
pub mod stubs;
pub mod unwind_info;

use cfipack_cfi as cfi;
use cfipack_decoder as decoder;
use cfipack_encoder as encoder;
use cfipack_format as format;
