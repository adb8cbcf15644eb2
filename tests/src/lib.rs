//! Shares code between cfipack's tests: goldens, reference tools, the machine's own binaries, and generators of CFI.

pub mod allocated;
pub mod any_bytes;
pub mod apple_sources;
pub mod assembled;
pub mod cfi_bytes;
pub mod convert;
pub mod corpora;
pub mod directives;
pub mod elf_files;
pub mod elf_object;
pub mod embedded;
pub mod embedded_copy;
pub mod embedded_objects;
pub mod encoding_by_cfi;
pub mod figures;
pub mod gnu;
pub mod hidden;
pub mod hostile;
pub mod judges;
pub mod kernel_reader;
pub mod libunwind;
pub mod linked;
pub mod linkers;
pub mod mach_link;
pub mod mach_object;
pub mod mach_said;
pub mod machine;
pub mod many_functions;
pub mod profile;
pub mod prologues;
pub mod random_entries;
pub mod recorded;
pub mod reference;
pub mod relink;
pub mod timing;
pub mod traced;
pub mod unwind_table;
pub mod workload;
pub mod written_recording;

use cfipack_format::Arch;

/// The architectures of `.sframe`. Random numbers and bits of inputs choose from them by their order.
pub const ARCHES: [Arch; 4] = [Arch::Amd64, Arch::Aarch64, Arch::Aarch64Be, Arch::S390x];

/// Compiles the example in README.md.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Landing;
