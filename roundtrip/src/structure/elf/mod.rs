//! Checks that an edited ELF file is the original with a `.sframe` added, removed or replaced.
//!
//! - `image`, `plain`, `loads`: a file, its headers as plain numbers, and the memory that it describes.
//! - `pairs`: pairs the sections of both files and finds the sections that moved.
//! - `header`, `sections`, `segments`, `others`: compare the headers and the contents of sections.
//! - `symbols`, `groups`, `strings`, `relocations`, `dynamic`: compare sections with addresses or indexes in them.
//! - `gaps`: compares all other bytes. `table`: checks the place of the table.

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

/// The parts of the files that the check has found equal.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Structure {
    /// The number of program headers of the new file, with the program headers of the table.
    pub segments: usize,
    /// The number of sections of the original that the new file has, without tables.
    pub sections: usize,
    /// The sections that have another address in the new file, in ascending order of their address in the original.
    pub moved: Vec<MovedSection>,
    /// The number of `.sframe` sections of the new file.
    pub tables: usize,
}

/// A section that has another address in the new file.
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

/// Both files, with the pairs of their sections.
struct Check<'c> {
    old: &'c Image<'c>,
    new: &'c Image<'c>,
    pairs: &'c Pairs,
}

/// Proves that an ELF file is the original with a `.sframe` added, removed or replaced. It does not matter how the file
/// was edited.
///
/// The new file must have everything else that the original has: each field of each header, the bytes of each section
/// and between sections, and the memory that a process sees. Only the following may differ, and each difference must
/// follow from the new place of a part:
///
/// - `e_phoff`, `e_phnum`, `e_shoff`, `e_shnum` and `e_shstrndx`, `PT_PHDR`, and offsets in the file.
/// - The address of `.interp`, of notes of known kinds, and of sections that the dynamic section leads to: symbols,
///   strings, hashes, versions and relocations. The dynamic entries, symbols and program headers that lead to a moved
///   section follow it. No relocation may need the old address.
/// - A note may lose its `PT_NOTE` if `PT_GNU_PROPERTY` leads to it too. A program without a loader may lose its
///   `PT_PHDR`.
/// - There may be one new read-only segment for the table and the moved sections. Read-only segments may be longer, and
///   the first segment may start on an earlier page.
/// - An object may have new section symbols for the table's relocations, and the indexes that follow from them.
/// - A linked file whose table was removed may lose the table's section symbol and the relocations of the table, which
///   `--emit-relocs` leaves. Other symbols in the table may become absolute.
///
/// Every byte of the new file is accounted for, except the bytes of the table after its magic number:
/// [`verify`](crate::verify) checks them. This function cannot find code that contains the address of a moved section.
/// But compilers make no such references to the kinds of sections that may move.
///
/// Time is in proportion to the size of both files, and memory to the number of their sections and segments.
///
/// # Errors
/// Returns the first part that differs without a reason, or that cannot be read.
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
    let moved = pairs.moves.iter().map(|range| MovedSection {
        section: range.pair.new,
        old: range.start,
        new: range.start.wrapping_add(range.delta),
    });
    Ok(Structure {
        segments: new.segments.len(),
        sections: pairs.pairs.len(),
        moved: moved.collect(),
        tables,
    })
}

impl Check<'_> {
    /// Checks that `e_shstrndx` leads to the same section as in the original.
    fn check_names_section(&self) -> Result<(), StructureError> {
        let Check { old, new, pairs } = self;
        let expected = pairs.new_of(old.names).unwrap_or(0);
        if expected == new.names {
            return Ok(());
        }
        let (old, new) = (expected.to_u64(), new.names.to_u64());
        Err(StructureError::Header { field: "e_shstrndx", old, new })
    }

    /// Returns how far the bytes of the first segment have moved in the file, modulo 2^64. The segment may start at an
    /// earlier or later page now.
    fn first_shift(&self) -> u64 {
        let Check { old, new, .. } = self;
        let Some(from) = old.loads.0.iter().find(|load| load.segment.filesz != 0) else { return 0 };
        let start = from.segment.vaddr;
        let mut others = new.loads.0.iter().map(|load| load.segment.vaddr);
        let later = others.find(|&address| address > start && address < from.end());
        // An address that both files load shows the shift.
        for address in [Some(start), later].into_iter().flatten() {
            if let Some(in_new) = new.loads.offset_of(address, 1)
                && let Some(in_old) = old.loads.offset_of(address, 1)
            {
                return in_new.wrapping_sub(in_old);
            }
        }
        0
    }
}

/// Returns an error about the first field with another value than expected. A field has a name, the expected value and
/// the value in the new file, and `error` takes them in this order.
fn check_fields(
    fields: &[(&'static str, u64, u64)],
    error: impl Fn(&'static str, u64, u64) -> StructureError,
) -> Result<(), StructureError> {
    match fields.iter().find(|(_, expected, new)| expected != new) {
        Some(&(field, expected, new)) => Err(error(field, expected, new)),
        None => Ok(()),
    }
}
