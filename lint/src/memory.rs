//! Reads the sections of a file by address.

use cfipack_code::Memory;
use cfipack_container::{File, Kind, Section};
use cfipack_format::Address;
use cfipack_format::widen::{ToU64, ToUsize};

/// The code and the data of a file.
#[derive(Debug)]
pub struct FileMemory<'a> {
    /// The sections of code and data, in ascending order of address.
    sections: Vec<Loaded<'a>>,
    red_zone: u32,
    /// True if the sections are all that the program has in memory.
    is_complete: bool,
}

#[derive(Debug)]
struct Loaded<'a> {
    section: Section<'a>,
    is_code: bool,
    /// Offsets in the section of fields that relocations change, in ascending order. Empty except for code of a
    /// relocatable object.
    relocated: Vec<u64>,
}

impl<'a> FileMemory<'a> {
    /// Finds the sections of a file.
    ///
    /// # Errors
    /// The sections or their relocations cannot be read.
    pub fn new(file: &File<'a>) -> Result<Self, cfipack_container::Error> {
        let mut sections = Vec::new();
        for section in file.code_sections()? {
            let mut relocated = Vec::new();
            if let (Kind::Relocatable, Some(index)) = (file.kind(), section.index) {
                relocated = file.relocations(index)?.iter().map(|field| field.offset).collect();
                relocated.sort_unstable();
            }
            sections.push(Loaded { section, is_code: true, relocated });
        }
        let data = file.data_sections()?;
        sections.extend(data.into_iter().map(|section| Loaded {
            section,
            is_code: false,
            relocated: Vec::new(),
        }));
        sections.sort_by_cached_key(|loaded| loaded.section.address.0);
        // A file of debug information has no code. A Mach-O file may have code in sections of other kinds.
        let has_code = sections.iter().any(|loaded| loaded.is_code && !loaded.section.bytes.is_empty());
        let is_complete = has_code && file.as_elf().is_some();
        Ok(Self { sections, red_zone: file.red_zone(), is_complete })
    }

    /// Returns the number of bytes below the stack pointer that no signal handler overwrites.
    pub fn red_zone(&self) -> u32 {
        self.red_zone
    }

    /// Returns whether the program has neither code nor data at an address.
    pub fn is_nowhere(&self, address: Address) -> bool {
        self.is_complete && self.loaded(address).is_none()
    }

    /// Returns whether an address is in a section of stubs (`.plt`). Each stub is a function that jumps to another
    /// function.
    pub fn is_stub(&self, address: Address) -> bool {
        self.loaded(address).is_some_and(|(loaded, _)| loaded.section.name.starts_with(".plt"))
    }

    fn loaded(&self, address: Address) -> Option<(&Loaded<'a>, usize)> {
        let index =
            self.sections.partition_point(|loaded| loaded.section.address <= address).checked_sub(1)?;
        let loaded = &self.sections[index];
        let offset = (address.0 - loaded.section.address.0).to_usize();
        (offset < loaded.section.bytes.len()).then_some((loaded, offset))
    }

    /// Returns at most `len` bytes of code from `start` on, and the offsets in them of fields that relocations change.
    /// Returns `None` if no code is there.
    pub fn code(&self, start: Address, len: u64) -> Option<(&[u8], Vec<u32>)> {
        let (loaded, offset) = self.loaded(start).filter(|(loaded, _)| loaded.is_code)?;
        let rest = &loaded.section.bytes[offset..];
        let bytes = &rest[..usize::try_from(len).unwrap_or(usize::MAX).min(rest.len())];
        let first = loaded.relocated.partition_point(|field| *field < offset.to_u64());
        let inside = loaded.relocated[first..].iter().map(|field| field - offset.to_u64());
        let inside = inside.take_while(|field| *field < bytes.len().to_u64());
        Some((bytes, inside.map(|field| field as u32).collect()))
    }
}

impl Memory for FileMemory<'_> {
    fn at(&self, address: Address) -> &[u8] {
        self.loaded(address).map_or(&[], |(loaded, offset)| &loaded.section.bytes[offset..])
    }
}
