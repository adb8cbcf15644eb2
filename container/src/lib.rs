//! ELF and Mach-O files, fat files and archives: finds call frame information, code and unwind tables.
//!
//! You give it the bytes of a file ([`members`], then [`File::parse`]); you get its sections of
//! call frame information ready for `cfipack_cfi`, its `.sframe`, `__unwind_info` or
//! `__compact_unwind` tables, its code and its symbols. Everything is borrowed from the file and
//! looked at only when asked for, so a memory-mapped library costs the pages of what is used. The
//! sections of relocatable objects are copied, and the copies relocated.
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
mod embed_error;
mod error;
mod fat;
mod kind;
mod macho;
mod magic;
mod names;
mod relocation;
mod rewrite;
mod section;
mod symbols;

pub use archive::{Member, Members, ThinMember, members, resize_thin_members, rewrite_members, thin_members};
pub use elf::{Embedding, Placement, StartRelocation, Way};
pub use elf::{MovedSection, Structure, StructureError, Version, check_structure};
pub use embed_error::EmbedError;
pub use error::{Error, SectionName};
pub use fat::rewrite_slices;
pub use kind::Kind;
pub use macho::{
    CompactUnwind, CompactUnwindEdit, CompactUnwindEditor, CompactUnwindRow, MachODifference, Referent,
    check_compact_unwind_edit,
};
pub use magic::has_known_magic;
pub use relocation::Relocation;
pub use rewrite::{Patch, Piece, Rewrite};
pub use section::{CallFrameSection, Location, Section};
pub use symbols::{Symbol, Symbols};

use cfipack_format::{Address, Arch};

use elf::Elf;
use macho::MachO;

/// An object file or a linked file.
#[derive(Debug)]
pub struct File<'a> {
    format: Format<'a>,
}

