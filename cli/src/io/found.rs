//! Finds out which tables of a file its readers find.

use std::collections::HashSet;
use std::fmt;

use cfipack_container::Section as FileSection;
use cfipack_decoder::sframe::Section;
use cfipack_format::widen::ToU64;
use serde::Serialize;

use super::input::{Contents, Object};
use crate::report::count::Number;
use crate::report::status;

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

impl fmt::Display for HiddenTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tables, functions) = (Number(self.tables, "table"), Number(self.functions, "function"));
        write!(f, "{tables} of {functions} that readers do not find: they take one table, at ")?;
        f.write_str("PT_GNU_SFRAME or first in the section; -o and merge make one table of all")
    }
}

impl Object<'_> {
    /// Divides the object's tables into found and hidden tables. Readers of a linked file follow `PT_GNU_SFRAME`.
    /// Without this program header they take the first table of the section. Nothing leads to the tables after it.
    pub fn found<'s>(
        &self,
        sections: &[FileSection<'_>],
        tables: Vec<Section<'s>>,
    ) -> (Vec<Section<'s>>, Option<HiddenTables>) {
        let segment = match &self.contents {
            Contents::File(file) => file.as_elf().and_then(|elf| elf.sframe_segment()),
            Contents::Table(_) | Contents::UnwindInfo(_) => None,
        };
        let starts: HashSet<_> = match segment {
            Some(segment) => HashSet::from([segment]),
            None => sections.iter().map(|section| section.address).collect(),
        };
        let (found, hidden): (Vec<_>, Vec<_>) =
            tables.into_iter().partition(|table| starts.contains(&table.address()));
        let functions = hidden.iter().map(|table| table.num_functions().to_u64()).sum();
        let tables = hidden.len().to_u64();
        (found, (tables != 0).then_some(HiddenTables { tables, functions }))
    }

    /// Returns the tables that readers find, and warns if there are others.
    pub fn found_tables<'s>(
        &self,
        sections: &[FileSection<'_>],
        tables: Vec<Section<'s>>,
    ) -> Vec<Section<'s>> {
        let (found, hidden) = self.found(sections, tables);
        if let Some(hidden) = hidden {
            status::warn(&format_args!("{}: {hidden}", self.name));
        }
        found
    }
}
