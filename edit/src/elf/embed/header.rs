//! Program headers and section headers as values, read and written.

use core::ops::Range;

use cfipack_format::Endian;
use cfipack_format::widen::ToUsize;
use object::Endianness;
use object::elf::{self, ProgramHeader64, SectionHeader64};
use object::read::elf::{ProgramHeader as _, SectionHeader as _};

/// A program header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: u64,
    pub physical: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
}

impl Segment {
    /// The size of a program header in bytes.
    pub const LEN: u64 = 56;

    pub fn read(header: &ProgramHeader64<Endianness>, endian: Endianness) -> Self {
        Self {
            kind: header.p_type(endian).0,
            flags: header.p_flags(endian).0,
            offset: header.p_offset(endian),
            address: header.p_vaddr(endian),
            physical: header.p_paddr(endian),
            file_size: header.p_filesz(endian),
            memory_size: header.p_memsz(endian),
            align: header.p_align(endian),
        }
    }

    /// Builds a read-only segment that has all its bytes in the file.
    pub fn new(kind: u32, offset: u64, address: u64, size: u64, align: u64) -> Self {
        let flags = elf::PF_R.0;
        Self { kind, flags, offset, address, physical: address, file_size: size, memory_size: size, align }
    }

    pub fn to_bytes(self, endian: Endian) -> Vec<u8> {
        let mut bytes = [self.kind, self.flags].map(|word| endian.put_u32(word)).concat();
        let Self { offset, address, physical, file_size, memory_size, align, .. } = self;
        for value in [offset, address, physical, file_size, memory_size, align] {
            bytes.extend(endian.put_u64(value));
        }
        bytes
    }

    pub fn is_loaded(&self) -> bool {
        self.kind == elf::PT_LOAD.0
    }

    /// Returns whether the segment is loaded, and can be neither written nor executed.
    pub fn is_constant(&self) -> bool {
        self.is_loaded() && self.flags == elf::PF_R.0 && self.file_size == self.memory_size
    }

    /// Returns the range of the segment in the file.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.file_size)
    }

    /// Returns the bytes of the file that are read through this header. `PT_GNU_RELRO` only names memory to protect: no
    /// byte is read through it, and its size may be rounded up to whole pages.
    pub fn used(&self) -> Range<u64> {
        let size = if self.kind == elf::PT_GNU_RELRO.0 { 0 } else { self.file_size };
        self.offset..self.offset.saturating_add(size)
    }

    /// Returns the end of the segment: one past its last address.
    pub fn end_address(&self) -> u64 {
        self.address.saturating_add(self.memory_size)
    }

    /// Returns the address of a byte of the file.
    pub fn address_of(&self, offset: u64) -> u64 {
        self.address.wrapping_add(offset.wrapping_sub(self.offset))
    }

    /// Moves the segment in the file and in memory.
    pub fn move_by(&mut self, offset: u64, address: u64) {
        self.offset = self.offset.wrapping_add(offset);
        self.address = self.address.wrapping_add(address);
        if self.physical != 0 {
            self.physical = self.physical.wrapping_add(address);
        }
    }

    /// Sets the size in the file and in memory.
    pub fn resize(&mut self, size: u64) {
        self.file_size = size;
        self.memory_size = size;
    }

    pub fn name(&self) -> String {
        elf::ProgramType(self.kind).name().map_or_else(|| format!("type {:#x}", self.kind), str::to_owned)
    }
}

/// A section header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Header {
    pub name: u32,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
}

impl Header {
    /// The size of a section header in bytes.
    pub const LEN: u64 = 64;

    pub fn read(header: &SectionHeader64<Endianness>, endian: Endianness) -> Self {
        Self {
            name: header.sh_name(endian),
            kind: header.sh_type(endian).0,
            flags: header.sh_flags(endian).0,
            address: header.sh_addr(endian),
            offset: header.sh_offset(endian),
            size: header.sh_size(endian),
            link: header.sh_link(endian),
            info: header.sh_info(endian),
            align: header.sh_addralign(endian),
            entry_size: header.sh_entsize(endian),
        }
    }

    pub fn to_bytes(self, endian: Endian) -> Vec<u8> {
        let mut bytes = [self.name, self.kind].map(|word| endian.put_u32(word)).concat();
        for value in [self.flags, self.address, self.offset, self.size] {
            bytes.extend(endian.put_u64(value));
        }
        for word in [self.link, self.info] {
            bytes.extend(endian.put_u32(word));
        }
        for value in [self.align, self.entry_size] {
            bytes.extend(endian.put_u64(value));
        }
        bytes
    }

    pub fn is(&self, kind: elf::SectionType) -> bool {
        self.kind == kind.0
    }

    pub fn has(&self, flag: elf::SectionFlags) -> bool {
        self.flags & flag.0 == flag.0
    }

    /// Returns the numbers of other sections in `sh_link` and `sh_info`. 0 stands for no section.
    pub fn sections(&self) -> [usize; 2] {
        let has_section = self.has(elf::SHF_INFO_LINK) || self.is(elf::SHT_RELA) || self.is(elf::SHT_REL);
        [self.link.to_usize(), if has_section { self.info.to_usize() } else { 0 }]
    }

    /// Returns whether the section has a place in the file, even if it is empty.
    pub fn has_place(&self) -> bool {
        !self.is(elf::SHT_NOBITS) && !self.is(elf::SHT_NULL)
    }

    /// Returns whether the section occupies bytes of the file.
    pub fn has_bytes(&self) -> bool {
        self.size != 0 && self.has_place()
    }

    /// Returns the range of the section in the file.
    pub fn range(&self) -> Range<u64> {
        let size = if self.has_bytes() { self.size } else { 0 };
        self.offset..self.offset.saturating_add(size)
    }
}
