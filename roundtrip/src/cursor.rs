//! What a table says, PC by PC in ascending order.

use cfipack_decoder::sframe::{Fre, Fres, Function};
use cfipack_format::FunctionOffset;
use cfipack_format::sframe::Version;

use crate::cfi::Flags;
use crate::table::{Table, TableAnswer};

impl<'t> Table<'t> {
    /// Walks the table from its first PC on.
    pub fn cursor(&self) -> Cursor<'_, 't> {
        Cursor { table: self, at: 0, open: None }
    }

    /// Walks the table from a PC on.
    pub(crate) fn cursor_at(&self, pc: u64) -> Cursor<'_, 't> {
        let at = self.entries.partition_point(|entry| entry.end <= pc);
        Cursor { table: self, at, open: None }
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
    /// One answer for each byte of the stub that repeats.
    Stub(Vec<TableAnswer>),
    Malformed(TableAnswer),
}

/// Two answers in turn: the one for the PCs up to `next_start`, which counts from the function's start, and
/// the one from there on, which is read ahead.
#[derive(Debug)]
struct Walk<'t> {
    function: Function<'t>,
    fres: Fres<'t>,
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
    /// The place of the function in the table, if there is one; the same in all its pieces.
    pub function: Option<usize>,
    /// The place of the piece.
    pub(crate) piece: usize,
    says: Says<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Says<'s> {
    One(&'s TableAnswer),
    Stub { start: u64, stub: &'s [TableAnswer] },
}

impl<'s> Segment<'s> {
    /// Bytes after which the answers repeat: 1 if there is but one.
    #[inline]
    pub fn period(&self) -> u64 {
        match self.says {
            Says::One(_) => 1,
            Says::Stub { stub, .. } => stub.len() as u64,
        }
    }

    /// The answer for a PC of the segment.
    #[inline]
    pub fn at(&self, pc: u64) -> &'s TableAnswer {
        match self.says {
            Says::One(answer) => answer,
            Says::Stub { start, stub } => &stub[(pc.wrapping_sub(start) % stub.len() as u64) as usize],
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
        let piece = self.at;
        let nothing = |end| Segment { end, function: None, piece, says: Says::One(&TableAnswer::Nothing) };
        let Some(entry) = entries.get(self.at) else { return nothing(u64::MAX) };
        if pc < entry.from {
            return nothing(entry.from);
        }
        if self.open.as_ref().is_none_or(|open| open.at != self.at) {
            self.open = Some(Open::new(self.table, self.at));
        }
        let Some(open) = &mut self.open else { return nothing(entry.end) };
        let (end, says) = open.seek(pc, entry.end);
        Segment { end, function: Some(self.table.first_piece(piece)), piece, says }
    }
}

impl<'t> Open<'t> {
    fn new(table: &Table<'t>, at: usize) -> Self {
        let entry = table.entries[at];
        let section = &table.sections[entry.section as usize];
        let function = match section.function(entry.index as usize) {
            Ok(function) => function,
            Err(error) => {
                let content = Content::Malformed(TableAnswer::Malformed(error));
                return Self { at, start: entry.from, flags: Flags::default(), content };
            }
        };
        // One table may be able to say what another one in the same file cannot.
        let signal = (section.version() == Version::V3).then(|| function.is_signal_frame());
        let flags = Flags { signal, key_b: function.has_pauth_key_b() };
        let start = function.start().0;
        let content = if function.is_pc_mask() {
            stub(&function, section.version() == Version::V1, flags)
        } else {
            let answers = [TableAnswer::Nothing; 2];
            let mut walk = Walk { function, fres: function.fres(), answers, next: 1, next_start: 0 };
            walk.read_ahead(flags);
            Content::Rows(walk)
        };
        Self { at, start, flags, content }
    }

    #[inline]
    fn seek(&mut self, pc: u64, end: u64) -> (u64, Says<'_>) {
        match &mut self.content {
            Content::Rows(walk) => {
                // Not by addresses: the function may go on behind the last one.
                let offset = pc.wrapping_sub(self.start);
                while walk.next_start <= offset {
                    walk.next ^= 1;
                    walk.read_ahead(self.flags);
                }
                let next = pc.saturating_add(walk.next_start - offset);
                (end.min(next), Says::One(&walk.answers[walk.next ^ 1]))
            }
            Content::Stub(stub) => (end, Says::Stub { start: self.start, stub }),
            Content::Malformed(answer) => (end, Says::One(answer)),
        }
    }
}

impl Walk<'_> {
    #[inline]
    fn read_ahead(&mut self, flags: Flags) {
        match self.fres.next() {
            Some(Ok(fre)) => {
                self.next_start = u64::from(fre.start.0);
                self.answers[self.next] = answer(&fre, &self.function, flags);
            }
            // Where it starts is not known, hence neither is where the row before it ends.
            Some(Err(error)) => {
                self.next_start = 0;
                self.answers[self.next] = TableAnswer::Malformed(error);
            }
            None => self.next_start = u64::MAX,
        }
    }
}

/// What an FRE says; of a malformed one the PCs are known all the same.
#[inline]
fn answer(fre: &Fre, function: &Function<'_>, flags: Flags) -> TableAnswer {
    match fre.row(function) {
        Ok(row) => TableAnswer::Row(row, flags),
        Err(error) => TableAnswer::Malformed(error),
    }
}

/// A PC-mask function's answers, byte by byte.
fn stub<'t>(function: &Function<'t>, starts_are_masks: bool, flags: Flags) -> Content<'t> {
    // A repetition size of 0 is an error of every lookup.
    if function.rep_size() == 0
        && let Err(error) = function.lookup(FunctionOffset(0))
    {
        return Content::Malformed(TableAnswer::Malformed(error));
    }
    let mut stub = vec![TableAnswer::Nothing; usize::from(function.rep_size()).max(1)];
    // Of each offset the start of the row that answers for it.
    let mut starts = vec![None; stub.len()];
    for fre in function.fres() {
        let fre = match fre {
            Ok(fre) => fre,
            Err(error) => return Content::Malformed(TableAnswer::Malformed(error)),
        };
        let start = fre.start.0 as usize;
        if start < stub.len() {
            (stub[start], starts[start]) = (answer(&fre, function, flags), Some(start));
        }
    }
    for at in 1..stub.len() {
        if starts[at].is_none() {
            starts[at] = if starts_are_masks { by_mask(&starts, at) } else { starts[at - 1] };
            stub[at] = starts[at].map_or(TableAnswer::Nothing, |start| stub[start]);
        }
    }
    Content::Stub(stub)
}

/// The row of version 1 for an offset that no row starts at, from those for the offsets before it: of the
/// rows that start at some of its bits the last.
fn by_mask(starts: &[Option<usize>], at: usize) -> Option<usize> {
    let one_bit_less = (0..u8::BITS).map(|bit| at & !(1 << bit)).filter(|&less| less != at);
    one_bit_less.map(|less| starts[less]).max().flatten()
}
