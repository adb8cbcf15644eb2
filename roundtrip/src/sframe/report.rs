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

/// The result of comparing a table with CFI. A function is an FDE of the CFI, and a PC is a byte of code.
///
/// `pcs` is the sum of `pcs_equal`, `pcs_different`, `pcs_missing`, `pcs_unjudged`, `pcs_padding` and `pcs_judged`.
/// `functions` is the sum of `equal`, `different`, `missing` and `unjudged`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// The number of functions of the CFI. Several FDEs with the same start count as one function.
    pub functions: u64,
    /// The number of functions for which table and CFI agree at every PC. Functions without code count too.
    pub equal: u64,
    /// The number of functions with at least one PC for which table and CFI differ.
    pub different: u64,
    /// The number of functions with a PC for which the CFI has a row and the table has none. A function for which
    /// table and CFI also differ at a PC counts as `different` instead.
    pub missing: u64,
    /// The number of functions of `missing` for which the caller of
    /// [`verify_with_reasons`](crate::verify_with_reasons) gives no reason: they were omitted without a report. If no
    /// caller gives reasons, this is all of `missing`.
    pub unexplained: u64,
    /// The number of functions that could not be judged. Either gimli cannot evaluate the CFI up to the function's
    /// end, and the table does not differ before that point; or several FDEs have the function's start, and they
    /// disagree.
    pub unjudged: u64,
    /// The number of functions of `unjudged` for which the table answers at a PC that could not be judged. The answer
    /// there is unproven. The table omits the other functions of `unjudged`, so it cannot be wrong about them.
    pub unjudged_in_table: u64,
    /// The number of functions of `unjudged` whose FDE or CIE cannot be read. It is unknown where they lie.
    pub unreadable: u64,
    /// The number of FDEs that start where another FDE starts. They do not count in `functions`.
    pub duplicates: u64,
    /// The number of functions of the table that answer for a PC outside of all functions of the CFI. See `pcs_extra`.
    pub extra: u64,
    /// The number of faults of the table. A fault is a function that cannot be read, a function that no search finds,
    /// a wrong number of FREs in the header, or a table for another architecture.
    pub malformed: u64,
    /// The number of PCs that the table or the CFI covers, except for `pcs_hidden`.
    pub pcs: u64,
    /// The number of PCs for which table and CFI agree. They also agree if the CFI has no CFA and the table has no
    /// row.
    pub pcs_equal: u64,
    /// The number of PCs for which table and CFI differ. This includes `pcs_extra`.
    pub pcs_different: u64,
    /// The number of PCs for which the CFI has a row and the table has none.
    pub pcs_missing: u64,
    /// The number of PCs that gimli cannot evaluate, or for which several FDEs disagree.
    pub pcs_unjudged: u64,
    /// The number of PCs of `pcs_unjudged` for which the table answers.
    pub pcs_unjudged_in_table: u64,
    /// The number of PCs outside of all functions of the CFI for which the table answers. PCs of `pcs_padding` and
    /// `pcs_judged` do not count.
    pub pcs_extra: u64,
    /// The number of PCs between two functions of the CFI that are a single function in the table. See
    /// [`Options::padding`](crate::Options::padding).
    pub pcs_padding: u64,
    /// The number of PCs outside of all functions of the CFI for which the table answers, and which the caller has
    /// [judged](crate::Table::with_judged).
    pub pcs_judged: u64,
    /// The number of PCs that a search by start address cannot find. If a function lies inside another function, the
    /// search finds the inner function for every PC after it, also for PCs of the outer function after the end of the
    /// inner function. Such a PC counts here if the table has no row for it. It does not count in `pcs`.
    pub pcs_hidden: u64,
    /// The number of missing and unjudged functions for each reason.
    pub reasons: BTreeMap<String, u64>,
    /// The first differences in order of address, at most [`Options::limit`](crate::Options::limit).
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<ListedDifference>"))]
    pub differences: Vec<Difference>,
    /// The number of differences that `differences` does not list.
    pub more_differences: u64,
    /// The first faults of the table, at most [`Options::limit`](crate::Options::limit). `malformed` is the number of
    /// all faults.
    pub faults: Vec<Fault>,
    /// The first functions that are missing or unjudged, each with its reason, at most
    /// [`Options::limit`](crate::Options::limit).
    pub unverified: Vec<Unverified>,
    /// The number of missing and unjudged functions that `unverified` does not list.
    pub more_unverified: u64,
}

impl Report {
    /// Returns whether the table agrees with the CFI wherever it answers. It may omit functions.
    pub fn is_true(&self) -> bool {
        self.pcs_different == 0 && self.malformed == 0
    }

    /// Returns whether every row of the table is proven, and every function that the table lacks has a reason.
    pub fn is_proven(&self) -> bool {
        self.is_true() && self.unexplained == 0 && self.unjudged_in_table == 0
    }

    /// Returns whether the table may have rows for functions that gimli cannot read or evaluate.
    /// [`unjudged`](crate::cfi::unjudged()) finds these functions.
    pub fn has_unproven_rows(&self) -> bool {
        self.unjudged_in_table != 0 || self.unreadable != 0 && self.extra != 0
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
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(into = "ListedDifference"))]
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
            Answer::StackPointer { rule, .. } => {
                write!(f, "the caller's stack pointer is {}", RuleWords(arch, rule))?;
            }
            Answer::SignedWithPc { at, .. } => {
                write!(f, "the return address is signed by the instruction at {at:#x} of the function")?;
            }
            Answer::SignState(rule) => {
                write!(f, "the state of the return address's signature is {}", RuleWords(arch, rule))?;
            }
        }
        write!(f, "; table: {}{recurrence}", Answered { arch, own: table, other: cfi })
    }
}

/// A range of PCs for which two sides differ, as reports list it. `P` is the type that names a place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ListedDifference<P = Address> {
    /// The first PC of the range.
    pub start: P,
    /// The end of the range: one past the last PC.
    pub end: P,
    /// The start of the function, or `None` for PCs between functions.
    pub function: Option<P>,
    /// Describes the answers of both sides.
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

/// A function that is missing in the table, or that gimli could not judge. `P` is the type that names a place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Unverified<P = Address> {
    /// The start of the function, or `None` if its FDE cannot be read.
    pub function: Option<P>,
    /// The PC of the row that the table cannot represent, or `None` if no such row is known.
    pub pc: Option<P>,
    /// True if the table lacks the function, false if gimli could not judge it.
    pub missing: bool,
    /// The reason in words, without addresses.
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
