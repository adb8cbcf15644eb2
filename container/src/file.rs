//! An object file or a linked file of either format.

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

/// An object file or a linked file, ELF or Mach-O. This is where you start: parse a file, then ask for its sections.
#[derive(Debug)]
pub struct File<'a> {
    format: Format<'a>,
}

/// The parsed headers, by format.
#[derive(Debug)]
enum Format<'a> {
    Elf(Box<Elf<'a>>),
    MachO(MachO<'a>),
}

impl<'a> File<'a> {
    /// Parses the headers of a file. If the file is relocatable, its sections get [separate
    /// addresses](Placement::Apart).
    ///
    /// # Errors
    /// Fails if the bytes are not an ELF or Mach-O file of a supported architecture, or if a table in the headers is
    /// damaged. For archives and fat files, call [`members`](crate::members) first.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::parse_with(bytes, Placement::Apart)
    }

    /// Parses the headers of a file, like [`parse`](Self::parse), and lets you choose the addresses of the sections
    /// of a relocatable object.
    pub fn parse_with(bytes: &'a [u8], placement: Placement) -> Result<Self, Error> {
        let format = if macho::has_magic(bytes) {
            Format::MachO(MachO::parse(bytes)?)
        } else {
            Format::Elf(Box::new(Elf::parse(bytes, placement)?))
        };
        Ok(Self { format })
    }

    /// Returns the architecture of the file's code.
    pub fn arch(&self) -> Arch {
        match &self.format {
            Format::Elf(elf) => elf.headers().arch,
            Format::MachO(file) => file.headers().arch,
        }
    }

    /// Returns the number of bytes below the stack pointer that no signal handler overwrites in the file's code.
    pub fn red_zone(&self) -> u32 {
        match &self.format {
            Format::Elf(elf) => elf.headers().arch.red_zone(),
            Format::MachO(file) => file.headers().arch.red_zone_of_apple(),
        }
    }

    /// Returns whether the file is relocatable or linked.
    pub fn kind(&self) -> Kind {
        match &self.format {
            Format::Elf(elf) => elf.headers().kind,
            Format::MachO(file) => file.headers().kind,
        }
    }

    /// Returns the bytes that the file was parsed from.
    pub fn bytes(&self) -> &'a [u8] {
        match &self.format {
            Format::Elf(elf) => elf.headers().bytes,
            Format::MachO(file) => file.headers().bytes,
        }
    }

    /// Returns whether the file is a Mach-O file for arm64e: code with signed return addresses.
    pub fn is_arm64e(&self) -> bool {
        crate::fat::arch(self.bytes()).is_some_and(|name| name.starts_with("arm64e"))
    }

    /// Returns the file's ELF-specific interface, or `None` for a Mach-O file.
    pub fn as_elf(&self) -> Option<&Elf<'a>> {
        match &self.format {
            Format::Elf(elf) => Some(elf),
            Format::MachO(_) => None,
        }
    }

    /// Returns the file's Mach-O-specific interface, or `None` for an ELF file.
    pub fn as_macho(&self) -> Option<&MachO<'a>> {
        match &self.format {
            Format::Elf(_) => None,
            Format::MachO(file) => Some(file),
        }
    }

    /// Sets a separate debug file. What the file has not itself is read from it: `.debug_frame`, the sections of
    /// [`debug_section`](Self::debug_section), and the symbols. You have to check that the two belong together, by
    /// [`build_id`](Elf::build_id) or the CRC of [`debug_link`](Elf::debug_link).
    ///
    /// # Errors
    /// Fails unless both are linked ELF files of the same architecture.
    pub fn with_debug_file(self, debug_file: Self) -> Result<Self, Error> {
        let (Format::Elf(elf), Format::Elf(debug_file)) = (self.format, debug_file.format) else {
            return Err(Error::DebugFile { machine: 0 });
        };
        Ok(Self { format: Format::Elf(Box::new(elf.with_debug_file(debug_file)?)) })
    }

    /// Returns the sections of call frame information: every `.eh_frame` (or `__eh_frame`), then every
    /// `.debug_frame`.
    ///
    /// The bytes of a section are as in the file, apart from decompression and relocation. Some FDEs do not describe
    /// a function of their own. [`CallFrameSection::excluded`] lists them, and `cfipack_cfi` skips them. An FDE is
    /// excluded in these cases:
    ///
    /// - It is in `.debug_frame`, and a function in `.eh_frame` has the same start.
    /// - It is in `.debug_frame` of a linked file, and the linker has discarded the function. Then nothing is loaded
    ///   at its start, or its start is 0 and neither a section of code nor the symbol of a function of its size is
    ///   there.
    /// - It is in `.debug_frame` and repeats another FDE with the same start.
    /// - It is in `.debug_frame`, other FDEs with the same start differ from it, and no function symbol at the start
    ///   has its size. For example, a linker folds equal functions, or keeps one copy of a group. If no symbol
    ///   decides, all of these FDEs count. Then a table has no function with this start, and
    ///   `cfipack_roundtrip::verify` leaves the function unjudged.
    /// - It is in a relocatable object, and no relocation ties its start to a section. `ld.lld -r` and `mold -r`
    ///   leave such FDEs for functions in discarded groups. `strip` leaves only such FDEs.
    /// - It has another layout, so that its start is no address of the file or has no relocation.
    ///
    /// With [`Placement::Zero`] all sections lie at 0, so equal starts do not exclude an FDE.
    ///
    /// This function also reads a compressed `.debug_frame` (`.zdebug_frame` as well). In a linked file it finds
    /// `.eh_frame` through `.eh_frame_hdr` too, whether its section has another name, contains other data, or has no
    /// header. It does not return sections that a post-link optimizer put aside (`.bolt.org.eh_frame`), because they do
    /// not apply to the code any more.
    ///
    /// # Errors
    /// Fails if a section or its relocations are damaged, or if compressed sections become more than 64 bytes for
    /// each byte of the file.
    pub fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.call_frame_sections(),
            Format::MachO(file) => file.call_frame_sections(),
        }
    }

    /// Returns every `.sframe` section, found by name or type. In a file without section headers, the segment
    /// `PT_GNU_SFRAME` is returned. It may be longer than the table, because ld reserves its size before it merges
    /// tables. So use the length in the table's header.
    pub fn sframe_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        self.as_elf().map_or(Ok(Vec::new()), Elf::sframe_sections)
    }

    /// Returns the sections of code, or the executable segments if the file has no section headers. Relocations are
    /// not applied.
    ///
    /// To recognize a PLT, look for names that start with `.plt` or `.iplt`. A section that a post-link optimizer
    /// renamed (`.bolt.org.text`) still contains the functions that the optimizer did not change.
    pub fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.code_sections(),
            Format::MachO(file) => file.code_sections(),
        }
    }

    /// Returns the sections of data that an ELF file loads, for example to read jump tables. In a relocatable object,
    /// relocations are applied to a section if this crate knows all of their types; otherwise the section is returned
    /// as it is. The result is empty for a Mach-O file.
    pub fn data_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        self.as_elf().map_or(Ok(Vec::new()), Elf::data_sections)
    }

    /// Returns the section of an ELF file's debug information with the given name, decompressed and relocated. The
    /// result is `None` for a Mach-O file.
    pub fn debug_section(&self, name: &str) -> Result<Option<Section<'a>>, Error> {
        self.as_elf().map_or(Ok(None), |elf| elf.debug_section(name))
    }

    /// Returns the pointers that the dynamic linker sets to functions and data of other files (`JUMP_SLOT`,
    /// `GLOB_DAT`), with the names of these functions and data. For example, you can name the target of a PLT stub
    /// with it.
    ///
    /// The result is empty unless the file is a linked ELF file with section headers. Relocations that cannot be read
    /// are skipped.
    pub fn imports(&self) -> Vec<(Address, Cow<'a, str>)> {
        self.as_elf().map_or(Vec::new(), Elf::imports)
    }

    /// Returns the addresses of this file that the dynamic linker stores as pointers (`RELATIVE`, `IRELATIVE`), in the
    /// order of the relocations. The bytes of the file need not have these pointers.
    ///
    /// The result is `None` if other words of the data may be pointers, too: unless the file is a position-independent ELF
    /// file with section headers, and with such relocations in `.rela` sections only. Relocations that cannot be read are
    /// skipped.
    pub fn relative_pointers(&self) -> Option<Vec<Address>> {
        self.as_elf()?.relative_pointers()
    }

    /// Reads the symbols of functions, sorted by address. This function reads the whole symbol table.
    pub fn symbols(&self) -> Result<Symbols<'a>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.symbols(),
            Format::MachO(file) => Ok(Symbols::from_mach_o(file)),
        }
    }

    /// Returns the section that contains an address, and the offset in it.
    ///
    /// In a relocatable object, the end address of a section also belongs to it, unless another section starts there.
    /// An ELF object with [`Placement::Zero`] has no answer, because all sections lie at the same address.
    pub fn locate(&self, address: Address) -> Option<Location<'a>> {
        match &self.format {
            Format::Elf(elf) => elf.locate(address),
            Format::MachO(file) => file.locate(address),
        }
    }

    /// Returns the relocations of a section of a relocatable object, in file order. You need them, for example, to
    /// find the function that the start field of an FDE refers to.
    pub fn relocations(&self, section: usize) -> Result<Vec<Relocation>, Error> {
        match &self.format {
            Format::Elf(elf) => elf.relocations(section),
            Format::MachO(file) => file.relocations(section),
        }
    }
}