/// What the file is, by its format.
#[derive(Debug)]
enum Format<'a> {
    Elf(Elf<'a>),
    MachO(MachO<'a>),
}

impl<'a> File<'a> {
    /// A file whose relocatable sections are laid out [apart](Placement::Apart).
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::parse_with(bytes, Placement::Apart)
    }

    /// A file whose sections, if it is relocatable, are laid out as `placement` states.
    pub fn parse_with(bytes: &'a [u8], placement: Placement) -> Result<Self, Error> {
        let format = match macho::has_magic(bytes) {
            true => Format::MachO(MachO::parse(bytes)?),
            false => Format::Elf(Elf::parse(bytes, placement)?),
        };
        Ok(Self { format })
    }

    /// The architecture of its code.
    pub fn arch(&self) -> Arch {
        match &self.format {
            Format::Elf(elf) => elf.headers.arch,
            Format::MachO(file) => file.arch,
        }
    }

    /// Whether it has been linked.
    pub fn kind(&self) -> Kind {
        match &self.format {
            Format::Elf(elf) => elf.headers.kind,
            Format::MachO(file) => file.kind,
        }
    }

    /// The bytes that it was parsed from.
    pub fn bytes(&self) -> &'a [u8] {
        match &self.format {
            Format::Elf(elf) => elf.headers.bytes,
            Format::MachO(file) => file.bytes,
        }
    }

    /// Whether it is Mach-O.
    pub fn is_mach_o(&self) -> bool {
        match self.format {
            Format::Elf(_) => false,
            Format::MachO(_) => true,
        }
    }

    /// Every `.eh_frame` that is in force, and after them every `.debug_frame`. The bytes are the file's own;
    /// FDEs that describe no function of their own are [listed](CallFrameSection::excluded) beside them:
    ///
    /// - of `.debug_frame`, those that start where one of `.eh_frame` does, and in a linked file those that start
    ///   where nothing is loaded, or at 0 where neither a section of code nor the symbol of a function is: the
    ///   linker has discarded the function;
    /// - of several in `.debug_frame` with one start, all that repeat another. If the rest disagree, those whose
    ///   size is not that of a symbol of a function there (a linker discarded functions, whose start is 0 when
    ///   linked, folded equal ones, or took one of several groups). If no symbol decides, all of them count: a
    ///   table made of them has no function with that start, and `cfipack_roundtrip::verify` leaves it unjudged.
    ///   Where all sections lie at [zero](Placement::Zero), equal starts mean nothing, and all count;
    /// - in a relocatable object, those whose start no relocation gives an address in a section: what
    ///   `ld.lld -r` and `mold -r` leave of functions in discarded groups.
    ///
    /// What a post-link optimiser put aside (`.bolt.org.eh_frame`) is not in force. A `.zdebug_frame` is a
    /// compressed `.debug_frame`. Compressed sections may become 64 bytes for each byte of the file together; a
    /// section beyond that is an error.
    ///
    /// Without section headers, `.eh_frame` is found through its `.eh_frame_hdr`.
    pub fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.call_frame_sections(),
            Format::MachO(file) => file.call_frame_sections(),
        }
    }

    /// Every `.sframe`: by name, by type, or without section headers by its segment, which may
    /// be longer than the table (ld reserves the size before merging): the table's header governs.
    pub fn sframe_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.sframe_sections(),
            Format::MachO(_) => Ok(Vec::new()),
        }
    }

    /// Where the program header `PT_GNU_SFRAME` of a linked ELF file leads, by which unwinders find its table.
    pub fn sframe_segment(&self) -> Option<Address> {
        match &self.format {
            Format::Elf(elf) => elf.sframe_segment(),
            Format::MachO(_) => None,
        }
    }

    /// The file with other bytes in an ELF section, which is known by its [index](Section::index): the section's
    /// size becomes theirs, what is left over of its room in the file becomes zeros, and nothing moves. None if they
    /// do not fit into it.
    pub fn with_section(&self, index: usize, contents: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.headers.with_section(index, contents),
            Format::MachO(_) => Ok(None),
        }
    }

    /// A place for a `.sframe` of `table_len` bytes in a linked ELF file: of the table that it has if that is large
    /// enough, else a new one. It depends on the length alone, so that the table can be made for its address.
    ///
    /// No index of a section changes, and the program headers stay at the start of the file. [`Way`] lists what may
    /// move to make room for more of them, and what that costs.
    ///
    /// # Errors
    /// If the file is none of those that can be changed safely: [`EmbedError`] lists them. A file without section
    /// headers, with bytes after all that its headers describe (an archive that a program carries, a signature), or
    /// with a physical address of its own (a kernel) is refused.
    pub fn embedding(&self, table_len: usize) -> Result<Embedding<'a>, EmbedError> {
        match &self.format {
            Format::Elf(elf) => elf.embedding(table_len),
            Format::MachO(_) => Err(EmbedError::NotElf),
        }
    }

    /// The relocatable ELF object with a `.sframe` of these bytes, and relocations for its functions' starts as gas
    /// writes them: relative to the field (`R_X86_64_PC64` for version 3, `R_X86_64_PC32` for version 2, and their
    /// like), against the symbol of the section that the function lies in. `starts` are in the table's order.
    ///
    /// Both sections are the last ones, or have the numbers of the object's own, whose contents they replace; further
    /// tables are removed. No other section changes its number then, and no symbol unless a section's symbol
    /// is missing: it is inserted after the last local one, and everything that counts symbols is renumbered. The
    /// table stays outside all groups.
    ///
    /// Functions of the table must not share rows: GNU `ld` (2.47) reserves as many bytes as its inputs' tables have,
    /// then writes the rows of each function, and overwrites the next section if these are more.
    ///
    /// # Errors
    /// If the object cannot be changed safely; `EmbedError` lists the reasons.
    pub fn embed_in_object(
        &self,
        table: &[u8],
        starts: &[StartRelocation],
    ) -> Result<Rewrite<'a>, EmbedError> {
        match &self.format {
            Format::Elf(elf) => elf.embed_in_object(table, starts),
            Format::MachO(_) => Err(EmbedError::NotElf),
        }
    }

    /// The ELF file without its `.sframe`, its header, its segment and its name; None if it has none.
    ///
    /// What moved to make room for it goes back, and program headers that gave it their slots are restored, so that
    /// the result is the file that the table was embedded in, byte for byte. It may differ, and behaves alike, if
    /// that file had bytes of no section (patchelf leaves some), or if another program has written the file since:
    /// sections that find no room in their old place stay where they are. The sections after a table that a linker
    /// wrote get new indices, also in symbols.
    ///
    /// # Errors
    /// If the file is none of those that can be changed safely: [`EmbedError`] lists them.
    pub fn without_sframe(&self) -> Result<Option<Rewrite<'a>>, EmbedError> {
        match &self.format {
            Format::Elf(elf) => elf.without_sframe(),
            Format::MachO(_) => Err(EmbedError::NotElf),
        }
    }

    /// Bytes of the index that belongs to `.eh_frame`; 0 without one.
    pub fn eh_frame_hdr_size(&self) -> Result<u64, Error> {
        match &self.format {
            Format::Elf(elf) => elf.eh_frame_hdr_size(),
            Format::MachO(_) => Ok(0),
        }
    }

    /// The code: executable sections, or executable segments without section headers. What a
    /// post-link optimiser renamed (`.bolt.org.text`) still holds the functions that it left alone.
    /// Relocations are not applied to code. PLTs are the sections whose names start with `.plt` or
    /// `.iplt`.
    pub fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.code_sections(),
            Format::MachO(file) => file.code_sections(),
        }
    }

    /// Its symbols of functions, sorted. Reads the whole symbol table.
    pub fn symbols(&self) -> Result<Symbols<'a>, Error> {
        match &self.format {
            Format::Elf(elf) => Symbols::read(elf),
            Format::MachO(file) => Ok(Symbols::of_mach_o(file)),
        }
    }

    /// The section that an address lies in. In a relocatable ELF object laid out
    /// [apart](Placement::Apart) the end of a section still belongs to it, and laid out at
    /// [zero](Placement::Zero) there is no answer. In a Mach-O object the end belongs to it unless
    /// another section starts there.
    pub fn locate(&self, address: Address) -> Option<Location<'a>> {
        match &self.format {
            Format::Elf(elf) => elf.locate(address),
            Format::MachO(file) => file.locate(address),
        }
    }

    /// The relocations of a section of a relocatable object, in the file's order: what its fields
    /// name, such as the function that an FDE's start field belongs to.
    pub fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.relocations(section),
            Format::MachO(file) => file.relocations(section),
        }
    }

    /// Whether an ELF file has debug information alone: sections of code or `.eh_frame` are there, and have no
    /// contents (`SHT_NOBITS`), as `objcopy --only-keep-debug` leaves them. These are in the file that it was split
    /// from.
    pub fn is_debug_file(&self) -> bool {
        match &self.format {
            Format::Elf(elf) => elf.is_debug_file(),
            Format::MachO(_) => false,
        }
    }

    /// Mach-O: `__unwind_info`, which linked files have.
    pub fn unwind_info_section(&self) -> Result<Option<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(_) => Ok(None),
            Format::MachO(file) => file.unwind_info_section(),
        }
    }

    /// Mach-O: `__compact_unwind`, which relocatable objects have, with its pointers resolved.
    pub fn compact_unwind(&self) -> Result<Option<CompactUnwind<'a>>, Error> {
        match &self.format {
            Format::Elf(_) => Ok(None),
            Format::MachO(file) => file.compact_unwind(),
        }
    }

    /// Mach-O: writes other rows into the `__compact_unwind` of a relocatable object for x86-64 or arm64. None
    /// for other formats.
    ///
    /// # Errors
    /// The file is linked, for another architecture, or has load commands other than those of objects.
    pub fn edit_compact_unwind(&self) -> Result<Option<CompactUnwindEditor<'_, 'a>>, Error> {
        match &self.format {
            Format::Elf(_) => Ok(None),
            Format::MachO(file) => CompactUnwindEditor::new(file).map(Some),
        }
    }

    /// Mach-O: where the file's header lies in memory, from which image offsets count; 0 in
    /// a relocatable object and in other formats.
    pub fn image_base(&self) -> Address {
        match &self.format {
            Format::Elf(_) => Address(0),
            Format::MachO(file) => file.base,
        }
    }

    /// Mach-O: where functions start, as the linker noted it for debuggers, rising
    /// (`LC_FUNCTION_STARTS`). Nothing in relocatable objects and other formats.
    pub fn function_starts(&self) -> Result<Vec<Address>, Error> {
        match &self.format {
            Format::Elf(_) => Ok(Vec::new()),
            Format::MachO(file) => file.function_starts(),
        }
    }
}
