//! The functions of a table, by the PCs that they answer for.

use std::ops::Range;

use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::sframe::{Header, Version};
use cfipack_format::{Arch, Row, SectionOffset};

use crate::cfi::Flags;

/// The functions of one or more tables, in order of address, no two of them sharing a PC: each PC
/// belongs to the function that [`Section::find`] finds for it.
///
/// Memory: 32 bytes a function.
#[derive(Clone, Debug)]
pub struct Table<'t> {
    pub(crate) sections: &'t [Section<'t>],
    pub(crate) entries: Vec<Entry>,
    /// Functions that cannot be read, or not be found.
    malformed: Vec<sframe::Error>,
}

/// The PCs for which a function answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub from: u64,
    pub end: u64,
    pub section: u32,
    pub index: u32,
}

/// What a table says of a PC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableAnswer {
    /// It has no row.
    Nothing,
    /// It has this row.
    Row(Row, Flags),
    /// It has something that cannot be read.
    Malformed(sframe::Error),
}

impl<'t> Table<'t> {
    /// Sorts the functions of the tables.
    pub fn new(sections: &'t [Section<'t>]) -> Self {
        let (mut found, mut malformed) = (Vec::new(), Vec::new());
        for (number, section) in sections.iter().enumerate() {
            let mut before = i64::MIN;
            for (index, function) in section.functions().enumerate() {
                let function = match function {
                    Ok(function) => function,
                    Err(error) => {
                        malformed.push(error);
                        continue;
                    }
                };
                let relative = function.start().distance_from(section.address());
                if section.is_sorted() && relative < before {
                    malformed.push(sframe::Error::NotSorted { offset: fde_offset(section, index) });
                }
                before = relative;
                if function.size() != 0 {
                    let from = function.start().0;
                    let end = from.saturating_add(u64::from(function.size()));
                    found.push(Entry { from, end, section: number as u32, index: index as u32 });
                }
            }
        }
        // Of one start, a sorted table's last function is asked first; an unsorted one's first.
        found.sort_unstable_by_key(|entry| {
            let sorted = sections[entry.section as usize].is_sorted();
            (entry.from, u32::MAX - entry.section, if sorted { entry.index } else { u32::MAX - entry.index })
        });
        let mut entries: Vec<Entry> = Vec::with_capacity(found.len());
        for same_start in found.chunk_by(|a, b| a.from == b.from) {
            let mut from = same_start[0].from;
            if let Some(before) = entries.last_mut() {
                before.end = before.end.min(from);
            }
            for entry in same_start.iter().rev() {
                if entry.end > from {
                    entries.push(Entry { from, ..*entry });
                    from = entry.end;
                }
            }
        }
        Self { sections, entries, malformed }
    }

    /// Version of the format, if there is a table.
    pub fn version(&self) -> Option<Version> {
        self.sections.first().map(Section::version)
    }

    /// The PCs for which the function at a place answers.
    pub fn extent(&self, place: usize) -> Option<Range<u64>> {
        self.entries.get(place).map(|entry| entry.from..entry.end)
    }

    /// The architecture, if there is a table.
    pub fn arch(&self) -> Option<Arch> {
        self.sections.first().map(Section::arch)
    }

    /// Functions that cannot be read at all, not even to say which PCs they are for; and those that
    /// no binary search finds, where the index is said to be sorted and is not.
    pub fn malformed(&self) -> &[sframe::Error] {
        &self.malformed
    }

    /// The function at a place, as [`Segment::function`](crate::Segment::function) gives it.
    pub fn function(&self, place: usize) -> Option<Function<'t>> {
        let entry = self.entries.get(place)?;
        self.sections.get(entry.section as usize)?.function(entry.index as usize).ok()
    }
}

/// Where an FDE lies in its section.
pub(crate) fn fde_offset(section: &Section<'_>, index: usize) -> SectionOffset {
    let header = section.header();
    let index_start = Header::SIZE + usize::from(header.auxhdr_len) + header.fde_off as usize;
    SectionOffset(index_start + index * section.version().fde_size())
}
