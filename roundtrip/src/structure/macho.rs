//! Checks that a Mach-O object is the original with other rows in `__compact_unwind`.

use core::fmt;

use cfipack_format::widen::ToUsize;
use object::read::macho::{LoadCommandVariant, MachHeader as _, MachOFile64, MachOSection64, MachOSymbol64};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};

type File<'a> = MachOFile64<'a, Endianness>;

/// A difference of two files other than the rows of `__compact_unwind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MachODifference {
    /// The kind of part that differs, for example `section`.
    pub what: &'static str,
    /// The index of the part among the parts of its kind, from 0.
    pub index: usize,
}

impl fmt::Display for MachODifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} differs from the old one", self.what, self.index)
    }
}

impl core::error::Error for MachODifference {}

/// Checks that a 64-bit Mach-O object is the original with other rows in `__compact_unwind`. All other sections must
/// have the same addresses, contents and relocations. The symbols and the contents of the load commands must be the
/// same too. `__compact_unwind` itself may have other rows and another address, or be new.
///
/// # Errors
/// Returns the first difference. A file that cannot be read counts as a difference.
pub fn check_compact_unwind_edit(old: &[u8], new: &[u8]) -> Result<(), MachODifference> {
    let old_file = File::parse(old).map_err(|_| MachODifference { what: "file", index: 0 })?;
    let new_file = File::parse(new).map_err(|_| MachODifference { what: "file", index: 1 })?;
    check_sections(&old_file, &new_file)?;
    check_symbols(&old_file, &new_file)?;
    check_commands(old, new)
}

fn is_compact_unwind(section: &MachOSection64<'_, '_, Endianness>) -> bool {
    section.name_bytes() == Ok(b"__compact_unwind")
}

fn check_sections(old: &File<'_>, new: &File<'_>) -> Result<(), MachODifference> {
    let mut added = new.sections();
    for (index, before) in old.sections().enumerate() {
        let differs = MachODifference { what: "section", index };
        let after = added.next().ok_or(differs)?;
        let is_named_alike = before.name_bytes() == after.name_bytes()
            && before.segment_name_bytes() == after.segment_name_bytes()
            && (before.flags(), before.align()) == (after.flags(), after.align());
        if !is_named_alike || !is_compact_unwind(&before) && !is_same(&before, &after) {
            return Err(differs);
        }
    }
    let differs = MachODifference { what: "section", index: old.sections().count() };
    match (added.next(), added.next()) {
        (None, None) => Ok(()),
        (Some(section), None)
            if is_compact_unwind(&section) && !old.sections().any(|section| is_compact_unwind(&section)) =>
        {
            Ok(())
        }
        _ => Err(differs),
    }
}

/// Returns whether two sections have the same address, bytes and relocations.
fn is_same(old: &MachOSection64<'_, '_, Endianness>, new: &MachOSection64<'_, '_, Endianness>) -> bool {
    (old.address(), old.size()) == (new.address(), new.size())
        && old.data().is_ok_and(|bytes| new.data().is_ok_and(|other| other == bytes))
        && old.macho_relocations().is_ok_and(|old| {
            new.macho_relocations()
                .is_ok_and(|new| object::pod::bytes_of_slice(old) == object::pod::bytes_of_slice(new))
        })
}

fn check_symbols(old: &File<'_>, new: &File<'_>) -> Result<(), MachODifference> {
    let mut rest = new.symbols();
    // The names of many symbols may be the same long string, so the time to compare them is bounded.
    let mut room = old.data().len().saturating_mul(4);
    for (index, before) in old.symbols().enumerate() {
        let differs = MachODifference { what: "symbol", index };
        let after = rest.next().ok_or(differs)?;
        let size = before.name_bytes().map_or(0, <[u8]>::len);
        room = room.checked_sub(size).ok_or(MachODifference { what: "long name of symbol", index })?;
        let is_same = before.name_bytes() == after.name_bytes()
            && before.flags() == after.flags()
            && before.section() == after.section()
            && comparable_value(old, &before) == comparable_value(new, &after);
        if !is_same {
            return Err(differs);
        }
    }
    match rest.next() {
        None => Ok(()),
        Some(_) => Err(MachODifference { what: "symbol", index: old.symbols().count() }),
    }
}

/// Returns the address of a symbol. For a symbol of `__compact_unwind`, returns the offset in the section, because the
/// section may move.
fn comparable_value(file: &File<'_>, symbol: &MachOSymbol64<'_, '_, Endianness>) -> u64 {
    if let Some(index) = symbol.section_index()
        && let Ok(section) = file.section_by_index(index)
        && is_compact_unwind(&section)
    {
        return symbol.address().wrapping_sub(section.address());
    }
    symbol.address()
}

/// Compares the contents of load commands. The parts for sections and symbols have been compared before.
fn check_commands(old: &[u8], new: &[u8]) -> Result<(), MachODifference> {
    let what = "list of load commands";
    let old = contents(old).ok_or(MachODifference { what, index: 0 })?;
    let new = contents(new).ok_or(MachODifference { what, index: 1 })?;
    match old.iter().zip(&new).position(|(old, new)| old != new) {
        Some(index) => Err(MachODifference { what: "load command", index }),
        None if old.len() != new.len() => {
            Err(MachODifference { what: "load command", index: old.len().min(new.len()) })
        }
        None => Ok(()),
    }
}

/// Returns the bytes that each load command stands for: its own bytes, or the bytes that it leads to.
fn contents(bytes: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
    let header = object::macho::MachHeader64::<Endianness>::parse(bytes, 0).ok()?;
    let endian = header.endian().ok()?;
    let part = |offset: u32, len: usize| match len {
        0 => Some(&[][..]),
        len => bytes.get(offset.to_usize()..)?.get(..len),
    };
    let mut all = vec![(header.flags(endian).0, header.filetype(endian).0.to_le_bytes().to_vec())];
    let mut commands = header.load_commands(endian, bytes, 0).ok()?;
    while let Some(command) = commands.next().ok()? {
        let raw = command.raw_data();
        let contents = match command.variant().ok()? {
            LoadCommandVariant::Segment64(..) => Vec::new(),
            LoadCommandVariant::Symtab(table) => {
                part(table.stroff.get(endian), table.strsize.get(endian).to_usize())?.to_vec()
            }
            LoadCommandVariant::Dysymtab(table) => {
                let indirect = table.nindirectsyms.get(endian).to_usize() * 4;
                [raw.get(8..32)?, part(table.indirectsymoff.get(endian), indirect)?].concat()
            }
            LoadCommandVariant::LinkeditData(data) => {
                part(data.dataoff.get(endian), data.datasize.get(endian).to_usize())?.to_vec()
            }
            _ => raw.to_vec(),
        };
        all.push((command.cmd().0, contents));
    }
    Some(all)
}
