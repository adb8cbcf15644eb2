//! Demands of the Linux kernel's reader on a table beyond the format itself.
//!
//! Source: the reader proposed for `kernel/unwind/sframe.c` (version 3 only), as of 2026: it checks all
//! of this when a table is registered with validation on, and refuses the table at the first violation.

use std::fmt;
use std::ops::Range;

use cfipack_decoder::sframe::{self, Function, Section};
use cfipack_format::sframe::{FdeType, Flags, Version};
use cfipack_format::{Address, SectionOffset};

/// A rule of the kernel's reader that a table breaks. Offsets count from the section's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelViolation {
    /// The format itself is violated.
    Malformed(sframe::Error),
    /// A version that is not 3.
    Version(Version),
    /// Flag `FDE_SORTED` is missing.
    NotSorted,
    /// Flag `FDE_FUNC_START_PCREL` is missing.
    NotPcRelative,
    /// An auxiliary header of this many bytes.
    AuxiliaryHeader(u8),
    /// No function.
    NoFunctions,
    /// No row in the whole table.
    NoRows,
    /// A number of rows that is not the header's.
    RowCount {
        /// The header's.
        header: u32,
        /// The sum over the functions.
        sum: u64,
    },
    /// A function that does not start after the start of the one before it; so of two functions that
    /// share their code, or of one without code.
    StartNotAscending {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The start of the function.
        start: Address,
    },
    /// A function that is not, or not wholly, within the code.
    OutsideText {
        /// The offset of the FDE.
        offset: SectionOffset,
        /// The start of the function.
        start: Address,
    },
    /// A flex function.
    Flex {
        /// The offset of the FDE.
        offset: SectionOffset,
    },
    /// A row that does not start after the start of the one before it.
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
    /// Words for the demand, with addresses as `place` writes them.
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
            Self::Flex { offset } => format!("FDE at offset {offset}: a flex function"),
            Self::RowNotAscending { offset, start } => {
                format!("FRE at offset {offset}: start {start:#x} does not ascend")
            }
        }
    }
}

/// The rules that a table breaks. Every row may break one, and rows may be shared, so that even a small
/// table breaks more than memory holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct KernelViolations {
    /// The first, in the table's order, at most as many as asked for.
    pub first: Vec<KernelViolation>,
    /// Violations after those.
    pub more: u64,
    #[cfg_attr(feature = "serde", serde(skip))]
    limit: usize,
}

impl KernelViolations {
    /// Returns whether no rule is broken.
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.more == 0
    }

    fn push(&mut self, violation: KernelViolation) {
        match self.first.len() < self.limit {
            true => self.first.push(violation),
            false => self.more += 1,
        }
    }
}

/// The rules of the kernel's reader that a table breaks: it describes the first `limit` of them and counts
/// all. `text` is the code that the table may speak of, if known.
pub fn kernel_violations(
    section: &Section<'_>,
    text: Option<Range<Address>>,
    limit: usize,
) -> KernelViolations {
    let header = section.header();
    let mut found = KernelViolations { limit, ..KernelViolations::default() };
    let mut require = |holds: bool, violation: KernelViolation| {
        if !holds {
            found.push(violation);
        }
    };
    let is_read = match section.version() {
        Version::V1 | Version::V2 => false,
        Version::V3 => true,
    };
    require(is_read, KernelViolation::Version(section.version()));
    require(section.is_sorted(), KernelViolation::NotSorted);
    require(header.flags.contains(Flags::START_PCREL), KernelViolation::NotPcRelative);
    require(header.auxhdr_len == 0, KernelViolation::AuxiliaryHeader(header.auxhdr_len));
    require(header.num_fdes != 0, KernelViolation::NoFunctions);
    require(header.num_fres != 0, KernelViolation::NoRows);
    let mut before = None;
    let mut rows = 0;
    for (index, function) in section.functions().enumerate() {
        let function = match function {
            Ok(function) => function,
            Err(error) => {
                found.push(KernelViolation::Malformed(error));
                continue;
            }
        };
        let (offset, start) = (section.fde_offset(index), function.start());
        if before.is_some_and(|before| start <= before) {
            found.push(KernelViolation::StartNotAscending { offset, start });
        }
        before = Some(start);
        let end = start.offset(i64::from(function.size()));
        if text.as_ref().is_some_and(|text| start < text.start || end > text.end) {
            found.push(KernelViolation::OutsideText { offset, start });
        }
        if function.fde_type() == FdeType::Flex {
            found.push(KernelViolation::Flex { offset });
        }
        rows += u64::from(function.num_fres());
        check_rows(&function, &mut found);
    }
    if rows != u64::from(header.num_fres) {
        found.push(KernelViolation::RowCount { header: header.num_fres, sum: rows });
    }
    found
}

fn check_rows(function: &Function<'_>, found: &mut KernelViolations) {
    let mut before = None;
    for fre in function.fres() {
        let fre = match fre.and_then(|fre| fre.row(function).map(|_| fre)) {
            Ok(fre) => fre,
            Err(error) => {
                found.push(KernelViolation::Malformed(error));
                return;
            }
        };
        if before.is_some_and(|before| fre.start.0 <= before) {
            found.push(KernelViolation::RowNotAscending { offset: fre.offset, start: fre.start.0 });
        }
        before = Some(fre.start.0);
    }
}
