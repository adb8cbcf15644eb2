//! The header and the load commands of a Mach-O file, and the bytes that they refer to.

use std::borrow::Cow;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch};
use object::LittleEndian as LE;
use object::macho::{self, CpuType, FileType, MachHeader32, MachHeader64, SectionFlags};
use object::read::macho::{MachHeader, Section as SectionHeader, Segment as _};

use super::kinds;
use super::range::range;
use super::symbols::SymbolTable;
use crate::error::{Error, SectionName};
use crate::kind::Kind;
use crate::section::{Location, Section};

/// The headers of a Mach-O file.
#[derive(Debug)]
pub struct Headers<'a> {
    /// The whole file.
    pub bytes: &'a [u8],
    /// The architecture.
    pub arch: Arch,
    /// Whether the file is relocatable or linked.
    pub kind: Kind,
    /// The sections in the order of the load commands. Symbols and relocations count them from 1.
    pub sections: Vec<Header<'a>>,
    /// The symbols.
    pub symbols: SymbolTable<'a>,
    /// The address of the Mach-O header, which is the start of `__TEXT`. It is 0 in a relocatable object.
    pub base: Address,
    /// The flags of the Mach-O header.
    pub flags: u32,
    /// The list in `LC_FUNCTION_STARTS`, after its offset in the file.
    pub function_starts: Option<(u64, &'a [u8])>,
}

/// A section's header.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a [u8],
    /// The address.
    pub address: u64,
    /// The size in bytes.
    pub size: u64,
    /// The offset of the section's bytes in the file, or `None` for a section that has no bytes, such as `__bss`.
    pub offset: Option<u64>,
    /// The offset of the section's relocations in the file.
    pub relocations_off: u64,
    /// The number of relocations.
    pub relocations_count: u32,
    flags: SectionFlags,
}

