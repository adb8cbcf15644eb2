//! Tables that readers do not find.

use std::fmt;

use cfipack_decoder::sframe::Section;
use cfipack_format::widen::ToU64;
use serde::Serialize;

use crate::report::count::Number;

/// Tables of a file that its readers do not find. Linkers that do not know the format leave the tables of their inputs
/// one after the other, and readers take the first.
#[derive(Clone, Copy, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HiddenTables {
    /// The number of tables.
    tables: u64,
    /// The number of their functions.
    functions: u64,
}

impl HiddenTables {
    /// Counts tables. Returns `None` if there is none.
    pub fn count(tables: &[Section<'_>]) -> Option<Self> {
        let functions = tables.iter().map(|table| table.num_functions().to_u64()).sum();
        (!tables.is_empty()).then_some(Self { tables: tables.len().to_u64(), functions })
    }
}

impl fmt::Display for HiddenTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tables, functions) = (Number(self.tables, "table"), Number(self.functions, "function"));
        write!(f, "{tables} of {functions} that readers do not find, after the first table or without ")?;
        f.write_str("PT_GNU_SFRAME: -o and merge make one table of all")
    }
}
