//! The report of a verification: counts, differences and their words.
//!
//! - [`Report`]: the counts of functions and PCs, and the first differences.
//! - [`Difference`]: a range of PCs for which table and CFI differ, and [`ListedDifference`], its serialized form.
//! - [`Unverified`]: a function that the table lacks or that gimli cannot judge.

use std::collections::BTreeMap;
use std::fmt;

use cfipack_format::{Address, Arch, RuleWords};

use super::fault::Fault;
use super::repeat::Recurrence;
use super::table::TableAnswer;
use crate::cfi::{Answer, Flags};
use crate::limited::Piece;
use crate::words::Answered;

/// The result of holding a table against CFI. Functions are FDEs of the CFI, PCs are bytes of code.
///
/// `pcs` is the sum of `pcs_equal`, `pcs_different`, `pcs_missing`, `pcs_unjudged`, `pcs_padding` and
/// `pcs_judged`;
/// `functions` that of `equal`, `different`, `missing` and `unjudged`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// Functions of the CFI; several FDEs for one address are one function.
    pub functions: u64,
    /// Functions for which table and CFI agree at every PC; those without code among them.
    pub equal: u64,
    /// Functions with a PC for which they differ.
    pub different: u64,
    /// Functions with a PC for which the table has no row though the CFI has one, and no different PC.
    pub missing: u64,
    /// Functions of `missing` for which the caller of [`verify_with_reasons`](crate::verify_with_reasons) has no
    /// reason: omitted without a report. Without a caller who knows the reasons, all of `missing`.
    pub unexplained: u64,
    /// Functions that gimli cannot evaluate to their end, and that do not differ up to there; and those of
    /// which FDEs with one start disagree.
    pub unjudged: u64,
    /// Functions of `unjudged` for which the table answers at a PC that could not be judged: its answer there
    /// is unproven. The others are omitted in the table, which is not wrong about them.
    pub unjudged_in_table: u64,
    /// Functions of `unjudged` whose record cannot be read: where they lie is unknown.
    pub unreadable: u64,
    /// FDEs that start where another one starts; not in `functions`.
    pub duplicates: u64,
    /// Functions of the table that answer for PCs which no function of the CFI has.
    pub extra: u64,
    /// The number of faults of the table: functions that cannot be read, or that no search finds; a wrong number of
    /// FREs in the header; that it is for another architecture.
    pub malformed: u64,
    /// PCs that the table or the CFI covers.
    pub pcs: u64,
    /// PCs for which both agree; also that there is no CFA.
    pub pcs_equal: u64,
    /// PCs for which they differ, `pcs_extra` among them.
    pub pcs_different: u64,
    /// PCs for which the CFI has a row and the table has none.
    pub pcs_missing: u64,
    /// PCs that gimli cannot evaluate, or for which FDEs differ.
    pub pcs_unjudged: u64,
    /// PCs of `pcs_unjudged` for which the table answers.
    pub pcs_unjudged_in_table: u64,
    /// PCs that only the table answers for, outside all functions of the CFI.
    pub pcs_extra: u64,
    /// PCs between two functions of the CFI that are one function in the table: see
    /// [`Options::padding`](crate::Options::padding).
    pub pcs_padding: u64,
    /// PCs that only the table answers for, outside all functions of the CFI, and that the caller has
    /// [judged](crate::Table::with_judged).
    pub pcs_judged: u64,
    /// PCs of a function after another one that lies inside it, which no search by start address finds for it,
    /// and for which the table has no row either; not in `pcs`.
    pub pcs_hidden: u64,
    /// The reason why functions are missing or unjudged, and how many.
    pub reasons: BTreeMap<String, u64>,
    /// The first differences in order of address, at most [`Options::limit`](crate::Options::limit).
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ListedDifference>"))]
    pub differences: Vec<Difference>,
    /// Differences after those.
    pub more_differences: u64,
    /// The first of that; as many.
    pub faults: Vec<Fault>,
    /// The first functions that are missing or unjudged, with the reason in words; as many.
    pub unverified: Vec<Unverified>,
    /// Missing and unjudged functions after those.
    pub more_unverified: u64,
}

impl Report {
    /// Returns whether the table agrees with the CFI wherever it answers. It may omit functions.
    pub fn is_true(&self) -> bool {
        self.pcs_different == 0 && self.malformed == 0
    }

    /// Returns whether the table has everything that the CFI describes and gimli can judge, and nothing else. It is no
    /// fault to omit a function that gimli cannot judge, as long as its record can be read.
    pub fn is_faultless(&self) -> bool {
        self.is_true()
            && self.missing == 0
            && self.pcs_hidden == 0
            && self.unjudged_in_table == 0
            && self.unreadable == 0
    }

    /// Returns the number of PCs at which an answer of the table was compared with something. If it is 0, the table is
    /// neither right nor wrong. For example, the CFI describes no code, or the table has none of the functions that
    /// gimli can judge.
    pub fn pcs_compared(&self) -> u64 {
        self.pcs_equal + self.pcs_different + self.pcs_judged
    }

