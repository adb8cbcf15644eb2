//! A walk over the answers of a table, in ascending order of address.
//!
//! - [`Cursor`]: the position in a table. [`Cursor::seek`] returns the answer for a PC.
//! - [`Segment`]: the answer, and how far it holds. In a PC-mask function the answers repeat, and the segment covers
//!   all repetitions.
//! - `Walk`: the rows of an ordinary function. `Stub`: the rows of a PC-mask function.

use std::collections::HashMap;
use std::ops::Range;

use cfipack_decoder::sframe::{Fre, Fres, Function, Section};
use cfipack_format::FunctionOffset;
use cfipack_format::widen::ToUsize;

use super::table::{Table, TableAnswer};
use crate::cfi::Flags;

impl<'t> Table<'t> {
    /// Starts a walk at the table's first PC.
    pub fn cursor(&self) -> Cursor<'_, 't> {
        Cursor { table: self, at: 0, open: None, set_aside: HashMap::new() }
    }

    /// Starts a walk at a PC.
    pub(crate) fn cursor_at(&self, pc: u64) -> Cursor<'_, 't> {
        let at = self.entries.partition_point(|entry| entry.end <= pc);
        Cursor { table: self, at, open: None, set_aside: HashMap::new() }
    }
}

/// A position in a table. It only moves forward.
#[derive(Debug)]
pub struct Cursor<'c, 't> {
    table: &'c Table<'t>,
    at: usize,
    open: Option<Open<'t>>,
    /// Functions that the walk has left before their last piece, by the place of their first piece. They resume where
    /// they stopped. A walk from the function's start for each piece would take quadratic time.
    set_aside: HashMap<usize, Open<'t>>,
}

/// The function that is being walked.
#[derive(Debug)]
struct Open<'t> {
    /// The place of the current piece. For a function that is set aside, the place of the piece before the
    /// interruption.
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
    /// The rows of an ordinary function.
    Rows(Walk<'t>),
    /// The rows of a PC-mask function, which repeat.
    Stub(Stub),
    Malformed(TableAnswer),
}

/// The rows of an ordinary function. `answers` holds two answers: the current answer, which ends at `next_start`, and
/// the next answer, which is read ahead. `next_start` counts from the function's start.
#[derive(Debug)]
struct Walk<'t> {
    function: Function<'t>,
    fres: Fres<'t>,
    answers: [TableAnswer; 2],
    /// The index in `answers` of the answer that is read ahead.
    next: usize,
    next_start: u64,
}

/// A range of PCs for which the table has one answer, or answers that repeat.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Segment<'s> {
    /// One past the last PC.
    pub end: u64,
    /// The place of the function in the table, or `None` if no function has these PCs. All pieces of a function have
    /// the same place.
    pub function: Option<usize>,
    /// The place of the piece.
    pub(crate) piece: usize,
    answers: Answers<'s>,
}

#[derive(Clone, Copy, Debug)]
enum Answers<'s> {
    One(&'s TableAnswer),
    Stub(&'s Stub),
}

impl<'s> Segment<'s> {
    /// Returns after how many bytes the answers repeat. A period of 1 means that there is only one answer.
    #[inline]
    pub fn period(&self) -> u64 {
        match self.answers {
            Answers::One(_) => 1,
            Answers::Stub(stub) => stub.period,
        }
    }

    /// Returns the answer for a PC of the segment.
    #[inline]
    pub fn at(&self, pc: u64) -> &'s TableAnswer {
        match self.answers {
            Answers::One(answer) => answer,
            Answers::Stub(stub) => stub.at(pc),
        }
    }

    /// Returns a PC up to which the answer at `pc` holds. It may hold longer.
    #[inline]
    pub fn until(&self, pc: u64) -> u64 {
        match self.answers {
            Answers::One(_) => self.end,
            Answers::Stub(stub) => stub.until(pc).min(self.end),
        }
    }
}

