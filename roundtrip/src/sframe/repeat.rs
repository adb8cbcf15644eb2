//! PCs whose answers repeat, as the stubs of a PLT do.
//!
//! This module looks at one period and multiplies by the number of periods. So a table or CFI that claims gigabytes of
//! stubs costs no time.

use std::fmt;
use std::ops::Range;

use super::cursor::Segment;
use super::table::TableAnswer;

/// Says how often a finding recurs at higher addresses, for example once in every stub of a PLT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Recurrence {
    /// The distance from one occurrence to the next, in bytes.
    pub period: u64,
    /// The number of occurrences, at least 1.
    pub times: u64,
}

impl Recurrence {
    pub(crate) const ONCE: Self = Self { period: 1, times: 1 };
}

/// Prints the recurrence as the end of a sentence, or nothing if there is only one occurrence.
impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { period, times } = self;
        match times {
            1 => Ok(()),
            _ => write!(f, "; so every {period} bytes, {times} times in all"),
        }
    }
}

/// Splits a range into pieces in which one answer holds, and calls `visit` for each piece.
///
/// A `period` of 1 means that the answers do not repeat: `visit` gets the whole range. Otherwise this function visits
/// the pieces of the first period, with the number of periods, and then the pieces of the rest that is shorter than a
/// period. `until` returns the end of the PCs that have the same answer as a PC.
#[inline]
pub(crate) fn each_piece(
    range: Range<u64>,
    period: u64,
    until: impl Fn(u64) -> u64,
    mut visit: impl FnMut(Range<u64>, Recurrence),
) {
    if period == 1 {
        return visit(range, Recurrence::ONCE);
    }
    let times = (range.end - range.start) / period;
    let rest = range.start + times * period;
    let repeated = if times == 0 { range.start } else { range.start + period };
    let parts = [(range.start..repeated, Recurrence { period, times }), (rest..range.end, Recurrence::ONCE)];
    for (part, recurrence) in parts {
        let mut pc = part.start;
        while pc < part.end {
            let end = until(pc).min(part.end);
            visit(pc..end, recurrence);
            pc = end;
        }
    }
}

/// Counts the PCs of a range in a segment for which the table answers.
pub(crate) fn count_answered(range: Range<u64>, segment: &Segment<'_>) -> u64 {
    let mut pcs = 0;
    each_piece(
        range,
        segment.period(),
        |pc| segment.until(pc),
        |range, recurrence| {
            if *segment.at(range.start) != TableAnswer::Nothing {
                pcs += (range.end - range.start) * recurrence.times;
            }
        },
    );
    pcs
}

/// Returns the least common multiple of two periods.
pub(crate) fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
