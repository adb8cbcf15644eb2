//! Tables of linked files into one: what a linker that does not know the format should have made of its inputs'.
//!
//! ```
//! use cfipack_decoder::sframe::Section;
//! use cfipack_encoder::sframe::Options;
//! use cfipack_format::{Address, Key};
//! use cfipack_linker::linked::Tables;
//!
//! // Two tables of one function each, of 4 bytes with the row CFA = sp + 8; the second one's lies first.
//! let table = |start: i8| {
//!     let mut table = vec![0xe2, 0xde, 2, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0];
//!     table.extend(i32::from(start).to_le_bytes());
//!     table.extend([4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 8]);
//!     table
//! };
//! let bytes = [table(-12), table(-127)].concat();
//! let tables: Vec<_> = Section::concatenated(&bytes, Address(0x1000)).collect::<Result<_, _>>()?;
//! let mut merged = Tables::new(tables[0].arch(), Options::default())?;
//! for table in &tables {
//!     merged.push(table, |_| true, |unsupported| eprintln!("{unsupported}"))?;
//! }
//! let section = merged.finish();
//! let bytes = section.into_bytes(Address(0x1000), Key::address)?;
//! let table = Section::parse(&bytes, Address(0x1000))?;
//! assert!(table.is_sorted() && table.num_functions() == 2);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use alloc::vec::Vec;
use core::fmt;

use crate::decoder::sframe::{Error, Function, Section};
use crate::encoder::sframe::{self as encoder, Builder, TableFunction, TableRows};
use crate::format::sframe::FdeInfo;
use crate::format::{Arch, Key, Reason, Unsupported, UnsupportedFormat};

/// Takes tables of one address space and becomes one.
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    builder: Builder<'a>,
    arch: Arch,
}

/// The reason why a table cannot be merged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MergeError {
    /// A table for this architecture, where others are for another.
    Architecture(Arch),
    /// A function or row of it cannot be read.
    Malformed(Error),
    /// The rows of different functions overlap.
    OverlappingRows {
        /// The number of rows, those that functions share counted once.
        rows: u64,
    },
}

/// The counts of what became of a table's functions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Merged {
    /// Functions that were taken.
    pub functions: u64,
    /// The rows.
    pub rows: u64,
    /// Functions that the caller did not keep.
    pub dead: u64,
    /// Functions that were refused, those without rows among them.
    pub omitted: u64,
}

impl<'a> Tables<'a> {
    /// No tables yet.
    ///
    /// # Errors
    /// The format has no ABI for the architecture: i386 and arm64_32.
    pub fn new(arch: Arch, options: encoder::Options) -> Result<Self, UnsupportedFormat> {
        Ok(Self { builder: Builder::new(arch, options)?, arch })
    }

    /// Adds the functions of a table that `keep` keeps: a linker leaves entries of functions that it discarded, which
    /// start where no code is. Functions that share PCs are told apart as by [`Builder::finish`]: those that several
    /// tables have alike are one. `report` is called with what cannot be represented.
    ///
    /// # Errors
    /// The table has another architecture, a function or row of it cannot be read, or the rows of different
    /// functions overlap. Nothing of it is added.
    pub fn push(
        &mut self,
        table: &Section<'_>,
        mut keep: impl FnMut(&Function<'_>) -> bool,
        mut report: impl FnMut(Unsupported),
    ) -> Result<Merged, MergeError> {
        if table.arch() != self.arch {
            return Err(MergeError::Architecture(table.arch()));
        }
        check(table)?;
        let mut merged = Merged::default();
        for function in table.functions().filter_map(Result::ok) {
            if !keep(&function) {
                merged.dead += 1;
            } else if let Err(unsupported) = push(&mut self.builder, &function) {
                self.builder.note_omitted(unsupported.function, function.size().into());
                merged.omitted += 1;
                report(unsupported);
            } else {
                merged.functions += 1;
                merged.rows += u64::from(function.num_fres());
            }
        }
        Ok(merged)
    }

    /// The merged table, sorted when it is [written](encoder::Section::write). Functions that contradict each other
    /// are in [`omitted`](encoder::Section::omitted).
    pub fn finish(self) -> encoder::Section<'a> {
        self.builder.finish()
    }
}

/// Reads all rows of a table.
fn check(table: &Section<'_>) -> Result<(), MergeError> {
    let mut distinct = Vec::with_capacity(table.num_functions());
    for function in table.functions() {
        let function = function.map_err(MergeError::Malformed)?;
        for row in function.rows() {
            row.map_err(MergeError::Malformed)?;
        }
        let kind = (function.is_pc_mask(), function.fre_type(), function.is_signal_frame());
        distinct.push((function.fde().fre_off, function.num_fres(), kind));
    }
    // Functions share rows, all of them: their copies would be many times the table's bytes otherwise.
    distinct.sort_unstable_by_key(|&(fres, count, (mask, fre_type, signal))| {
        (fres, count, mask, fre_type as u8, signal)
    });
    distinct.dedup();
    let rows = distinct.iter().map(|&(_, count, _)| u64::from(count)).sum();
    match rows > MOST_ROWS_OF_A_BYTE * u64::from(table.header().fre_len) {
        true => Err(MergeError::OverlappingRows { rows }),
        false => Ok(()),
    }
}

/// Rows for each byte of the FRE sub-section, at most, those that functions share counted once. The least FRE has two
/// bytes; tables of version 2 may share FREs under several FDEs.
const MOST_ROWS_OF_A_BYTE: u64 = 2;

/// Adds a function with rows that have all been read.
fn push(builder: &mut Builder<'_>, function: &Function<'_>) -> Result<(), Unsupported> {
    let key = Key::from(function.start());
    let unsupported = |reason| Unsupported::function(key, reason);
    let rep_size = match u8::try_from(function.rep_size()) {
        Ok(rep_size) => rep_size,
        // Version 1 has masks instead of a size.
        Err(_) => return Err(unsupported(Reason::Version)),
    };
    // A lookup never finds a function without code.
    if function.size() == 0 {
        return Ok(());
    }
    if function.num_fres() == 0 {
        return Err(unsupported(Reason::RowsMissing));
    }
    let mut info = FdeInfo::empty().with_fre_type(function.fre_type());
    info.set(FdeInfo::PAUTH_KEY_B, function.has_pauth_key_b());
    info.set(FdeInfo::SIGNAL, function.is_signal_frame());
    info.set(FdeInfo::PC_MASK, function.is_pc_mask());
    let entry = TableFunction::new(key, function.size()).with_address(true).with_info(info, rep_size);
    let rows = function.rows().filter_map(Result::ok);
    builder.push_table(&entry, TableRows::Rows(rows)).map(|_| ())
}

impl fmt::Display for MergeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture(arch) => write!(f, "it is for {arch}, and the tables before it are not"),
            Self::Malformed(error) => error.fmt(f),
            Self::OverlappingRows { rows } => {
                write!(
                    f,
                    "its {rows} rows are more than its bytes can hold: those of different functions overlap"
                )
            }
        }
    }
}

impl core::error::Error for MergeError {}

#[cfg(test)]
mod tests;
