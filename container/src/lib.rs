//! Reads ELF and Mach-O files, fat files and archives, and finds call frame information, code and unwind tables in
//! them.
//!
//! Pass the bytes of a file to [`members`], and each member to [`File::parse`]. Then you can ask for the sections of
//! call frame information, ready for `cfipack_cfi`, for the `.sframe`, `__unwind_info` and `__compact_unwind` tables,
//! for code and for symbols. Everything is borrowed from the file and read only when you ask for it. So if you map a
//! large library into memory, you only pay for the pages that you use. Sections of relocatable objects are copied,
//! and the copies are relocated.
//!
//! Methods for a single format are in [`Elf`] and [`MachO`]; see [`File::as_elf`] and [`File::as_macho`].
//! This crate never writes: `cfipack-edit` puts tables into files.
//!
//! ```
//! # fn functions(bytes: &[u8]) -> Result<usize, cfipack_container::Error> {
//! let file = cfipack_container::File::parse(bytes)?;
//! let mut functions = 0;
//! for section in file.call_frame_sections()? {
//!     functions += cfipack_cfi::Functions::new(&section.cfi()).count();
//! }
//! # Ok(functions) }
//! ```
//!
//! The modules:
//!
//! - `file`, `kind`, `section`, `relocation`, `symbols`: a file and its parts, independent of the format
//! - `elf`, `macho`: the two formats
//! - `archive`, `fat`: files that contain other files
//! - `raw`: headers and entries with their places in the file, for editors
//! - `error`: errors, with the names of files that we do not read (`unknown`)
//! - `magic`, `names`: magic numbers, and bounded names from string tables

mod archive;
mod elf;
mod error;
mod fat;
mod file;
mod kind;
mod macho;
mod magic;
mod names;
pub mod raw;
mod relocation;
mod section;
mod symbols;
mod unknown;

pub use archive::members::{Member, Members, members};
pub use archive::thin::{ThinMember, thin_members};
pub use elf::eh_frame_hdr::{FdeIndex, IndexEntry};
pub use elf::file::Elf;
pub use elf::placement::Placement;
pub use error::{Error, SectionName};
pub use file::File;
pub use kind::Kind;
pub use macho::compact_unwind::{CompactUnwind, CompactUnwindRow, Referent};
pub use macho::file::MachO;
pub use macho::labels::Labels;
pub use magic::has_known_magic;
pub use relocation::Relocation;
pub use section::{CallFrameSection, Location, Section};
pub use symbols::{Symbol, Symbols};