impl<'t> Cursor<'_, 't> {
    /// Returns the table's answer from `pc` on. `pc` must not be less than in the call before.
    #[inline]
    pub fn seek(&mut self, pc: u64) -> Segment<'_> {
        self.skip_to(pc);
        let piece = self.at;
        let nothing =
            |end| Segment { end, function: None, piece, answers: Answers::One(&TableAnswer::Nothing) };
        let Some(entry) = self.table.entries.get(self.at) else { return nothing(u64::MAX) };
        if pc < entry.from {
            return nothing(entry.from);
        }
        if self.open.as_ref().is_none_or(|open| open.at != self.at) {
            self.open = Some(self.opened());
        }
        let Some(open) = &mut self.open else { return nothing(entry.end) };
        let (end, answers) = open.seek(pc, entry.end);
        Segment { end, function: Some(self.table.first_piece(piece)), piece, answers }
    }

    /// Returns the function that has exactly these PCs, with the index of its table. Returns `None` if no function
    /// has them, or if its rows repeat. `pcs` must not be before the PCs of the last call of this function or of
    /// [`seek`](Self::seek).
    pub(crate) fn whole(&mut self, pcs: Range<u64>) -> Option<(u32, Function<'t>)> {
        self.skip_to(pcs.start);
        let entry = self.table.entries.get(self.at)?;
        if entry.from != pcs.start || entry.end != pcs.end {
            return None;
        }
        let function =
            self.table.sections[entry.section.to_usize()].function(entry.index.to_usize())?.ok()?;
        let is_whole = function.start().0 == pcs.start && u64::from(function.size()) == pcs.end - pcs.start;
        (is_whole && !function.is_pc_mask()).then_some((entry.section, function))
    }

    /// Skips the pieces that end at or before a PC.
    #[inline]
    fn skip_to(&mut self, pc: u64) {
        while self.table.entries.get(self.at).is_some_and(|entry| entry.end <= pc) {
            self.at += 1;
        }
    }

    /// Opens the function of the current piece, or resumes it if it was set aside.
    fn opened(&mut self) -> Open<'t> {
        let table = self.table;
        if let Some(left) = self.open.take()
            && table.has_pieces_after(left.at)
        {
            self.set_aside.insert(table.first_piece(left.at), left);
        }
        if !self.set_aside.is_empty()
            && let Some(open) = self.set_aside.remove(&table.first_piece(self.at))
        {
            let [from, last] = [self.at, open.at].map(|at| table.entries[at].from.wrapping_sub(open.start));
            // A function that continues after the last address has the PCs of its last rows in its first piece. Its
            // other pieces are before these rows, so the function is opened again.
            if from >= last {
                return Open { at: self.at, ..open };
            }
        }
        Open::new(table, self.at)
    }
}

impl<'t> Open<'t> {
    fn new(table: &Table<'t>, at: usize) -> Self {
        let entry = table.entries[at];
        let section = &table.sections[entry.section.to_usize()];
        let function = match section.function(entry.index.to_usize()) {
            Some(Ok(function)) => function,
            error => {
                let answer = error.and_then(Result::err).map_or(TableAnswer::Nothing, TableAnswer::Malformed);
                let content = Content::Malformed(answer);
                return Self { at, start: entry.from, flags: Flags::default(), content };
            }
        };
        let flags = flags(section, &function);
        let start = function.start().0;
        let content = if function.is_pc_mask() {
            match Stub::read(&function, !section.version().has_repetition_size(), flags) {
                Ok(stub) => Content::Stub(stub),
                Err(answer) => Content::Malformed(answer),
            }
        } else {
            let answers = [TableAnswer::Nothing; 2];
            let mut walk = Walk { function, fres: function.fres(), answers, next: 1, next_start: 0 };
            walk.read_ahead(flags);
            Content::Rows(walk)
        };
        Self { at, start, flags, content }
    }

    #[inline]
    fn seek(&mut self, pc: u64, end: u64) -> (u64, Answers<'_>) {
        match &mut self.content {
            Content::Rows(walk) => {
                // Compares offsets, not addresses: the function may continue after the last address.
                let offset = pc.wrapping_sub(self.start);
                while walk.next_start <= offset {
                    walk.next ^= 1;
                    walk.read_ahead(self.flags);
                }
                let next = pc.saturating_add(walk.next_start - offset);
                (end.min(next), Answers::One(&walk.answers[walk.next ^ 1]))
            }
            Content::Stub(stub) => (end, Answers::Stub(stub)),
            Content::Malformed(answer) => (end, Answers::One(answer)),
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
            // The start of a malformed row is unknown. So the end of the row before it is unknown too.
            Some(Err(error)) => {
                self.next_start = 0;
                self.answers[self.next] = TableAnswer::Malformed(error);
            }
            None => self.next_start = u64::MAX,
        }
    }
}

