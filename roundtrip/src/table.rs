//! What a table says, PC by PC in ascending order.

use std::ops::Range;

use cfipack_decoder::sframe::{self, Function, Rows, Section};
use cfipack_format::sframe::{Header, Version};
use cfipack_format::{Arch, FunctionOffset, Row, SectionOffset};

use crate::cfi::Flags;

/// The functions of one or more tables, in order of address, no two of them sharing a PC: each PC
/// belongs to the function that [`Section::find`] finds for it.
///
/// Memory: 32 bytes a function.
#[derive(Clone, Debug)]
pub struct Table<'t> {
    sections: &'t [Section<'t>],
    entries: Vec<Entry>,
    /// Functions that cannot be read, or not be found.
    malformed: Vec<sframe::Error>,
}

/// The PCs for which a function answers.
#[derive(Clone, Copy, Debug)]
struct Entry {
    from: u64,
    end: u64,
    section: u32,
    index: u32,
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

    /// The function at a place, as [`Segment::function`] gives it.
    pub fn function(&self, place: usize) -> Option<Function<'t>> {
        let entry = self.entries.get(place)?;
        self.sections.get(entry.section as usize)?.function(entry.index as usize).ok()
    }

    /// Walks the table from its first PC on.
    pub fn cursor(&self) -> Cursor<'_, 't> {
        Cursor { table: self, at: 0, open: None }
    }
}

/// Where an FDE lies in its section.
pub(crate) fn fde_offset(section: &Section<'_>, index: usize) -> SectionOffset {
    let header = section.header();
    let index_start = Header::SIZE + usize::from(header.auxhdr_len) + header.fde_off as usize;
    SectionOffset(index_start + index * section.version().fde_size())
}

/// A place in a table that only moves forward.
#[derive(Debug)]
pub struct Cursor<'c, 't> {
    table: &'c Table<'t>,
    at: usize,
    open: Option<Open<'t>>,
}

/// The function that is being walked.
#[derive(Debug)]
struct Open<'t> {
    at: usize,
    start: u64,
    flags: Flags,
    content: Content<'t>,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a cursor has one, and a box would be an allocation a function"
)]
enum Content<'t> {
    /// Rows, one after the other.
    Rows(Walk<'t>),
    /// One answer for each byte of the block that repeats.
    Slots(Vec<TableAnswer>),
    Malformed(TableAnswer),
}

/// Two answers in turn: the one for the PCs up to `next_start`, and the one from there on, which is read
/// ahead.
#[derive(Debug)]
struct Walk<'t> {
    rows: Rows<'t>,
    answers: [TableAnswer; 2],
    /// Which of the two comes next.
    next: usize,
    next_start: u64,
}

/// Some PCs for which the table says one thing, or repeats itself.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'s> {
    /// One past the last PC.
    pub end: u64,
    /// The place of the function in the table, if there is one.
    pub function: Option<usize>,
    says: Says<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Says<'s> {
    One(&'s TableAnswer),
    Slots { start: u64, slots: &'s [TableAnswer] },
}

impl<'s> Segment<'s> {
    /// Bytes after which the answers repeat: 1 if there is but one.
    #[inline]
    pub fn period(&self) -> u64 {
        match self.says {
            Says::One(_) => 1,
            Says::Slots { slots, .. } => slots.len() as u64,
        }
    }

    /// The answer for a PC of the segment.
    #[inline]
    pub fn at(&self, pc: u64) -> &'s TableAnswer {
        match self.says {
            Says::One(answer) => answer,
            Says::Slots { start, slots } => &slots[((pc - start) % slots.len() as u64) as usize],
        }
    }
}

impl Cursor<'_, '_> {
    /// What the table says from `pc` on. `pc` must not be less than in the call before.
    #[inline]
    pub fn seek(&mut self, pc: u64) -> Segment<'_> {
        let entries = &self.table.entries;
        while entries.get(self.at).is_some_and(|entry| entry.end <= pc) {
            self.at += 1;
        }
        let nothing = |end| Segment { end, function: None, says: Says::One(&TableAnswer::Nothing) };
        let Some(entry) = entries.get(self.at) else { return nothing(u64::MAX) };
        if pc < entry.from {
            return nothing(entry.from);
        }
        if self.open.as_ref().is_none_or(|open| open.at != self.at) {
            self.open = Some(Open::new(self.table, self.at));
        }
        let Some(open) = &mut self.open else { return nothing(entry.end) };
        let (end, says) = open.seek(pc, entry.end);
        Segment { end, function: Some(self.at), says }
    }
}

impl<'t> Open<'t> {
    fn new(table: &Table<'t>, at: usize) -> Self {
        let entry = table.entries[at];
        let function = match table.sections[entry.section as usize].function(entry.index as usize) {
            Ok(function) => function,
            Err(error) => {
                let content = Content::Malformed(TableAnswer::Malformed(error));
                return Self { at, start: entry.from, flags: Flags::default(), content };
            }
        };
        let flags = Flags { signal: function.is_signal_frame(), key_b: function.has_pauth_key_b() };
        let start = function.start().0;
        let content = if function.is_pc_mask() {
            slots(&function, flags)
        } else {
            let answers = [TableAnswer::Nothing; 2];
            let mut walk = Walk { rows: function.rows(), answers, next: 1, next_start: 0 };
            walk.read_ahead(start, flags);
            Content::Rows(walk)
        };
        Self { at, start, flags, content }
    }

    #[inline]
    fn seek(&mut self, pc: u64, end: u64) -> (u64, Says<'_>) {
        match &mut self.content {
            Content::Rows(walk) => {
                while walk.next_start <= pc {
                    walk.next ^= 1;
                    walk.read_ahead(self.start, self.flags);
                }
                (end.min(walk.next_start), Says::One(&walk.answers[walk.next ^ 1]))
            }
            Content::Slots(slots) => (end, Says::Slots { start: self.start, slots }),
            Content::Malformed(answer) => (end, Says::One(answer)),
        }
    }
}

impl Walk<'_> {
    #[inline]
    fn read_ahead(&mut self, start: u64, flags: Flags) {
        match self.rows.next() {
            Some(Ok(row)) => {
                self.next_start = start.saturating_add(u64::from(row.start.0));
                self.answers[self.next] = TableAnswer::Row(row, flags);
            }
            // Where it starts is not known, hence neither is where the row before it ends.
            Some(Err(error)) => {
                self.next_start = start;
                self.answers[self.next] = TableAnswer::Malformed(error);
            }
            None => self.next_start = u64::MAX,
        }
    }
}

/// A PC-mask function's answers, byte by byte.
fn slots<'t>(function: &Function<'t>, flags: Flags) -> Content<'t> {
    // A repetition size of 0 is an error of every lookup.
    if let Err(error) = function.lookup(FunctionOffset(0)) {
        return Content::Malformed(TableAnswer::Malformed(error));
    }
    let mut slots = vec![TableAnswer::Nothing; usize::from(function.rep_size()).max(1)];
    let (mut answer, mut at) = (TableAnswer::Nothing, 0);
    for row in function.rows() {
        let row = match row {
            Ok(row) => row,
            Err(error) => return Content::Malformed(TableAnswer::Malformed(error)),
        };
        let next = (row.start.0 as usize).clamp(at, slots.len());
        slots[at..next].fill(answer);
        (answer, at) = (TableAnswer::Row(row, flags), next);
    }
    slots[at..].fill(answer);
    Content::Slots(slots)
}
