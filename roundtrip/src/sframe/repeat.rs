//! PCs whose answers repeat: PLT stubs. One period is looked at, and counted as often as it recurs, so that
//! a table or CFI that merely claims gigabytes of stubs costs nothing.

use std::fmt;
use std::ops::Range;

use super::cursor::Segment;
use super::table::TableAnswer;

/// The recurrence of what holds for some PCs further on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Recurrence {
    /// Bytes from one time to the next.
    pub period: u64,
    /// The number of times in all, at least 1.
    pub times: u64,
}

impl Recurrence {
    pub(crate) const ONCE: Self = Self { period: 1, times: 1 };
}

/// Prints the recurrence as the end of a sentence, which is nothing if it does not recur.
impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { period, times } = self;
        match times {
            1 => Ok(()),
            _ => write!(f, "; so every {period} bytes, {times} times in all"),
        }
    }
}

/// Calls `visit` for the range if its answers do not repeat, of period 1; else for each part of one period
/// in which one answer holds, with the number of periods, and for each such part of the rest. `until` returns
/// how far the answer of a PC holds.
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

/// The number of a segment's PCs for which the table answers.
pub(crate) fn answered(range: Range<u64>, segment: &Segment<'_>) -> u64 {
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

/// The least common multiple of two periods.
pub(crate) fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