impl<'a> Headers<'a> {
    /// Reads the header and the load commands.
    ///
    /// # Errors
    /// Fails if the file is big-endian, is of an unsupported CPU or file type, or has damaged tables.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
            Some(macho::MH_MAGIC_64) => Self::parse_width::<MachHeader64<LE>>(bytes),
            Some(macho::MH_MAGIC) => Self::parse_width::<MachHeader32<LE>>(bytes),
            magic => Err(unsupported("byte order", 0, magic.unwrap_or(0), Some("big-endian"))),
        }
    }

    fn parse_width<H: MachHeader<Endian = LE>>(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = H::parse(bytes, 0).map_err(|_| Error::Table {
            what: "Mach-O header",
            offset: 0,
            value: bytes.len().to_u64(),
        })?;
        let kind = match header.filetype(LE) {
            macho::MH_OBJECT => Kind::Relocatable,
            FileType(2 | 6..=8 | 11) => Kind::Linked,
            other => return Err(unsupported("file type", 12, other.0, kinds::file_type_name(other))),
        };
        let mut file = Self {
            bytes,
            arch: arch_of(header.cputype(LE))?,
            kind,
            sections: Vec::new(),
            symbols: SymbolTable::default(),
            base: Address(0),
            flags: header.flags(LE).0,
            function_starts: None,
        };
        file.read_commands(header)?;
        Ok(file)
    }

    fn read_commands<H: MachHeader<Endian = LE>>(&mut self, header: &'a H) -> Result<(), Error> {
        let start = size_of::<H>().to_u64();
        let (count, size) = (header.ncmds(LE), header.sizeofcmds(LE));
        let commands = header.load_commands(LE, self.bytes, 0).map_err(|_| damaged(start, size.into()))?;
        let mut offset = start;
        for command in commands {
            let command = command.map_err(|_| damaged(offset, count.into()))?;
            let here = |_| damaged(command.offset(), command.cmdsize().into());
            offset = command.offset() + u64::from(command.cmdsize());
            if let Some((segment, sections)) = H::Segment::from_command(command).map_err(here)? {
                if segment.name() == b"__TEXT" && self.kind == Kind::Linked {
                    self.base = Address(segment.vmaddr(LE).into());
                }
                let sections = segment.sections(LE, sections).map_err(here)?;
                self.sections.extend(sections.iter().map(Header::read));
            } else if let Some(symtab) = command.symtab().map_err(here)? {
                self.symbols = SymbolTable::read(self.bytes, symtab, H::pointer_size())?;
            } else if command.cmd() == macho::LC_FUNCTION_STARTS {
                let data = command.data::<macho::LinkeditDataCommand<LE>>().map_err(here)?;
                let (offset, size) = (data.dataoff.get(LE).into(), data.datasize.get(LE).into());
                let damaged = Error::Table { what: "LC_FUNCTION_STARTS", offset, value: size };
                self.function_starts = Some((offset, range(self.bytes, offset, size).ok_or(damaged)?));
            }
        }
        Ok(())
    }

    /// Returns the index of the first section with a name, in any segment.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.sections.iter().position(|header| header.name == name)
    }

    /// Returns a section's name in the form that errors carry.
    pub fn name_for_error(&self, index: usize) -> SectionName {
        let name = self.sections.get(index).map_or(&[][..], |header| header.name);
        SectionName::new(&String::from_utf8_lossy(name))
    }

    /// Returns a section's bytes as they lie in the file. The slice is empty for a section without bytes, and for an
    /// index without a section.
    pub fn section_bytes(&self, index: usize) -> Result<&'a [u8], Error> {
        let Some(header) = self.sections.get(index) else { return Ok(&[]) };
        let Some(offset) = header.offset else { return Ok(&[]) };
        range(self.bytes, offset, header.size).ok_or(Error::SectionBounds {
            section: self.name_for_error(index),
            offset,
            size: header.size,
        })
    }

    /// Returns a section as it lies in the file, without relocations applied.
    pub fn section(&self, index: usize) -> Result<Section<'a>, Error> {
        let header = &self.sections[index];
        Ok(Section {
            index: Some(index),
            name: String::from_utf8_lossy(header.name),
            address: Address(header.address),
            bytes: Cow::Borrowed(self.section_bytes(index)?),
        })
    }

    /// Returns the section that contains an address. In a relocatable object, it may also be a section that ends
    /// there, if no other section starts there.
    pub fn locate(&self, address: Address) -> Option<Location<'a>> {
        let mut found = None;
        for (section, header) in self.sections.iter().enumerate() {
            let Some(offset) = address.0.checked_sub(header.address) else { continue };
            if offset < header.size {
                found = Some(section);
                break;
            }
            if offset == header.size && self.kind == Kind::Relocatable {
                found = found.or(Some(section));
            }
        }
        let section = found?;
        let header = &self.sections[section];
        let name = String::from_utf8_lossy(header.name);
        Some(Location { section, name, offset: address.0 - header.address })
    }
}

impl<'a> Header<'a> {
    fn read(section: &'a impl SectionHeader<Endian = LE>) -> Self {
        let flags = section.flags(LE);
        let in_file = section.file_size(LE).is_some();
        Self {
            name: section.name(),
            address: section.addr(LE).into(),
            size: section.size(LE).into(),
            offset: in_file.then_some(section.offset(LE).into()),
            relocations_off: section.reloff(LE).into(),
            relocations_count: section.nreloc(LE),
            flags,
        }
    }

    /// Returns whether the section contains instructions that a compiler wrote. Stubs come from the linker, and their
    /// sections have another type.
    pub fn is_code(&self) -> bool {
        let code = macho::S_ATTR_PURE_INSTRUCTIONS | macho::S_ATTR_SOME_INSTRUCTIONS;
        let kind = self.flags.typ();
        (kind == macho::S_REGULAR || kind == macho::S_COALESCED) && self.flags.0 & code.0 != 0
    }
}

fn arch_of(cpu: CpuType) -> Result<Arch, Error> {
    let found = Arch::ALL.into_iter().find(|arch| arch.mach_o_cpu_type() == Some(cpu.0));
    found.ok_or_else(|| unsupported("CPU type", 4, cpu.0, kinds::cpu_name(cpu)))
}

fn unsupported(what: &'static str, offset: u64, value: u32, name: Option<&'static str>) -> Error {
    Error::Unsupported { what, offset, value: value.into(), name }
}

fn damaged(offset: u64, value: u64) -> Error {
    Error::Table { what: "load commands", offset, value }
}
