//! Mach-O files, relocatable and linked: x86-64, i386, arm64 and arm64_32, all little endian.
//!
//! The sections of a relocatable object have addresses of their own that do not overlap, so no
//! [`Layout`](crate::Layout) is needed: where it speaks of "apart", these are meant.

mod compact_unwind;
mod relocate;
mod symbols;

use std::borrow::Cow;

use cfipack_encoder::cfi;
use cfipack_format::{Address, Arch};
use object::LittleEndian as LE;
use object::macho::{self, CpuType, FileType, MachHeader32, MachHeader64, SectionFlags};
use object::read::macho::{MachHeader, Section as SectionHeader, Segment as _};

pub use compact_unwind::{CompactUnwind, CompactUnwindRow, Referent};

use crate::{CallFrameSection, Error, Kind, Location, Section, SectionName};
use symbols::SymbolTable;

/// A parsed file: its headers, nothing of its contents.
#[derive(Debug)]
pub(crate) struct MachO<'a> {
    bytes: &'a [u8],
    pub(crate) arch: Arch,
    pub(crate) kind: Kind,
    /// The sections in the order of the load commands; symbols and relocations count them from 1.
    sections: Vec<Header<'a>>,
    symbols: SymbolTable<'a>,
    /// Where the Mach-O header lies: the start of `__TEXT`; 0 in a relocatable object.
    pub(crate) base: Address,
    function_starts: Option<&'a [u8]>,
}

/// A section's header.
#[derive(Clone, Copy, Debug)]
struct Header<'a> {
    name: &'a [u8],
    address: u64,
    size: u64,
    /// In the file; none without bytes there.
    offset: Option<u64>,
    relocations_off: u64,
    relocations_count: u32,
    flags: SectionFlags,
}

/// Whether a file starts as Mach-O does, of either width and byte order.
pub(crate) fn has_magic(bytes: &[u8]) -> bool {
    let magics = [macho::MH_MAGIC, macho::MH_CIGAM, macho::MH_MAGIC_64, macho::MH_CIGAM_64];
    bytes.first_chunk().is_some_and(|magic| magics.contains(&u32::from_le_bytes(*magic)))
}