    /// Returns whether the table has exactly the rows of the CFI, and gimli could judge every function.
    pub fn is_complete(&self) -> bool {
        self.is_true() && self.equal == self.functions && self.pcs_hidden == 0
    }

    /// Returns the reasons with their counts, the most frequent first. Reasons with the same count are sorted by name.
    pub fn reasons_by_count(&self) -> Vec<(&str, u64)> {
        most_frequent_first(&self.reasons)
    }
}

/// Sorts the counts of [`Report::reasons`], the most frequent first. Reasons with the same count are sorted by name.
pub fn most_frequent_first(reasons: &BTreeMap<impl AsRef<str>, u64>) -> Vec<(&str, u64)> {
    let mut list: Vec<_> = reasons.iter().map(|(name, count)| (name.as_ref(), *count)).collect();
    list.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    list
}

/// A range of PCs for which table and CFI differ, in the same way at each PC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(into = "ListedDifference"))]
pub struct Difference {
    /// The architecture. It decides how registers are named.
    pub arch: Arch,
    /// The start of the function in the CFI, or `None` for PCs between functions.
    pub function: Option<Address>,
    /// The first PC.
    pub start: Address,
    /// The end of the range: one past the last PC.
    pub end: Address,
    /// Says how often the difference recurs after this range, in a PC-mask function or a PLT.
    pub recurrence: Recurrence,
    /// The CFI's answer, or `None` if it has no function for these PCs.
    pub cfi: Option<(Answer, Flags)>,
    /// The table's answer.
    pub table: TableAnswer,
}

impl Piece for Difference {
    fn continue_with(&mut self, next: &Self) -> bool {
        let is_continued = self.end == next.start
            && (self.function, self.recurrence, self.cfi, self.table)
                == (next.function, next.recurrence, next.cfi, next.table);
        if is_continued {
            self.end = next.end;
        }
        is_continued
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)?;
        if let Some(function) = self.function {
            write!(f, " in the function at {function}")?;
        }
        write!(f, ": {}", self.words())
    }
}

impl Difference {
    /// Describes the answers of CFI and table, without the addresses.
    pub fn words(&self) -> impl fmt::Display {
        DifferenceWords(*self)
    }
}

struct DifferenceWords(Difference);

impl fmt::Display for DifferenceWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { arch, table, recurrence, .. } = self.0;
        let Some((answer, flags)) = self.0.cfi else {
            let table = Answered { arch, own: table, other: TableAnswer::Nothing };
            return write!(f, "CFI: no function; table: {table}");
        };
        f.write_str("CFI: ")?;
        let mut cfi = TableAnswer::Nothing;
        match answer {
            Answer::Nothing => f.write_str("no CFA")?,
            Answer::Row(row) | Answer::Plt { row, .. } => {
                cfi = TableAnswer::Row(row, flags);
                write!(f, "{}", Answered { arch, own: cfi, other: table })?;
            }
            Answer::StackPointer(rule) => {
                write!(f, "the caller's stack pointer is {}", RuleWords(arch, rule))?;
            }
            Answer::SignState(rule) => {
                write!(f, "the state of the return address's signature is {}", RuleWords(arch, rule))?;
            }
        }
        write!(f, "; table: {}{recurrence}", Answered { arch, own: table, other: cfi })
    }
}

/// A difference as it is serialized. `P` is how places are named.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ListedDifference<P = Address> {
    /// First PC.
    pub start: P,
    /// One past the last PC.
    pub end: P,
    /// Start of the function; `None` between functions.
    pub function: Option<P>,
    /// The description by both sides.
    pub words: String,
}

impl ListedDifference {
    /// Replaces the addresses by other names of the places, for example by symbols.
    pub fn named<P>(self, start: P, end: P, function: Option<P>) -> ListedDifference<P> {
        ListedDifference { start, end, function, words: self.words }
    }
}

impl From<Difference> for ListedDifference {
    fn from(difference: Difference) -> Self {
        let Difference { start, end, function, .. } = difference;
        Self { start, end, function, words: difference.words().to_string() }
    }
}

/// A function that is missing in the table, or that gimli could not judge. `P` is how places are named.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Unverified<P = Address> {
    /// First address, where known.
    pub function: Option<P>,
    /// The PC whose row stands in the way, where there is one.
    pub pc: Option<P>,
    /// True if the table lacks the function, false if gimli could not judge it.
    pub missing: bool,
    /// The cause, in words without addresses.
    pub words: String,
}

impl<P> Unverified<P> {
    /// Builds the entry of a function that a table lacks. `words` gives the reason. `pc` is the place of the row that
    /// no table can represent, if there is such a row.
    pub fn missing(function: Option<P>, pc: Option<P>, words: String) -> Self {
        Self { function, pc, missing: true, words }
    }
}

impl Unverified {
    /// Replaces the addresses by other names of the places, for example by symbols.
    pub fn named<P>(&self, mut name: impl FnMut(Address) -> P) -> Unverified<P> {
        let Self { function, pc, missing, words } = self;
        let [function, pc] = [function, pc].map(|place| place.map(&mut name));
        Unverified { function, pc, missing: *missing, words: words.clone() }
    }
}
