//! Merges the tables of linked files into a single sorted table. A linker that does not know the format only
//! concatenates the tables of its inputs.
//!
//! ```
//! use cfipack_decoder::sframe::Section;
//! use cfipack_encoder::sframe::Options;
//! use cfipack_format::{Address, Key};
//! use cfipack_linker::linked::Tables;
//!
//! // Two tables with a function of 4 bytes and the row CFA = sp + 8 each. The second function has the lower address.
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

use crate::decoder::sframe::{Error, Function, Section};
use crate::encoder::sframe::{self as encoder, Builder, TableFunction, TableRows};
use crate::format::sframe::FdeInfo;
use crate::format::{Arch, Key, Reason, Unsupported, UnsupportedFormat};

/// Merges tables of the same address space. [`push`](Self::push) each table, then call [`finish`](Self::finish).
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    builder: Builder<'a>,
    arch: Arch,
}

cfipack_format::errors! {
    /// The reason why a table cannot be merged.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum MergeError {
        /// The table is for this architecture, and the output is for another.
        #[error("it is for {arch}, and the tables before it are not")]
        Architecture(arch: Arch),
        /// A function or row of the table cannot be read.
        #[error("{error}")]
        Malformed(error: Error),
        /// Rows of different functions overlap.
        #[error("its {rows} rows are more than its bytes can hold: those of different functions overlap")]
        OverlappingRows {
            /// The number of rows. Rows that several functions share in full are counted once.
            rows: u64,
        },
    }
}

/// Counts the functions of a table by their result.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Merged {
    /// Functions that were added.
    pub functions: u64,
    /// Rows of the added functions.
    pub rows: u64,
    /// Functions for which `keep` returned `false`.
    pub dead: u64,
    /// Functions that were refused, including functions without rows.
    pub omitted: u64,
}

impl<'a> Tables<'a> {
    /// Creates an empty merge for tables of `arch`.
    ///
    /// # Errors
    /// Returns an error if SFrame has no ABI for the architecture, for example i386 or arm64_32.
    pub fn new(arch: Arch, options: encoder::Options) -> Result<Self, UnsupportedFormat> {
        Ok(Self { builder: Builder::new(arch, options)?, arch })
    }

    /// Adds the functions of a table for which `keep` returns `true`. Use `keep` to drop entries of functions
    /// that a linker has discarded: no code lies at their starts. Functions that share PCs are separated as
    /// in [`Builder::finish`]. Identical functions of several tables become a single function. `report` is
    /// called for every function that cannot be represented.
    ///
    /// # Errors
    /// Returns an error if the table has another architecture, if a function or row cannot be read, or if the rows of
    /// different functions overlap. Then nothing of the table is added.
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

    /// Returns the merged table. It is sorted when it is [written](encoder::Section::write). Functions that
    /// contradict each other are in [`omitted`](encoder::Section::omitted).
    pub fn finish(self) -> encoder::Section<'a> {
        self.builder.finish()
    }
}

/// Reads all rows of a table, and refuses rows that overlap.
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
    // Functions share all of their rows or none. If rows overlapped, copies of them would take many times the
    // bytes of the table.
    distinct.sort_unstable_by_key(|&(fres, count, (mask, fre_type, signal))| {
        (fres, count, mask, fre_type as u8, signal)
    });
    distinct.dedup();
    let rows = distinct.iter().map(|&(_, count, _)| u64::from(count)).sum();
    if rows > MAX_ROWS_PER_BYTE * u64::from(table.header().fre_len) {
        return Err(MergeError::OverlappingRows { rows });
    }
    Ok(())
}

/// The greatest number of rows per byte of the FRE sub-section. Rows that functions share in full count once.
/// The smallest FRE has two bytes, and tables of version 2 may share FREs under several FDEs.
const MAX_ROWS_PER_BYTE: u64 = 2;

/// Adds a function of a finished table to a builder. Rows that cannot be read are left out, so read them before.
///
/// # Errors
/// The function cannot be represented.
pub fn push(builder: &mut Builder<'_>, function: &Function<'_>) -> Result<(), Unsupported> {
    let key = Key::from(function.start());
    let unsupported = |reason| Unsupported::function(key, reason);
    // Version 1 has a mask instead of a size.
    let Ok(rep_size) = u8::try_from(function.rep_size()) else {
        return Err(unsupported(Reason::Version));
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
    builder.push_table(&entry, TableRows::Rows(rows))?;
    Ok(())
}

#[cfg(test)]
mod tests;
