//! A table as a list of entries. Each entry answers for a range of code.

use cfipack_decoder::compact_unwind::{EncodingError, row};
use cfipack_decoder::unwind_info::{self, Section};
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::{Address, Arch, ImageOffset, Row, Saved};

use super::Code;

/// A range of code, and the encoding by which it is unwound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The first address.
    pub start: Address,
    /// One past the last address.
    pub end: Address,
    /// The compact encoding.
    pub encoding: Encoding,
    /// The personality. In an image this is the address of its slot, in an object its number from 1. 0 means no
    /// personality.
    pub personality: u64,
    /// The language-specific data area.
    pub lsda: Option<Address>,
}

impl Entry {
    /// Builds the entry of an image's `__unwind_info`, with the slot of its personality and its LSDA. `base` is the
    /// address of the image's Mach-O header.
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
    /// There is no entry, or the entry has no unwind information.
    Nothing,
    /// The function's FDE has the unwind information.
    Dwarf,
    /// The row in the body of the function, and the registers that it saves.
    Row(Row, Saved),
    /// The encoding cannot be read.
    Malformed(EncodingError),
}

impl Meaning {
    /// Returns the meaning of an encoding. `code` is the function's code from its start on, and may be empty.
    pub fn of(arch: Arch, encoding: Encoding, code: &[u8]) -> Self {
        match row(encoding, arch, code) {
            Ok(Some((row, saved))) => Self::Row(row, saved),
            Ok(None) if encoding.mode(arch) == Some(Mode::Dwarf) => Self::Dwarf,
            Ok(None) => Self::Nothing,
            Err(error) => Self::Malformed(error),
        }
    }
}

/// The entries of a table in order of address, and the code that they are for. No two entries share a PC.
///
/// Memory: 48 bytes for each entry.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    pub(super) arch: Arch,
    pub(super) entries: Vec<Entry>,
    pub(super) code: Code<'a>,
    errors: Vec<unwind_info::Error>,
    /// True if personalities are known by the addresses of their slots.
    pub(super) has_slots: bool,
    /// The meaning of code without an entry.
    pub(super) elsewhere: Meaning,
}

impl<'a> Table<'a> {
    /// Reads the entries of an image's `__unwind_info`. `base` is the address of its Mach-O header. Errors of
    /// unreadable parts are in [`Table::errors`].
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

    /// Builds the table of an image without `__unwind_info`.
    pub fn empty(arch: Arch, code: Code<'a>) -> Self {
        Self { has_slots: true, ..Self::new(arch, Vec::new(), code) }
    }

    /// Treats the table as made for an object. The slots of its personalities are then not compared, because a linker
    /// will place them.
    pub fn without_slots(self) -> Self {
        Self { has_slots: false, ..self }
    }

    /// Reads the rows of an object's `__compact_unwind`, in any order. For a function without a row, the linker looks
    /// for an FDE.
    pub fn of_object(arch: Arch, entries: Vec<Entry>, code: Code<'a>) -> Self {
        Self { elsewhere: Meaning::Dwarf, ..Self::new(arch, entries, code) }
    }

    /// Sorts the entries. If several start at the same address, the last entry counts. An entry ends at the latest
    /// where the next entry starts.
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

    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the entries, in order of address.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the errors of parts that could not be read and are not among the entries.
    pub fn errors(&self) -> &[unwind_info::Error] {
        &self.errors
    }

    /// Returns the entry that answers for a PC.
    pub fn find(&self, pc: Address) -> Option<&Entry> {
        self.entries.get(self.first_ending_after(pc)).filter(|entry| entry.start <= pc)
    }

    /// Returns the meaning of an entry.
    pub fn meaning(&self, entry: &Entry) -> Meaning {
        Meaning::of(self.arch, entry.encoding, self.code.starting_at(entry.start))
    }

    /// Returns the index of the first entry that ends after a PC.
    pub(super) fn first_ending_after(&self, pc: Address) -> usize {
        self.entries.partition_point(|entry| entry.end <= pc)
    }
}
