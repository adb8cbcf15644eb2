//! Unwind tables for a linker: reads the call frame information (CFI) and tables of many objects, and writes one
//! table.
//!
//! You push each input object's sections before relocation, and a closure tells this crate which functions are live
//! and under which [key](format::Key). You also push the stubs that the linker itself will write. The result has an
//! exact size before anything has an address. Once addresses are known it is written into the output, again after
//! each relayout, and no input is read twice.
//!
//! | Module | Contents |
//! |---|---|
//! | [`sframe`] | The ELF section `.sframe`: a `Merger` takes objects, a `Section` is written. Start here for ELF. |
//! | [`stubs`] | Rows for code that linkers write: PLTs, thunks, TLS descriptors. Also recognises stubs in finished files. |
//! | [`unwind_info`] | The Mach-O section `__unwind_info`: a `Builder` takes objects, a `Section` is placed, a `Table` is written. |
//! | [`linked`] | Merges the tables that an old linker has only concatenated in a linked file. |

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
