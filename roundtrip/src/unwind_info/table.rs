//! The answers of a table, range by range.

use cfipack_decoder::compact_unwind::{EncodingError, row};
use cfipack_decoder::unwind_info::{self, Section};
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::{Address, Arch, ImageOffset, Row, Saved};

use super::Code;

/// A range of code and how it is unwound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// First byte.
    pub start: Address,
    /// First byte after it.
    pub end: Address,
    /// The encoding of the function's unwinding.
    pub encoding: Encoding,
    /// The number of the personality: of an image its slot's address, of an object its number from 1;
    /// 0 = none.
    pub personality: u64,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

impl Entry {
    /// An entry of an image's `__unwind_info` with its personality's slot and its LSDA; `base` is where the
    /// image's Mach-O header lies.
    pub fn of_image(
        base: Address,
        entry: &unwind_info::Entry,
        personality: Option<ImageOffset>,
        lsda: Option<ImageOffset>,
    ) -> Self {
        let at = |offset: ImageOffset| base.offset(offset.0.into());
        Self {
            start: at(entry.start),
            end: at(entry.end),
            encoding: entry.encoding,
            personality: personality.map_or(0, |slot| at(slot).0),
            lsda: lsda.map(at),
        }
    }
}

/// The meaning of an entry's encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// No unwind information, or no entry.
    Nothing,
    /// The function's FDE has it.
    Dwarf,
    /// A row, in the body of the function.
    Row(Row, Saved),
    /// Nothing that can be read.
    Malformed(EncodingError),
}

impl Meaning {
    /// The meaning of an encoding for a function whose code, from its start on, is this; empty where there is none.
    pub fn of(arch: Arch, encoding: Encoding, code: &[u8]) -> Self {
        match row(encoding, arch, code) {
            Ok(Some((row, saved))) => Self::Row(row, saved),
            Ok(None) if encoding.mode(arch) == Some(Mode::Dwarf) => Self::Dwarf,
            Ok(None) => Self::Nothing,
            Err(error) => Self::Malformed(error),
        }
    }
}

/// A table's entries in order of address, no two of them sharing a PC, and the code they are for.
///
/// Memory: 48 bytes an entry.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    pub(super) arch: Arch,
    pub(super) entries: Vec<Entry>,
    pub(super) code: Code<'a>,
    errors: Vec<unwind_info::Error>,
    /// True if personalities are known by the addresses of their slots.
    pub(super) has_slots: bool,
    /// The meaning of code that no entry has.
    pub(super) elsewhere: Meaning,
}

impl<'a> Table<'a> {
    /// The entries of an image's `__unwind_info`; `base` is where its Mach-O header lies. What cannot be
    /// read is in [`Table::errors`].
    pub fn of_image(arch: Arch, base: Address, section: &Section<'_>, code: Code<'a>) -> Self {
        let mut errors = Vec::new();
        let mut entries = Vec::new();
        for entry in section.entries() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            let lsda = section.lsda(&entry).unwrap_or_else(|error| {
                errors.push(error);
                None
            });
            let personality = section.personality(&entry).unwrap_or_else(|error| {
                errors.push(error);
                None
            });
            entries.push(Entry::of_image(base, &entry, personality, lsda));
        }
        Self { errors, has_slots: true, ..Self::new(arch, entries, code) }
    }

    /// The table of an image that has none.
    pub fn empty(arch: Arch, code: Code<'a>) -> Self {
        Self { has_slots: true, ..Self::new(arch, Vec::new(), code) }
    }

    /// Turns the table into one made for an object: its slots are not where a linker will put them.
    pub fn without_slots(self) -> Self {
        Self { has_slots: false, ..self }
    }

    /// The rows of an object's `__compact_unwind`, in any order. Functions without a row are the linker's
    /// to find among the FDEs.
    pub fn of_object(arch: Arch, entries: Vec<Entry>, code: Code<'a>) -> Self {
        Self { elsewhere: Meaning::Dwarf, ..Self::new(arch, entries, code) }
    }

    /// Of several entries at one address the last one counts; an entry ends where the next one starts.
    fn new(arch: Arch, mut entries: Vec<Entry>, code: Code<'a>) -> Self {
        entries.retain(|entry| entry.start < entry.end);
        entries.sort_by_key(|entry| entry.start);
        entries.reverse();
        entries.dedup_by_key(|entry| entry.start);
        entries.reverse();
        for i in 1..entries.len() {
            entries[i - 1].end = entries[i - 1].end.min(entries[i].start);
        }
        Self { arch, entries, code, errors: Vec::new(), has_slots: false, elsewhere: Meaning::Nothing }
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The errors of what could not be read, and is not among the entries.
    pub fn errors(&self) -> &[unwind_info::Error] {
        &self.errors
    }

    /// The entry that answers for a PC.
    pub fn find(&self, pc: Address) -> Option<&Entry> {
        self.entries.get(self.first_ending_after(pc)).filter(|entry| entry.start <= pc)
    }

    /// The meaning of an entry.
    pub fn meaning(&self, entry: &Entry) -> Meaning {
        Meaning::of(self.arch, entry.encoding, self.code.starting_at(entry.start))
    }

    /// The number of the first entry that ends after a PC.
    pub(super) fn first_ending_after(&self, pc: Address) -> usize {
        self.entries.partition_point(|entry| entry.end <= pc)
    }
}