/// Returns the flags for all rows of a function. They depend on the version of its table: a file may have tables of
/// several versions.
pub(crate) fn flags(section: &Section<'_>, function: &Function<'_>) -> Flags {
    let signal = section.version().has_signal_frames().then(|| function.is_signal_frame());
    Flags { signal, key_b: function.has_pauth_key_b() }
}

/// Returns the answer that an FRE encodes. The FRE has known PCs even if its row is malformed.
#[inline]
fn answer(fre: &Fre, function: &Function<'_>, flags: Flags) -> TableAnswer {
    match fre.row(function) {
        Ok(row) => TableAnswer::Row(row, flags),
        Err(error) => TableAnswer::Malformed(error),
    }
}

/// The answers of a PC-mask function, for one repetition.
#[derive(Debug)]
struct Stub {
    /// The start of the function.
    start: u64,
    /// The length of a repetition in bytes, at least 1.
    period: u64,
    /// The answers. Each has the offset in a repetition from which it holds. In ascending order from offset 0.
    rows: Vec<(u64, TableAnswer)>,
}

impl Stub {
    /// Reads the answers of a PC-mask function. `starts_are_masks` is true for version 1.
    ///
    /// # Errors
    /// Returns the answer for all PCs of a function that cannot be read.
    fn read(function: &Function<'_>, starts_are_masks: bool, flags: Flags) -> Result<Self, TableAnswer> {
        // With a repetition size of 0, every lookup is an error.
        if function.rep_size() == 0
            && let Err(error) = function.lookup(FunctionOffset(0))
        {
            return Err(TableAnswer::Malformed(error));
        }
        let period = u64::from(function.rep_size()).max(1);
        let mut answers: Vec<(u64, TableAnswer)> = Vec::new();
        for fre in function.fres() {
            let fre = fre.map_err(TableAnswer::Malformed)?;
            let start = u64::from(fre.start.0);
            // The starts ascend. If two are equal, the last row counts.
            answers.pop_if(|last| last.0 == start);
            if start < period {
                answers.push((start, answer(&fre, function, flags)));
            }
        }
        let rows = if starts_are_masks { by_masks(&answers, period) } else { by_starts(answers) };
        Ok(Self { start: function.start().0, period, rows })
    }

    fn at(&self, pc: u64) -> &TableAnswer {
        &self.rows[self.row(pc).0].1
    }

    /// Returns the first PC after `pc` at which another row or the next repetition starts.
    fn until(&self, pc: u64) -> u64 {
        let (row, offset) = self.row(pc);
        let end = self.rows.get(row + 1).map_or(self.period, |next| next.0);
        pc.saturating_add(end - offset)
    }

    /// Returns the row for a PC, and the offset of the PC in its repetition.
    fn row(&self, pc: u64) -> (usize, u64) {
        let offset = pc.wrapping_sub(self.start) % self.period;
        (self.rows.partition_point(|row| row.0 <= offset).saturating_sub(1), offset)
    }
}

/// Adds an empty answer at offset 0 if no row starts there. The last row that starts at or before an offset answers for
/// it.
fn by_starts(mut answers: Vec<(u64, TableAnswer)>) -> Vec<(u64, TableAnswer)> {
    if answers.first().is_none_or(|first| first.0 != 0) {
        answers.insert(0, (0, TableAnswer::Nothing));
    }
    answers
}

/// Applies the rule of version 1: the start of a row is a mask. A row matches an offset if all bits of its start are
/// set in the offset. The last matching row answers.
fn by_masks(answers: &[(u64, TableAnswer)], period: u64) -> Vec<(u64, TableAnswer)> {
    let mut found: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<(u64, TableAnswer)> = Vec::new();
    for offset in 0..period {
        let one_bit_less = (0..u8::BITS).map(|bit| offset & !(1 << bit)).filter(|&less| less != offset);
        let row = match answers.binary_search_by_key(&offset, |answer| answer.0) {
            Ok(own) => Some(own),
            // A row with another start that matches the offset also matches the offset without one of its bits.
            Err(_) => one_bit_less.map(|less| found[less.to_usize()]).max().flatten(),
        };
        if found.last() != Some(&row) {
            rows.push((offset, row.map_or(TableAnswer::Nothing, |row| answers[row].1)));
        }
        found.push(row);
    }
    rows
}
