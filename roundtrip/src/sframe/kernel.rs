//! The rules of the Linux kernel's reader for a table beyond the format itself.
//!
//! Source: the reader that version 5 of the series for arm64 (April 2026) proposes for Linux. It reads version 3 only.
//! With validation on, it checks all these rules when a table is registered, and refuses the table at the first
//! violation. The table of a module comes as the assembler wrote it, and the kernel sorts it after it has relocated
//! it. If a table has no answer for a PC, the walk does not end: the kernel guesses, and goes on by the frame pointer.

use std::fmt;
use std::ops::Range;

use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::sframe::{FdeType, Flags, Version};
use cfipack_format::{Address, Cfa, SectionOffset};

/// A rule of the kernel's reader that a table breaks. Offsets count from the section's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelViolation {
    /// The table violates the format itself.
    Malformed(sframe::Error),
    /// The version is not 3.
    Version(Version),
    /// Flag `FDE_SORTED` is missing in the table of a linked file.
    NotSorted,
    /// Flag `FDE_FUNC_START_PCREL` is missing.
    NotPcRelative,
    /// The table has an auxiliary header of this many bytes.
    AuxiliaryHeader(u8),
    /// The table has no function.
    NoFunctions,
    /// The table has no row.
    NoRows,
    /// The number of rows differs from the header's number.
    RowCount {
        /// The number in the header.
        header: u32,
        /// The sum over the functions.
        sum: u64,
    },
    /// A function does not start after the start of the function before it. This refuses functions that share their
    /// code, and a function without code before another.
    StartNotAscending {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The start of the function.
        start: Address,
    },
    /// A function is not completely within the code.
    OutsideText {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The start of the function.
        start: Address,
    },
    /// A default row has a data word for a place that the header fixes.
    WordsLeft {
        /// The offset of the FRE.
        offset: SectionOffset,
    },
    /// A row does not start after the start of the row before it.
    RowNotAscending {
        /// The offset of the FRE.
        offset: SectionOffset,
        /// The start, from the start of the function.
        start: u32,
    },
}

impl fmt::Display for KernelViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(|address| address.to_string()))
    }
}

impl KernelViolation {
    /// Describes the violation, with addresses as `place` writes them.
    pub fn words(&self, place: impl FnOnce(Address) -> String) -> String {
        match *self {
            Self::Malformed(error) => error.to_string(),
            Self::Version(version) => format!("version {}, not 3", version as u8),
            Self::NotSorted => "flag FDE_SORTED is not set".to_owned(),
            Self::NotPcRelative => "flag FDE_FUNC_START_PCREL is not set".to_owned(),
            Self::AuxiliaryHeader(len) => format!("an auxiliary header of {len} bytes"),
            Self::NoFunctions => "no functions".to_owned(),
            Self::NoRows => "no rows".to_owned(),
            Self::RowCount { header, sum } => format!("{sum} rows, but the header states {header}"),
            Self::StartNotAscending { offset, start } => {
                format!("FDE at offset {offset}: start {} does not ascend", place(start))
            }
            Self::OutsideText { offset, start } => {
                format!("FDE at offset {offset}: the function at {} is not within the code", place(start))
            }
            Self::WordsLeft { offset } => {
                format!("FRE at offset {offset}: a data word for a place that the header fixes")
            }
            Self::RowNotAscending { offset, start } => {
                format!("FRE at offset {offset}: start {start:#x} does not ascend")
            }
        }
    }
}

/// The form in which the kernel gets a table.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelTable {
    /// A linked table, which must be sorted. It may describe this code, or any code if you do not know the code.
    Linked(Option<Range<Address>>),
    /// The table of a relocatable object, for example of a module. The kernel sorts it when it loads the module.
    Module,
}

/// The verdict of the kernel's reader on a table. It lists only the first violations. Every row may break a rule, and
/// functions may share rows, so even a small table can have more violations than fit in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KernelVerdict {
    /// The first violations, at most as many as the caller has asked for.
    pub first: Vec<KernelViolation>,
    /// The number of violations that `first` does not list.
    pub more: u64,
    /// The number of PCs that have the row of an outermost frame. The kernel's reader ends with an error before it
    /// looks at such a row. It then continues with the frame pointer instead of ending the walk.
    pub outermost: u64,
    #[cfg_attr(feature = "serde", serde(skip))]
    limit: usize,
}

impl KernelVerdict {
    /// Returns whether no rule is broken.
    pub fn is_accepted(&self) -> bool {
        self.first.is_empty() && self.more == 0
    }

