//! Reads the sections of a file by address.

use std::collections::HashMap;
use std::sync::OnceLock;

use cfipack_code::{Memory, mentions};
use cfipack_container::{File, Kind, Section};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Family};

/// The code and the data of a file.
#[derive(Debug)]
pub struct FileMemory<'a> {
    /// The sections of code and data, in ascending order of address.
    sections: Vec<Loaded<'a>>,
    arch: Arch,
    red_zone: u32,
    /// The addresses of data that the code mentions, ascending. They are found when a jump table has no known end.
    mentioned: OnceLock<Vec<u64>>,
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
        let code = file.code_sections()?;
        let addresses: HashMap<_, _> =
            code.iter().filter_map(|section| Some((section.index?, section.address))).collect();
        for mut section in code {
            let mut relocated = Vec::new();
            if let (Kind::Relocatable, Some(index)) = (file.kind(), section.index) {
                for field in file.relocations(index)? {
                    let target = field.section.and_then(|index| addresses.get(&index));
                    let target = target.filter(|_| file.as_elf().is_some() && field.relative);
                    let target = target.map(|start| start.offset(field.value as i64).offset(field.addend));
                    if !target.is_some_and(|target| apply(file.arch(), &mut section, field.offset, target)) {
                        relocated.push(field.offset);
                    }
                }
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
        Ok(Self { sections, arch: file.arch(), red_zone: file.red_zone(), mentioned: OnceLock::new() })
    }

    /// Returns the number of bytes below the stack pointer that no signal handler overwrites.
    pub fn red_zone(&self) -> u32 {
        self.red_zone
    }

    /// Returns whether an address is in a section of stubs (`.plt`). Each stub is a function that jumps to another
    /// function.
    pub fn is_stub(&self, address: Address) -> bool {
        self.loaded(address).is_some_and(|(loaded, _)| loaded.section.name.starts_with(".plt"))
    }

    /// Returns the addresses of data that the code mentions, ascending.
    fn mentioned(&self) -> &[u64] {
        self.mentioned.get_or_init(|| {
            let code = self.sections.iter().filter(|loaded| loaded.is_code);
            let all =
                code.flat_map(|loaded| mentions(self.arch, loaded.section.address, &loaded.section.bytes));
            let is_data =
                |address: &Address| self.loaded(*address).is_some_and(|(loaded, _)| !loaded.is_code);
            let mut mentioned: Vec<_> = all.filter(is_data).map(|address| address.0).collect();
            mentioned.sort_unstable();
            mentioned.dedup();
            mentioned
        })
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

/// Applies a relocation of a direct branch or call, whose target is `S + A`, so that the target is known. Returns false
/// for another field.
fn apply(arch: Arch, section: &mut Section<'_>, field: u64, target: Address) -> bool {
    let distance = target.0.wrapping_sub(section.address.0.wrapping_add(field)) as i64;
    let at = field.to_usize();
    let Some(before) = section.bytes.get(at.saturating_sub(2)..at.saturating_add(4)) else { return false };
    let value = match (arch.family(), before) {
        // jmp, call, or a conditional jump.
        (Family::X86, [.., 0xe8 | 0xe9, _, _, _, _] | [0x0f, 0x80..=0x8f, _, _, _, _]) => distance as u32,
        (Family::Aarch64, [.., a, b, c, d]) => {
            let word = u32::from_le_bytes([*a, *b, *c, *d]);
            // Each branch has the distance in some bits, from a first bit on.
            let (bits, first) = match word {
                // b and bl.
                _ if word & 0x7c00_0000 == 0x1400_0000 => (26, 0),
                // A conditional branch, cbz and cbnz.
                _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 => (19, 5),
                // tbz and tbnz.
                _ if word & 0x7e00_0000 == 0x3600_0000 => (14, 5),
                _ => return false,
            };
            let mask = (1 << bits) - 1;
            word & !(mask << first) | ((distance >> 2) as u32 & mask) << first
        }
        _ => return false,
    };
    section.bytes.to_mut()[at..at + 4].copy_from_slice(&value.to_le_bytes());
    true
}

impl Memory for FileMemory<'_> {
    fn at(&self, address: Address) -> &[u8] {
        self.loaded(address).map_or(&[], |(loaded, offset)| &loaded.section.bytes[offset..])
    }

    fn next_data(&self, address: Address) -> Option<Address> {
        let mentioned = self.mentioned();
        mentioned.get(mentioned.partition_point(|next| *next <= address.0)).copied().map(Address)
    }
}
