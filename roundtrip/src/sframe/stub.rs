//! The answers of a PC-mask function: rows that repeat after some bytes.

use cfipack_decoder::sframe::Function;
use cfipack_format::FunctionOffset;
use cfipack_format::widen::ToUsize;

use super::cursor::answer;
use super::table::TableAnswer;
use crate::cfi::Flags;

/// The answers of one repetition, by row.
#[derive(Debug)]
pub(crate) struct Stub {
    /// Start of the function.
    start: u64,
    /// Bytes of a repetition, at least 1.
    period: u64,
    /// From which byte of a repetition on which answer holds, ascending from 0.
    rows: Vec<(u64, TableAnswer)>,
}

impl Stub {
    /// The answers of a PC-mask function. `starts_are_masks`: as those of version 1 are.
    ///
    /// # Errors
    /// The answer that holds for all PCs of a function that cannot be read.
    pub(crate) fn of(
        function: &Function<'_>,
        starts_are_masks: bool,
        flags: Flags,
    ) -> Result<Self, TableAnswer> {
        // A repetition size of 0 is an error of every lookup.
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
            // Starts ascend; of equal ones the last counts.
            answers.pop_if(|last| last.0 == start);
            if start < period {
                answers.push((start, answer(&fre, function, flags)));
            }
        }
        let rows = if starts_are_masks { by_masks(&answers, period) } else { by_starts(answers) };
        Ok(Self { start: function.start().0, period, rows })
    }

    pub(crate) fn period(&self) -> u64 {
        self.period
    }

    pub(crate) fn at(&self, pc: u64) -> &TableAnswer {
        &self.rows[self.row(pc).0].1
    }

    /// The first PC after `pc` that another row answers for, or that the next repetition starts at.
    pub(crate) fn until(&self, pc: u64) -> u64 {
        let (row, offset) = self.row(pc);
        let end = self.rows.get(row + 1).map_or(self.period, |next| next.0);
        pc.saturating_add(end - offset)
    }

    /// The row for a PC, and how far into a repetition the PC lies.
    fn row(&self, pc: u64) -> (usize, u64) {
        let offset = pc.wrapping_sub(self.start) % self.period;
        (self.rows.partition_point(|row| row.0 <= offset).saturating_sub(1), offset)
    }
}

/// The last row that starts at or before an offset answers for it.
fn by_starts(mut answers: Vec<(u64, TableAnswer)>) -> Vec<(u64, TableAnswer)> {
    if answers.first().is_none_or(|first| first.0 != 0) {
        answers.insert(0, (0, TableAnswer::Nothing));
    }
    answers
}

/// The rule of version 1: of the rows that start at some of an offset's bits the last answers for it.
fn by_masks(answers: &[(u64, TableAnswer)], period: u64) -> Vec<(u64, TableAnswer)> {
    let mut found: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<(u64, TableAnswer)> = Vec::new();
    for offset in 0..period {
        let own = answers.binary_search_by_key(&offset, |answer| answer.0).ok();
        let one_bit_less = (0..u8::BITS).map(|bit| offset & !(1 << bit)).filter(|&less| less != offset);
        let row = own.or_else(|| one_bit_less.map(|less| found[less.to_usize()]).max().flatten());
        if found.last() != Some(&row) {
            rows.push((offset, row.map_or(TableAnswer::Nothing, |row| answers[row].1)));
        }
        found.push(row);
    }
    rows
}
