//! This crate writes, reads and verifies unwind tables from DWARF call frame information (CFI): GNU `.sframe` and
//! Apple `__unwind_info`.
//!
//! Start with the module of your task. Each has the dozen names that the task needs, and an example that you can run:
//!
//! | module | task |
//! |---|---|
//! | [`link`] | a linker makes one table of its objects' tables and CFI |
//! | [`convert`] | a tool makes a table for a finished file, and verifies it |
//! | [`unwind`] | a profiler looks up a PC in a table, or walks a stack |
//! | [`lint`] | a compiler's tests compare the CFI of a file with its code |
//!
//! The other modules are the complete libraries of cfipack. Each has its own feature.
//!
//! # A linker
//! A [merger](linker::sframe::Merger) takes the tables and the call frame information of all objects and
//! becomes a section. The size of the section is exact before the code has addresses. `write` encodes the
//! starts when they are known, and again after a relayout. The example [`link_objects`] reads real objects on
//! rayon's threads, and writes the table at two layouts. The page [For linkers] describes keys, dead
//! functions, relocations, shards, pools and relayout. A linker needs
//! `default-features = false, features = ["linker"]`, which depends on bitflags alone.
//!
//! # An assembler or JIT
//! An [`Assembly`](assembler::Assembly) takes functions as CFI [directives](assembler::Directives), and makes
//! `.eh_frame`, `.debug_frame`, `.sframe` and `__compact_unwind`, placed in memory or with relocations. The
//! page [For assemblers] describes directives, dialects and tables. If an assembler has call frame
//! information as bytes, or writes it with [`cfi::write`], that becomes a table too. `write_relocatable`
//! gives the section of an object, and `start_fields` the fields that need relocations. The example
//! [`convert.rs`] packs the CFI of a file into a `.sframe` section, verifies the section and writes it.
//!
//! A JIT makes a [region](assembler::region::Region) of its generated code, and registers the region's tables
//! with libgcc, LLVM's and HP's libunwind, gdb, perf and readers of `.sframe`. A
//! [registry](assembler::registry::Registry) owns all regions. Threads and signal handlers find rows in the
//! registry while regions come and go. See the example [`jit`] and the page [For JITs].
//!
//! # A profiler
//! A [view](decoder::sframe::Section) borrows a table and finds the row of a PC.
//! [`step`](decoder::sframe::step) goes from a frame's registers to its caller's registers. The example
//! [`unwind.rs`] stops a process and prints its stack. A profiler needs
//! `default-features = false, features = ["decoder"]`, which does not allocate.
//!
//! [`convert.rs`]: https://docs.rs/crate/cfipack/latest/source/examples/convert.rs
//! [`jit`]: https://docs.rs/crate/cfipack/latest/source/examples/jit/
//! [For JITs]: for_jits
//! [`link_objects`]: https://docs.rs/crate/cfipack/latest/source/examples/link_objects/
//! [`unwind.rs`]: https://docs.rs/crate/cfipack/latest/source/examples/unwind.rs
//! [For linkers]: for_linkers
//! [For assemblers]: for_assemblers
//!
//! # Features
//! All features but three are defaults. Without any feature, the crate has only [`format`](mod@format), which
//! is `no_std` and does not allocate.
//!
//! | feature | adds | needs |
//! |---|---|---|
//! | `cfi` | [`cfi`]: DWARF CFI, read, interpreted, written | `alloc` |
//! | `decoder` | [`decoder`]: tables, read | |
//! | `encoder` | [`encoder`]: tables, written; enables `cfi` | `alloc` |
//! | `std` | conversion of a section on several threads; with `assembler` the registry of generated code | `std` |
//! | `iced-x86` | with `encoder`: finds calls in x86 code, for compact unwind encodings | iced-x86 |
//! | `container` | [`container`]: ELF, Mach-O, fat and `ar` files; enables `cfi`, `std` | object |
//! | `compression` | with `container`: compressed sections | object's decompressors |
//! | `edit` | [`edit`]: tables into files, objects and archives, and out of them; enables `container` | object |
//! | `roundtrip` | [`roundtrip`]: verification, comparison, statistics; enables `decoder`, `std` | gimli, iced-x86 |
//! | `structure` | with `roundtrip`: checks edited files | object |
//! | `lint` | [`lint`] and [`code`]: code against CFI, rows and directives for code without CFI, coverage; enables `container`, `roundtrip` | gimli, iced-x86, object, yaxpeax-arm |
//! | `linker` | [`linker`]: the inputs of a link to one table; enables `decoder`, `encoder` | `alloc` |
//! | `assembler` | [`assembler`]: CFI directives to tables and what runtimes register; enables `encoder` | `alloc` |
//! | `process` | `process`, and in [`unwind`] the modules of a Linux process for a profiler in it; enables `decoder`, `encoder` | `std` |
//! | `gimli` (no default) | with `assembler`: directives from gimli's frame tables | gimli |
//! | `serde` (no default) | reports and statistics serialize themselves, addresses as text | serde |
//! | `schemars` (no default) | JSON Schemas of what `serde` writes; enables `serde` | schemars, `alloc` |

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "encoder", feature = "container", feature = "roundtrip"))]
pub mod convert;
#[cfg(feature = "linker")]
pub mod link;
#[cfg(feature = "decoder")]
pub mod unwind;

#[cfg(feature = "assembler")]
#[doc(inline)]
pub use cfipack_assembler as assembler;
#[cfg(feature = "cfi")]
#[doc(inline)]
pub use cfipack_cfi as cfi;
#[cfg(feature = "lint")]
#[doc(inline)]
pub use cfipack_code as code;
#[cfg(feature = "container")]
#[doc(inline)]
pub use cfipack_container as container;
#[cfg(feature = "decoder")]
#[doc(inline)]
pub use cfipack_decoder as decoder;
#[cfg(feature = "edit")]
#[doc(inline)]
pub use cfipack_edit as edit;
#[cfg(feature = "encoder")]
#[doc(inline)]
pub use cfipack_encoder as encoder;
#[doc(inline)]
pub use cfipack_format as format;
#[cfg(feature = "linker")]
#[doc(inline)]
pub use cfipack_linker as linker;
#[cfg(feature = "lint")]
#[doc(inline)]
pub use cfipack_lint as lint;
#[cfg(feature = "process")]
#[doc(inline)]
pub use cfipack_process as process;
#[cfg(feature = "roundtrip")]
#[doc(inline)]
pub use cfipack_roundtrip as roundtrip;

#[cfg(all(any(doc, doctest), feature = "linker"))]
#[doc = include_str!("../docs/for-linkers.md")]
pub mod for_linkers {}

#[cfg(all(any(doc, doctest), feature = "assembler"))]
#[doc = include_str!("../docs/for-assemblers.md")]
pub mod for_assemblers {}

#[cfg(all(any(doc, doctest), feature = "assembler"))]
#[doc = include_str!("../docs/for-jits.md")]
pub mod for_jits {}

#[cfg(all(any(doc, doctest), feature = "decoder"))]
#[doc = include_str!("../docs/for-profilers.md")]
pub mod for_profilers {}
