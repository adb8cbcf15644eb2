//! Compares two tables of compact unwind by meaning.

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Row, Saved};

use super::words::MeaningWords;
use super::{Entry, Meaning, Table};
use crate::limited::Limited;
use crate::options::Options;
use crate::same_row::same_row;
use crate::sframe::Recurrence;
use crate::{Diff, TableDifference};

/// The answer of a table for a range of PCs.
#[derive(Clone, Copy)]
struct InTable<'t> {
    entry: Option<&'t Entry>,
    meaning: Meaning,
}

/// A walk over a table, with the result for its current entry.
struct Side<'t> {
    table: &'t Table<'t>,
    next: usize,
    /// True while the other table has agreed about all PCs of the entry.
    is_alike: bool,
    /// True if the other table has an answer for at least one PC of the entry.
    is_met: bool,
}

impl<'t> Side<'t> {
    fn new(table: &'t Table<'t>) -> Self {
        Self { table, next: 0, is_alike: true, is_met: false }
    }

    /// Returns the table's answer for a PC, and the end of the range in which it holds.
    fn at(&self, pc: u64) -> (InTable<'t>, u64) {
        let nothing = InTable { entry: None, meaning: Meaning::Nothing };
        match self.table.entries.get(self.next) {
            None => (nothing, u64::MAX),
            Some(entry) if pc < entry.start.0 => (nothing, entry.start.0),
            Some(entry) => (InTable { entry: Some(entry), meaning: self.table.meaning(entry) }, entry.end.0),
        }
    }

    /// Goes on to the next entry if the current entry ends at `pc`. Returns the result for the entry that was left.
    fn finish_entry(&mut self, pc: u64, in_table: &InTable<'_>) -> Option<(bool, bool)> {
        let entry = in_table.entry?;
        if entry.end.0 > pc {
            return None;
        }
        let met = (self.is_alike, self.is_met);
        self.next += 1;
        (self.is_alike, self.is_met) = (true, false);
        (in_table.meaning != Meaning::Nothing).then_some(met)
    }
}

/// Compares two tables side by side. The number that stands for a personality does not matter. An entry without unwind
/// information counts as no entry.
pub fn diff(a: &Table<'_>, b: &Table<'_>, options: &Options) -> Diff {
    let malformed = (a.errors().len() + b.errors().len()).to_u64();
    let mut diff = Diff { malformed, ..Diff::default() };
    let (mut side_a, mut side_b) = (Side::new(a), Side::new(b));
    let mut differences = Limited::new(options.limit);
    let mut pc = 0;
    while pc < u64::MAX {
        let ((in_a, end_a), (in_b, end_b)) = (side_a.at(pc), side_b.at(pc));
        let end = end_a.min(end_b);
        let has = [in_a.meaning != Meaning::Nothing, in_b.meaning != Meaning::Nothing];
        let same = is_same(a.arch, &in_a, &in_b);
        let count = match has {
            [false, false] => None,
            [true, false] => Some(&mut diff.pcs_only_a),
            [false, true] => Some(&mut diff.pcs_only_b),
            [true, true] if same => Some(&mut diff.pcs_equal),
            [true, true] => Some(&mut diff.pcs_different),
        };
        if let Some(count) = count {
            *count += end - pc;
        }
        if !same {
            side_a.is_alike = false;
            let entry = in_a.entry.or(in_b.entry);
            let function = entry.map_or(pc, |entry| entry.start.0);
            differences.add(TableDifference {
                function: Address(function),
                start: Address(pc),
                end: Address(end),
                recurrence: Recurrence::ONCE,
                only_in: only_in(&in_a, &in_b, pc, end),
                a: words(a.arch, &in_a),
                b: words(a.arch, &in_b),
                rows: [&in_a, &in_b].map(rows),
            });
        }
        side_a.is_met |= has[1];
        side_b.is_met |= has[0];
        if let Some((is_alike, is_met)) = side_a.finish_entry(end, &in_a) {
            diff.count_of_a(is_alike, is_met);
        }
        if let Some((_, is_met)) = side_b.finish_entry(end, &in_b) {
            diff.count_of_b(is_met);
        }
        pc = end;
    }
    (diff.differences, diff.more_differences) = differences.finish();
    diff
}

fn is_same(arch: Arch, a: &InTable<'_>, b: &InTable<'_>) -> bool {
    let unwinds_alike = match (a.meaning, b.meaning) {
        (Meaning::Row(a, a_saved), Meaning::Row(b, b_saved)) => {
            let (a_saved, b_saved) = (a_saved.as_slice(), b_saved.as_slice());
            same_row(&a, &b, arch)
                && a_saved.len() == b_saved.len()
                && a_saved.iter().all(|slot| b_saved.contains(slot))
        }
        // An FDE describes the rest itself, so the offset at which readers look for it does not matter.
        (Meaning::Dwarf, Meaning::Dwarf) | (Meaning::Nothing, Meaning::Nothing) => return true,
        (a, b) => a == b,
    };
    let handler = |in_table: &InTable<'_>| {
        let entry = in_table.entry?;
        // Offsets in an LSDA count from the entry's start.
        Some((entry.personality, entry.lsda.map(|lsda| (lsda, entry.start))))
    };
    unwinds_alike && handler(a) == handler(b)
}

/// Returns the side that has an entry for exactly these PCs, if the other side has nothing for them.
fn only_in(a: &InTable<'_>, b: &InTable<'_>, start: u64, end: u64) -> Option<crate::Side> {
    let (side, entry) = match (a.meaning, b.meaning) {
        (_, Meaning::Nothing) => (crate::Side::A, a.entry?),
        (Meaning::Nothing, _) => (crate::Side::B, b.entry?),
        _ => return None,
    };
    ((entry.start.0, entry.end.0) == (start, end)).then_some(side)
}

fn rows(in_table: &InTable<'_>) -> Vec<(Row, Saved)> {
    match in_table.meaning {
        Meaning::Row(row, saved) => vec![(row, saved)],
        _ => Vec::new(),
    }
}

fn words(arch: Arch, in_table: &InTable<'_>) -> String {
    let mut words = MeaningWords(arch, in_table.meaning).to_string();
    let Some(entry) = in_table.entry.filter(|_| in_table.meaning != Meaning::Dwarf) else { return words };
    if entry.personality != 0 {
        words += &format!(", personality {:#x}", entry.personality);
    }
    if let Some(lsda) = entry.lsda {
        words += &format!(", LSDA {lsda} counted from {}", entry.start);
    }
    words
}
