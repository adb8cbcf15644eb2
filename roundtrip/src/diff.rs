//! Two tables by meaning.

use std::fmt;
use std::ops::Range;

use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch};

use crate::compare::same_answer;
use crate::repeat::{each_pc, lcm};
use crate::table::{Table, TableAnswer};
use crate::verify::Options;
use crate::words::Answered;

/// What comparing table `a` with table `b` found, by [`diff`] or [`unwind_info::diff`](crate::unwind_info::diff).
/// A function is here what a table has an index entry for: an FDE of `.sframe`, an entry of `__unwind_info`.
/// How the tables are cut into them does not matter: what was merged or split and answers alike is equal.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Diff {
    /// Functions of `a` for which `b` says the same at every PC.
    pub equal: u64,
    /// Functions of `a` for which `b` says something else, or nothing, at some PC.
    pub different: u64,
    /// Functions of `a` for none of whose PCs `b` has an answer.
    pub only_a: u64,
    /// Functions of `b` for none of whose PCs `a` has an answer.
    pub only_b: u64,
    /// What cannot be read in either table.
    pub malformed: u64,
    /// PCs for which both tables say the same.
    pub pcs_equal: u64,
    /// PCs for which both tables have an answer, and not the same one.
    pub pcs_different: u64,
    /// PCs for which only `a` has an answer.
    pub pcs_only_a: u64,
    /// PCs for which only `b` has an answer.
    pub pcs_only_b: u64,
    /// The first differences in order of address, at most [`Options::limit`].
    pub differences: Vec<TableDifference>,
    /// Differences behind those.
    pub more_differences: u64,
}

impl Diff {
    /// Whether both tables answer alike for every PC.
    pub fn is_equal(&self) -> bool {
        self.pcs_different == 0 && self.pcs_only_a == 0 && self.pcs_only_b == 0 && self.malformed == 0
    }
}

/// Some PCs for which two tables differ in one way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableDifference {
    /// Start of the function in table `a`, or in `b` if there is none in `a`.
    pub function: Address,
    /// First PC.
    pub start: Address,
    /// One past the last PC. In a PC-mask function the difference may recur further on; the counts know.
    pub end: Address,
    /// What table `a` says, in words.
    pub a: String,
    /// What table `b` says.
    pub b: String,
}

impl TableDifference {
    fn is_continued_by(&self, next: &Self) -> bool {
        self.end == next.start && (self.function, &self.a, &self.b) == (next.function, &next.a, &next.b)
    }
}

impl fmt::Display for TableDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, start, end, .. } = self;
        write!(f, "{start}..{end} in the function at {function}: {}", self.words())
    }
}

impl TableDifference {
    /// What both say, without the place.
    pub fn words(&self) -> String {
        format!("A says {}; B says {}", self.a, self.b)
    }
}

/// What has been seen of a function's PCs.
#[derive(Clone, Copy, Default)]
struct Seen {
    place: Option<usize>,
    alike: bool,
    met: bool,
}

impl Seen {
    fn at(place: Option<usize>) -> Self {
        Self { place, alike: true, met: false }
    }
}

