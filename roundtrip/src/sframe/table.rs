//! The functions of a table, by the PCs that they answer for.

use std::collections::HashMap;
use std::ops::Range;

use cfipack_decoder::sframe::{self, Section};
use cfipack_format::sframe::Version;
use cfipack_format::{Arch, Row};

use super::extents::{self, Entry, Piece};
use super::fault::{Fault, FaultKind};
use crate::cfi::Flags;

/// The functions of one or more tables, in order of address. No two functions share a PC.
///
/// A PC belongs to the function that [`Section::find`] finds for it, in the first table that has a function for it. So
/// a function can have several pieces, with functions of an earlier table between them. The last address of all,
/// 2^64-1, belongs to no function.
///
/// Memory: 24 bytes for each function or piece, and twice as much while the value is built. A function in several
/// pieces takes a little more.
#[derive(Clone, Debug)]
pub struct Table<'t> {
    pub(crate) sections: &'t [Section<'t>],
    pub(crate) entries: Vec<Entry>,
    /// The pieces of functions that have several, by place in `entries`.
    pieces: HashMap<usize, Piece>,
    /// Functions that cannot be read or found, and headers with a wrong number of FREs.
    faults: Vec<Fault>,
    /// The PCs that the caller has judged, as ranges in ascending order that do not overlap.
    judged: Vec<Range<u64>>,
}

/// The answer of a table for a PC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableAnswer {
    /// The table has no row for the PC.
    Nothing,
    /// The row, and the flags of its function.
    Row(Row, Flags),
    /// The table has bytes for the PC that cannot be read.
    Malformed(sframe::Error),
}

impl<'t> Table<'t> {
    /// Sorts the functions of the tables by address. When two tables answer for a PC, the first table in `sections`
    /// wins.
    pub fn new(sections: &'t [Section<'t>]) -> Self {
        let (mut all, mut faults) = (Vec::new(), Vec::new());
        for (number, section) in sections.iter().enumerate() {
            let found = functions(section, number, |error| {
                faults.push(Fault { table: number, kind: FaultKind::Malformed(error) });
            });
            extents::append(section, found, &mut all);
        }
        let (entries, pieces) = extents::decide(all);
        Self { sections, entries, pieces, faults, judged: Vec::new() }
    }

    /// Names the PCs that you have judged by other means than CFI. The ranges must be in ascending order and must not
    /// overlap. If no function of the CFI has such a PC, the report counts it as
    /// [`pcs_judged`](crate::Report::pcs_judged) and not as a difference.
    #[must_use]
    pub fn with_judged(mut self, judged: Vec<Range<u64>>) -> Self {
        self.judged = judged;
        self
    }

    /// Returns whether the caller has judged all of these PCs.
    pub(crate) fn is_judged(&self, pcs: &Range<u64>) -> bool {
        let next = self.judged.partition_point(|judged| judged.end <= pcs.start);
        self.judged.get(next).is_some_and(|judged| judged.start <= pcs.start && pcs.end <= judged.end)
    }

    /// Returns the version of the format, or `None` if there is no table.
    pub fn version(&self) -> Option<Version> {
        self.sections.first().map(Section::version)
    }

    /// Returns the PCs for which the entry at a place answers. For a function in several pieces, these are the PCs of
    /// the piece at the place.
    pub(crate) fn extent(&self, place: usize) -> Option<Range<u64>> {
        self.entries.get(place).map(|entry| entry.from..entry.end)
    }

    /// Returns the faults of the tables when they are compared with something for `arch`. A table for another
    /// architecture is a fault too.
    pub(crate) fn faults_for(&self, arch: Arch) -> Vec<Fault> {
        let tables = self.sections.iter().enumerate();
        let others = tables.filter(|(_, section)| section.arch() != arch);
        let others = others.map(|(table, section)| Fault { table, kind: FaultKind::Abi(section.abi()) });
        others.chain(self.faults.iter().copied()).collect()
    }

    /// Returns the place of a function's first piece, which identifies the function.
    pub(crate) fn first_piece(&self, place: usize) -> usize {
        if self.pieces.is_empty() {
            return place;
        }
        self.pieces.get(&place).map_or(place, |piece| piece.first)
    }

    /// Returns whether the function at a place has several pieces.
    pub(crate) fn is_in_pieces(&self, place: usize) -> bool {
        self.pieces.contains_key(&place)
    }

    /// Returns whether the function at a place has pieces after this piece.
    pub(crate) fn has_pieces_after(&self, place: usize) -> bool {
        self.pieces.get(&place).is_some_and(|piece| !piece.is_last)
    }

    /// Returns the architecture, or `None` if there is no table.
    pub fn arch(&self) -> Option<Arch> {
        self.sections.first().map(Section::arch)
    }

    /// Returns the faults of the tables, in the order of the tables:
    ///
    /// - functions that cannot be read, so that their PCs are unknown;
    /// - functions that no binary search finds, because the index is declared sorted and is not;
    /// - a number of FREs in the header that differs from the sum over the functions.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

/// Returns the functions of a section that can be read and have code. Reports the section's faults to `malformed`.
fn functions(section: &Section<'_>, number: usize, mut malformed: impl FnMut(sframe::Error)) -> Vec<Entry> {
    let mut found = Vec::with_capacity(section.num_functions());
    let (mut before, mut num_fres) = (i64::MIN, Some(0));
    for (index, function) in section.functions().enumerate() {
        let function = match function {
            Ok(function) => function,
            Err(error) => {
                malformed(error);
                num_fres = None;
                continue;
            }
        };
        let relative = function.start().distance_from(section.address());
        if section.is_sorted() && relative < before {
            malformed(sframe::Error::NotSorted { offset: section.fde_offset(index) });
        }
        before = relative;
        num_fres = num_fres.map(|sum| sum + u64::from(function.num_fres()));
        if function.size() != 0 {
            found.push(Entry::relative(section, number, &function));
        }
    }
    // The sum is unknown if a function cannot be read.
    let value = section.header().num_fres;
    if let Some(sum) = num_fres.filter(|sum| *sum != u64::from(value)) {
        malformed(sframe::Error::NumFres { value, sum });
    }
    found
}
