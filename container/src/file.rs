//! A file, whatever its format.

use std::borrow::Cow;

use cfipack_format::{Address, Arch};

use crate::elf::file::Elf;
use crate::elf::placement::Placement;
use crate::error::Error;
use crate::kind::Kind;
use crate::macho::file::{self as macho, MachO};
use crate::relocation::Relocation;
use crate::section::{CallFrameSection, Location, Section};
use crate::symbols::Symbols;

/// An object file or a linked file.
#[derive(Debug)]
pub struct File<'a> {
    format: Format<'a>,
}

/// The file's contents, by its format.
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
            Format::Elf(elf) => elf.headers().arch,
            Format::MachO(file) => file.headers().arch,
        }
    }

    /// The kind of file: linked or not.
    pub fn kind(&self) -> Kind {
        match &self.format {
            Format::Elf(elf) => elf.headers().kind,
            Format::MachO(file) => file.headers().kind,
        }
    }

    /// The bytes that it was parsed from.
    pub fn bytes(&self) -> &'a [u8] {
        match &self.format {
            Format::Elf(elf) => elf.headers().bytes,
            Format::MachO(file) => file.headers().bytes,
        }
    }

    /// The file with the questions about ELF alone; none of a Mach-O file.
    pub fn as_elf(&self) -> Option<&Elf<'a>> {
        match &self.format {
            Format::Elf(elf) => Some(elf),
            Format::MachO(_) => None,
        }
    }

    /// The file with the questions about Mach-O alone; none of an ELF file.
    pub fn as_macho(&self) -> Option<&MachO<'a>> {
        match &self.format {
            Format::Elf(_) => None,
            Format::MachO(file) => Some(file),
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
    /// A section that a post-link optimiser put aside (`.bolt.org.eh_frame`) is not in force. A `.zdebug_frame` is a
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

    /// The data that a linked or relocatable ELF file loads beside its code, relocated in an object as far as its relocations
    /// are of kinds that call frame information has; others leave a section as it is. None of a Mach-O file.
    pub fn data_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.data_sections(),
            Format::MachO(_) => Ok(Vec::new()),
        }
    }

    /// The section of an ELF file's debugging information that has a name, decompressed and relocated; none of a Mach-O file.
    pub fn debug_section(&self, name: &str) -> Result<Option<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.debug_section(name),
            Format::MachO(_) => Ok(None),
        }
    }

    /// The pointers that the dynamic linker sets to functions and data of other files (`JUMP_SLOT`, `GLOB_DAT`), with the
    /// names of what they lead to; of linked ELF files with section headers alone. What cannot be read is left out.
    pub fn imports(&self) -> Vec<(Address, Cow<'a, str>)> {
        match &self.format {
            Format::Elf(elf) => elf.imports(),
            Format::MachO(_) => Vec::new(),
        }
    }

    /// The symbols of functions, sorted. Reads the whole symbol table.
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
}
