//! What a table says, PC by PC in ascending order.

use cfipack_decoder::sframe::{Function, Rows};
use cfipack_format::FunctionOffset;

use crate::cfi::Flags;
use crate::table::{Table, TableAnswer};

impl<'t> Table<'t> {
    /// Walks the table from its first PC on.
    pub fn cursor(&self) -> Cursor<'_, 't> {
        Cursor { table: self, at: 0, open: None }
    }
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
