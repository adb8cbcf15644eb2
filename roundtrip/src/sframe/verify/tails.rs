//! The PCs that a function has after another one that lies inside it. No search by start address finds it for
//! them, in a table either unless its maker cut the function: a table need not answer for them, but truly if
//! it does.

use std::iter::Peekable;
use std::mem;
use std::ops::Range;

use cfipack_format::Address;

use super::part::{Part, Tally};
use crate::cfi::{Answer, Flags, Function, Functions};
use crate::sframe::cursor::Cursor;
use crate::sframe::repeat::answered;
use crate::sframe::table::Table;

/// The tails of a function that have not been judged.
pub(super) struct Tails<'v, 't, I: Iterator> {
    /// One past the last PC.
    end: u64,
    rest: Peekable<I>,
    /// For tails only: what the next function's CFI describes comes before them. None if there are none.
    cursor: Option<Box<Cursor<'v, 't>>>,
}

impl<'v, 't> Tails<'v, 't, std::iter::Empty<Range<u64>>> {
    pub(super) fn of<'f, 'a>(
        function: &Function,
        functions: &'f Functions<'a>,
        tables: &'v Table<'t>,
    ) -> Tails<'v, 't, impl Iterator<Item = Range<u64>> + use<'f, 'a>> {
        let tails = functions.tails(function);
        let (first, end) = (tails.clone().next(), functions.with_tails(function).end.0);
        let cursor = first.map(|first| Box::new(tables.cursor_at(first.start)));
        Tails { end, rest: tails.peekable(), cursor }
    }
}

impl<I: Iterator<Item = Range<u64>>> Tails<'_, '_, I> {
    /// The function up to the end of its last tail.
    pub(super) fn with(&self, function: &Function) -> Function {
        Function { end: Address(self.end), ..*function }
    }
}

impl<'v, 't> Part<'v, 't> {
    /// Compares the PCs of a range that belong to tails.
    pub(super) fn compare_tails(
        &mut self,
        function: &Function,
        range: Range<u64>,
        answer: &Answer,
        flags: Flags,
        tails: &mut Tails<'v, 't, impl Iterator<Item = Range<u64>>>,
        tally: &mut Tally,
    ) {
        let Some(cursor) = &mut tails.cursor else { return };
        while let Some(tail) = tails.rest.peek_mut().filter(|tail| tail.start < range.end) {
            let pcs = tail.start.max(range.start)..tail.end.min(range.end);
            tail.start = pcs.end;
            if tail.start == tail.end {
                tails.rest.next();
            }
            let mut here = Tally::default();
            mem::swap(&mut self.cursor, cursor);
            self.compare(function, pcs, answer, flags, &mut here);
            mem::swap(&mut self.cursor, cursor);
            self.found.counts.pcs += here.equal + here.different;
            self.found.counts.pcs_hidden += here.missing;
            tally.equal += here.equal;
            tally.different += here.different;
        }
    }

    /// Counts the PCs of the tails that are left: what the table answers for them cannot be judged. Returns for
    /// how many it does.
    pub(super) fn unjudged_tails(&mut self, tails: Tails<'_, '_, impl Iterator<Item = Range<u64>>>) -> u64 {
        let Some(mut cursor) = tails.cursor else { return 0 };
        let mut all_in_table = 0;
        for tail in tails.rest {
            let mut pc = tail.start;
            while pc < tail.end {
                let segment = cursor.seek(pc);
                let end = segment.end.min(tail.end);
                let in_table = match segment.function {
                    Some(_) => answered(pc..end, &segment),
                    None => 0,
                };
                self.found.counts.pcs += in_table;
                self.found.counts.pcs_unjudged += in_table;
                self.found.counts.pcs_unjudged_in_table += in_table;
                all_in_table += in_table;
                self.found.counts.pcs_hidden += end - pc - in_table;
                pc = end;
            }
        }
        all_in_table
    }

    /// PCs for which there is no CFI, in a range between two functions and around the tails in it.
    pub(super) fn gaps(&mut self, range: Range<u64>, tails: &mut Peekable<impl Iterator<Item = Range<u64>>>) {
        let mut start = range.start;
        while let Some(tail) = tails.next_if(|tail| tail.start < range.end) {
            self.gap(start..tail.start);
            start = tail.end;
        }
        self.gap(start..range.end);
    }
}