/// Compares what two tables say, at every PC for which either has a row.
/// Of [`Options`], only the limit matters.
pub fn diff(a: &Table<'_>, b: &Table<'_>, options: &Options) -> Diff {
    let mut diff = Diff { malformed: (a.malformed().len() + b.malformed().len()) as u64, ..Diff::default() };
    let arch = a.arch().or(b.arch()).unwrap_or(Arch::Amd64);
    let signals = [a, b].iter().all(|table| table.version() == Some(Version::V3));
    let (mut cursor_a, mut cursor_b) = (a.cursor(), b.cursor());
    let (mut in_a, mut in_b) = (Seen::default(), Seen::default());
    let mut pc = 0;
    while pc < u64::MAX {
        let (segment_a, segment_b) = (cursor_a.seek(pc), cursor_b.seek(pc));
        if segment_a.function != in_a.place {
            diff.leave_a(in_a);
            in_a = Seen::at(segment_a.function);
        }
        if segment_b.function != in_b.place {
            diff.leave_b(in_b);
            in_b = Seen::at(segment_b.function);
        }
        let end = segment_a.end.min(segment_b.end);
        if segment_a.function.is_some() || segment_b.function.is_some() {
            let extent = |table: &Table<'_>, place: Option<usize>| table.extent(place?);
            let extent = extent(a, segment_a.function).or_else(|| extent(b, segment_b.function));
            let function = extent.map(|extent| extent.start);
            let mut judge = |start: u64, end: u64, times: u64, a: &TableAnswer, b: &TableAnswer| {
                let pcs = (end - start) * times;
                let nothing = &TableAnswer::Nothing;
                if same_answer(a, b, arch, signals) {
                    diff.pcs_equal += if a == nothing { 0 } else { pcs };
                    in_a.met |= a != nothing;
                    in_b.met |= a != nothing;
                    return;
                }
                in_a.alike = false;
                let count = match (a == nothing, b == nothing) {
                    (false, true) => &mut diff.pcs_only_a,
                    (true, _) => &mut diff.pcs_only_b,
                    (false, false) => {
                        (in_a.met, in_b.met) = (true, true);
                        &mut diff.pcs_different
                    }
                };
                *count += pcs;
                diff.describe(options.limit, function.unwrap_or(start), start..end, || {
                    let words = |own: &TableAnswer, other: &TableAnswer| {
                        Answered { arch, own: *own, other: *other }.to_string()
                    };
                    [words(a, b), words(b, a)]
                });
            };
            match lcm(segment_a.period(), segment_b.period()) {
                1 => judge(pc, end, 1, segment_a.at(pc), segment_b.at(pc)),
                period => each_pc(pc..end, period, |pc, times| {
                    judge(pc, pc + 1, times, segment_a.at(pc), segment_b.at(pc));
                }),
            }
        }
        pc = end;
    }
    diff.leave_a(in_a);
    diff.leave_b(in_b);
    diff.differences.truncate(options.limit);
    diff
}

impl Diff {
    fn leave_a(&mut self, seen: Seen) {
        if seen.place.is_some() {
            self.count_of_a(seen.alike, seen.met);
        }
    }

    fn leave_b(&mut self, seen: Seen) {
        if seen.place.is_some() {
            self.count_of_b(seen.met);
        }
    }

    /// Counts a function of table `a`: whether `b` says the same throughout, and anything at all.
    pub(crate) fn count_of_a(&mut self, is_alike: bool, is_met: bool) {
        match (is_alike, is_met) {
            (true, _) => self.equal += 1,
            (false, true) => self.different += 1,
            (false, false) => self.only_a += 1,
        }
    }

    /// Counts a function of table `b`, for which `a` says anything or nothing.
    pub(crate) fn count_of_b(&mut self, is_met: bool) {
        if !is_met {
            self.only_b += 1;
        }
    }

    /// Keeps a difference, as part of the last one if it is its continuation; one more than `limit`, which
    /// the caller takes away when all are known.
    pub(crate) fn describe(
        &mut self,
        limit: usize,
        function: u64,
        pcs: Range<u64>,
        words: impl FnOnce() -> [String; 2],
    ) {
        let (function, start, end) = (Address(function), Address(pcs.start), Address(pcs.end));
        let [a, b] = words();
        let difference = TableDifference { function, start, end, a, b };
        let kept = self.differences.len();
        match self.differences.last_mut() {
            Some(last) if last.is_continued_by(&difference) => last.end = end,
            // Of those that are only counted, the last is kept to know what continues it.
            Some(last) if kept > limit => {
                *last = difference;
                self.more_differences += 1;
            }
            _ => {
                self.differences.push(difference);
                self.more_differences += u64::from(kept >= limit);
            }
        }
    }
}