impl<'a> MachO<'a> {
    /// Reads the header and the load commands.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
            Some(macho::MH_MAGIC_64) => Self::parse_width::<MachHeader64<LE>>(bytes),
            Some(macho::MH_MAGIC) => Self::parse_width::<MachHeader32<LE>>(bytes),
            magic => Err(unsupported("byte order", 0, magic.unwrap_or(0))),
        }
    }

    fn parse_width<H: MachHeader<Endian = LE>>(bytes: &'a [u8]) -> Result<Self, Error> {
        let damaged = |_| Error::Table { what: "Mach-O header", offset: 0, value: bytes.len() as u64 };
        let header = H::parse(bytes, 0).map_err(damaged)?;
        let kind = match header.filetype(LE) {
            macho::MH_OBJECT => Kind::Relocatable,
            FileType(2 | 6..=8 | 11) => Kind::Linked,
            FileType(other) => return Err(unsupported("file type", 12, other)),
        };
        let mut file = Self {
            bytes,
            arch: arch_of(header.cputype(LE))?,
            kind,
            sections: Vec::new(),
            symbols: SymbolTable::default(),
            base: Address(0),
            function_starts: None,
        };
        file.read_commands(header)?;
        Ok(file)
    }

    fn read_commands<H: MachHeader<Endian = LE>>(&mut self, header: &'a H) -> Result<(), Error> {
        let start = size_of::<H>() as u64;
        let (count, size) = (header.ncmds(LE), header.sizeofcmds(LE));
        let damaged = |offset, value| Error::Table { what: "load commands", offset, value };
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
                let starts = range(self.bytes, offset, size);
                self.function_starts =
                    Some(starts.ok_or(Error::Table { what: "LC_FUNCTION_STARTS", offset, value: size })?);
            }
        }
        Ok(())
    }

    /// The first section of a name, in whatever segment.
    fn find(&self, name: &[u8]) -> Option<usize> {
        self.sections.iter().position(|header| header.name == name)
    }

    fn name_for_error(&self, index: usize) -> SectionName {
        let name = self.sections.get(index).map_or(&[][..], |header| header.name);
        SectionName::new(&String::from_utf8_lossy(name))
    }

    /// A section's bytes as they lie in the file; none for one that has none there.
    fn section_bytes(&self, index: usize) -> Result<&'a [u8], Error> {
        let Some(header) = self.sections.get(index) else { return Ok(&[]) };
        let Some(offset) = header.offset else { return Ok(&[]) };
        range(self.bytes, offset, header.size).ok_or(Error::SectionBounds {
            section: self.name_for_error(index),
            offset,
            size: header.size,
        })
    }

    /// A section as it lies in the file, without relocations applied.
    fn section(&self, index: usize) -> Result<Section<'a>, Error> {
        let header = &self.sections[index];
        Ok(Section {
            index: Some(index),
            name: String::from_utf8_lossy(header.name),
            address: Address(header.address),
            bytes: Cow::Borrowed(self.section_bytes(index)?),
        })
    }

    /// `__eh_frame`, relocated.
    pub(crate) fn call_frame_sections(&self) -> Result<Vec<CallFrameSection<'a>>, Error> {
        let Some(index) = self.find(b"__eh_frame") else { return Ok(Vec::new()) };
        let mut section = self.section(index)?;
        if self.kind == Kind::Relocatable {
            relocate::apply(self, index, &mut section.bytes)?;
        }
        let text = self.find(b"__text").map_or(0, |index| self.sections[index].address);
        let (text, data) = (Address(text), Address(0));
        Ok(vec![CallFrameSection { section, kind: cfi::SectionKind::EhFrame, arch: self.arch, text, data }])
    }

    /// `__unwind_info`, which linked files have.
    pub(crate) fn unwind_info_section(&self) -> Result<Option<Section<'a>>, Error> {
        self.find(b"__unwind_info").map(|index| self.section(index)).transpose()
    }

    /// Sections of instructions that a compiler wrote.
    pub(crate) fn code_sections(&self) -> Result<Vec<Section<'a>>, Error> {
        let found = (0..self.sections.len()).filter(|&index| self.sections[index].is_code());
        found.map(|index| self.section(index)).collect()
    }

    /// The symbols in sections of code, with their addresses.
    pub(crate) fn code_symbols(&self) -> impl Iterator<Item = (&'a [u8], u64)> {
        let is_code = |index: usize| self.sections.get(index).is_some_and(Header::is_code);
        let symbols = self.symbols.iter().filter(move |symbol| symbol.section.is_some_and(is_code));
        symbols.filter(|symbol| symbol.is_real).map(|symbol| (symbol.name, symbol.value))
    }

    /// The section that an address lies in, or that ends there if no other starts.
    pub(crate) fn locate(&self, address: Address) -> Option<Location<'a>> {
        let offset_in = |header: &Header<'_>| address.0.checked_sub(header.address);
        let inside = |header: &Header<'_>| offset_in(header).is_some_and(|offset| offset < header.size);
        let at_end = |header: &Header<'_>| offset_in(header).is_some_and(|offset| offset == header.size);
        let ends = self.kind == Kind::Relocatable;
        let section = self.sections.iter().position(inside).or_else(|| {
            let found = self.sections.iter().position(at_end);
            found.filter(|_| ends)
        })?;
        let header = &self.sections[section];
        let name = String::from_utf8_lossy(header.name);
        Some(Location { section, name, offset: address.0 - header.address })
    }

    /// The functions' addresses as `LC_FUNCTION_STARTS` has them; none without that command.
    pub(crate) fn function_starts(&self) -> Result<Vec<Address>, Error> {
        let Some(mut rest) = self.function_starts else { return Ok(Vec::new()) };
        let mut starts = Vec::new();
        let mut address = self.base.0;
        let all = rest;
        loop {
            let at = all.len() - rest.len();
            let damaged = Error::Table { what: "LC_FUNCTION_STARTS", offset: at as u64, value: address };
            if rest.is_empty() {
                return Ok(starts);
            }
            let delta = uleb128(&mut rest).ok_or(damaged)?;
            // Zeros pad the end.
            if delta == 0 {
                return Ok(starts);
            }
            address = address.checked_add(delta).ok_or(damaged)?;
            starts.push(Address(address));
        }
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

    /// Whether it holds instructions that a compiler wrote. Stubs, a linker's work, are of another type.
    fn is_code(&self) -> bool {
        let code = macho::S_ATTR_PURE_INSTRUCTIONS | macho::S_ATTR_SOME_INSTRUCTIONS;
        let kind = self.flags.typ();
        (kind == macho::S_REGULAR || kind == macho::S_COALESCED) && self.flags.0 & code.0 != 0
    }
}

fn arch_of(cpu: CpuType) -> Result<Arch, Error> {
    match cpu {
        macho::CPU_TYPE_X86_64 => Ok(Arch::Amd64),
        macho::CPU_TYPE_X86 => Ok(Arch::I386),
        macho::CPU_TYPE_ARM64 => Ok(Arch::Aarch64),
        macho::CPU_TYPE_ARM64_32 => Ok(Arch::Arm64_32),
        CpuType(other) => Err(unsupported("CPU type", 4, other)),
    }
}

fn range(bytes: &[u8], offset: u64, size: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get(start..start.checked_add(usize::try_from(size).ok()?)?)
}

fn uleb128(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn unsupported(what: &'static str, offset: u64, value: u32) -> Error {
    Error::Unsupported { what, offset, value: value.into() }
}