    fn require(&mut self, holds: bool, violation: KernelViolation) {
        if holds {
            return;
        }
        if self.first.len() < self.limit {
            self.first.push(violation);
        } else {
            self.more += 1;
        }
    }
}

/// Checks the rules of the kernel's reader. The verdict describes the first `limit` violations and counts the rest.
pub fn kernel_verdict(section: &Section<'_>, table: &KernelTable, limit: usize) -> KernelVerdict {
    let mut verdict = KernelVerdict { limit, ..KernelVerdict::default() };
    check_header(section, table, &mut verdict);
    let mut starts = Vec::new();
    let mut rows = 0;
    for (index, function) in section.functions().enumerate() {
        let function = match function {
            Ok(function) => function,
            Err(error) => {
                verdict.require(false, KernelViolation::Malformed(error));
                continue;
            }
        };
        let (offset, start) = (section.fde_offset(index), function.start());
        starts.push((start, offset));
        if let KernelTable::Linked(Some(text)) = table {
            let end = start.offset(i64::from(function.size()));
            let is_inside = start >= text.start && end <= text.end;
            verdict.require(is_inside, KernelViolation::OutsideText { offset, start });
        }
        rows += u64::from(function.num_fres());
        check_rows(section, &function, &mut verdict);
    }
    if *table == KernelTable::Module {
        starts.sort_unstable();
    }
    for pair in starts.windows(2) {
        let (before, (start, offset)) = (pair[0].0, pair[1]);
        verdict.require(start > before, KernelViolation::StartNotAscending { offset, start });
    }
    let header = section.header().num_fres;
    verdict.require(rows == u64::from(header), KernelViolation::RowCount { header, sum: rows });
    verdict
}

fn check_header(section: &Section<'_>, table: &KernelTable, verdict: &mut KernelVerdict) {
    let header = section.header();
    let is_read = match section.version() {
        Version::V1 | Version::V2 => false,
        Version::V3 => true,
    };
    verdict.require(is_read, KernelViolation::Version(section.version()));
    verdict.require(section.is_sorted() || *table == KernelTable::Module, KernelViolation::NotSorted);
    verdict.require(header.flags.contains(Flags::START_PCREL), KernelViolation::NotPcRelative);
    verdict.require(header.auxhdr_len == 0, KernelViolation::AuxiliaryHeader(header.auxhdr_len));
    verdict.require(header.num_fdes != 0, KernelViolation::NoFunctions);
    verdict.require(header.num_fres != 0, KernelViolation::NoRows);
}

fn check_rows(section: &Section<'_>, function: &Function<'_>, verdict: &mut KernelVerdict) {
    let header = section.header();
    // The reader takes the data words of a default row in order: a word for the CFA, and a word for each place that is
    // not fixed.
    let read =
        1 + [header.fixed_ra_offset, header.fixed_fp_offset].iter().filter(|fixed| **fixed == 0).count();
    let mut before = None;
    let mut outermost = None;
    for fre in function.fres() {
        let (fre, row) = match fre.and_then(|fre| fre.row(function).map(|row| (fre, row))) {
            Ok(read) => read,
            Err(error) => return verdict.require(false, KernelViolation::Malformed(error)),
        };
        let (offset, start) = (fre.offset, fre.start.0);
        let words_left = function.fde_type() == FdeType::Default && fre.words().len() > read;
        verdict.require(!words_left, KernelViolation::WordsLeft { offset });
        let ascends = before.is_none_or(|before| start > before);
        verdict.require(ascends, KernelViolation::RowNotAscending { offset, start });
        before = Some(start);
        if let Some(from) = outermost.take() {
            verdict.outermost += num_pcs(function, from, start);
        }
        outermost = (row.cfa == Cfa::Undefined).then_some(start);
    }
    if let Some(from) = outermost {
        verdict.outermost += num_pcs(function, from, u32::MAX);
    }
}

/// Returns the number of PCs between two offsets of a function, in all repetitions of a PC-mask function.
fn num_pcs(function: &Function<'_>, start: u32, end: u32) -> u64 {
    let size = function.size();
    let period = if function.is_pc_mask() { u32::from(function.rep_size()) } else { size };
    let in_first = |size: u32| u64::from(end.min(size).saturating_sub(start));
    match size.checked_div(period) {
        Some(repetitions) => u64::from(repetitions) * in_first(period) + in_first(size % period),
        None => 0,
    }
}
