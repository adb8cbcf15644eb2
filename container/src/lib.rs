//! ELF and Mach-O files, fat files and archives: finds call frame information, code and unwind tables.
//!
//! You give it the bytes of a file ([`members`], then [`File::parse`]); you get its sections of
//! call frame information ready for `cfipack_cfi`, its `.sframe`, `__unwind_info` or
//! `__compact_unwind` tables, its code and its symbols. Everything is borrowed from the file and
//! looked at only when asked for, so a memory-mapped library costs the pages of what is used. The
//! sections of relocatable objects are copied, and the copies relocated.
//!
//! Questions that only one format has an answer to are those of [`Elf`] and [`MachO`], which [`File::as_elf`] and
//! [`File::as_macho`] return. The crate reads only: `cfipack-edit` puts tables into files.
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
pub use elf::file::Elf;
pub use elf::placement::Placement;
pub use error::{Error, SectionName};
pub use file::File;
pub use kind::Kind;
pub use macho::compact_unwind::{CompactUnwind, CompactUnwindRow, Referent};
pub use macho::file::MachO;
pub use magic::has_known_magic;
pub use relocation::Relocation;
pub use section::{CallFrameSection, Location, Section};
pub use symbols::{Symbol, Symbols};
