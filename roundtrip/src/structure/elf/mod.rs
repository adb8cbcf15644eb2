//! The check that an edited ELF file is the original with another `.sframe`, more or less.

mod dynamic;
mod error;
mod gaps;
mod groups;
mod header;
mod image;
mod loads;
mod others;
mod pairs;
mod plain;
mod relocations;
mod sections;
mod segments;
mod strings;
mod symbols;
mod table;

pub use error::{StructureError, Version};

use cfipack_format::widen::ToU64;
use image::Image;
use pairs::Pairs;

/// Bytes of the smallest page.
const PAGE: u64 = 0x1000;

/// The parts that the check has found the same in both files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Structure {
    /// Program headers of the new file, those of the table included.
    pub segments: usize,
    /// Sections of the original that the new file has, without tables.
    pub sections: usize,
    /// The sections that lie at another address in the new file, ascending by their address in the original.
    pub moved: Vec<MovedSection>,
    /// `.sframe` sections of the new file.
    pub tables: usize,
}

/// A section that lies at another address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MovedSection {
    /// The index in the new file.
    pub section: usize,
    /// The address in the original.
    pub old: u64,
    /// The address in the new file.
    pub new: u64,
}

/// A check of both files, with which section is which.
struct Check<'c> {
    old: &'c Image<'c>,
    new: &'c Image<'c>,
    pairs: &'c Pairs,
}

/// Proves that an ELF file is another one with an added, removed or replaced `.sframe`, whatever way it was edited.
///
/// Everything else that the original has must be in the new file: each field of each header, each section's bytes,
/// the bytes between them, and what a process sees at each address. Few things may differ, and each must follow from
/// where things lie now:
///
/// - `e_phoff`, `e_phnum`, `e_shoff`, `e_shnum` and `e_shstrndx`, `PT_PHDR`, and offsets in the file;
/// - the address of `.interp`, of notes of known kinds, and of what the dynamic section leads to (symbols, strings,
///   hashes, versions, relocations); with it the dynamic entries, symbols and program headers that lead there. No
///   relocation may need the old address;
/// - a note that `PT_GNU_PROPERTY` leads to as well may have no `PT_NOTE`, and a program without a loader no
///   `PT_PHDR`;
/// - one segment, read-only, for the table and sections that moved; read-only segments may be longer, and the
///   first may start on an earlier page;
/// - in an object, symbols of sections that the table's relocations need, and the indexes that follow from them;
/// - in a linked file, no symbol that stands for the section of a table that is gone, no relocations of it, which
///   `--emit-relocs` leaves, and other symbols in it as absolute ones.
///
/// Every byte of the new file is accounted for, except those of the table itself, of which only the magic number
/// is looked at: [`verify`](crate::verify) checks tables. Code that contains the address of a section which moved cannot
/// be found; sections to which compilers make such references are not among those that may move.
///
/// Time grows with the size of both files; memory with the number of their sections and segments.
pub fn check_structure(old: &[u8], new: &[u8]) -> Result<Structure, StructureError> {
    let old = &Image::read(Version::Old, old)?;
    let new = &Image::read(Version::New, new)?;
    header::check(old, new)?;
    let pairs = &Pairs::new(old, new)?;
    let check = &Check { old, new, pairs };
    sections::check_names(old, new, pairs)?;
    check.check_names_section()?;
    let symbols = symbols::pair(check)?;
    sections::check(check, &symbols)?;
    segments::check(check)?;
    relocations::check_moves(check)?;
    let tables = table::check(check)?;
    gaps::check(check)?;
    let moved = |range: &pairs::Move| MovedSection {
        section: range.pair.new,
        old: range.start,
        new: range.start.wrapping_add(range.delta),
    };
    Ok(Structure {
        segments: new.segments.len(),
        sections: pairs.pairs.len(),
        moved: pairs.moves.iter().map(moved).collect(),
        tables,
    })
}

impl Check<'_> {
    /// Checks that names are found in the section that they were found in.
    fn check_names_section(&self) -> Result<(), StructureError> {
        let Check { old, new, pairs } = self;
        let expected = pairs.new_of(old.names).unwrap_or(0);
        match expected == new.names {
            true => Ok(()),
            false => Err(StructureError::Header {
                field: "e_shstrndx",
                old: expected.to_u64(),
                new: new.names.to_u64(),
            }),
        }
    }

    /// By how far the bytes of the first segment have moved in the file, modulo 2^64. It may start at an earlier or
    /// a later page now.
    fn first_shift(&self) -> u64 {
        let Check { old, new, .. } = self;
        let shift = || {
            let from = old.loads.0.iter().find(|load| load.segment.filesz != 0)?;
            let mut others = new.loads.0.iter().map(|load| load.segment.vaddr);
            let later = others.find(|&address| address > from.segment.vaddr && address < from.end());
            let same = |address| {
                Some(new.loads.offset_of(address, 1)?.wrapping_sub(old.loads.offset_of(address, 1)?))
            };
            same(from.segment.vaddr).or_else(|| same(later?))
        };
        shift().unwrap_or(0)
    }
}
