//! The tables of a file in either format. They call the parts of verbs that depend on the format.

use cfipack_format::Address;

use super::{diff, dump, explain, lookup, sframe, stats, unwind_info, verify};
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::report::place::Places;
use crate::report::status::Status;

/// The tables of an object.
pub enum FileTables<'o, 'a> {
    /// `.sframe`.
    Sframe(&'o Object<'a>),
    /// `__unwind_info` and `__compact_unwind`.
    Compact(&'o Object<'a>),
}

impl<'o, 'a> FileTables<'o, 'a> {
    /// Returns the tables in the object's own format.
    pub fn of_object(object: &'o Object<'a>) -> Self {
        if object.is_compact() { Self::Compact(object) } else { Self::Sframe(object) }
    }

    /// Compares the tables with the tables of another object.
    pub fn diff(&self, other: &Object<'_>, arguments: &diff::Arguments) -> anyhow::Result<Status> {
        match self {
            Self::Sframe(object) => sframe::diff::compare(object, other, arguments),
            Self::Compact(object) => unwind_info::diff::compare(object, other, arguments),
        }
    }

    /// Prints the tables. If a part cannot be read, prints an error in its place, and returns the error after the rest
    /// is printed.
    pub fn dump(&self, arguments: &dump::Arguments, several: bool) -> anyhow::Result<Outcome> {
        match self {
            Self::Sframe(object) if arguments.symbols => sframe::symbols::dump(object, several, arguments),
            Self::Sframe(object) => sframe::dump::dump(object, several, arguments),
            Self::Compact(object) => unwind_info::dump::dump(object, arguments),
        }
    }

    /// Explains the functions that the tables do not represent, or the function at an address.
    pub fn explain(
        &self,
        arguments: &explain::Arguments,
        places: &Places<'_, '_>,
        address: Option<Address>,
    ) -> anyhow::Result<Status> {
        match self {
            Self::Sframe(object) => sframe::explain::explain(object, places, address, arguments),
            Self::Compact(object) => unwind_info::explain::explain(object, places, address, arguments),
        }
    }

    /// Prints the rows for addresses.
    pub fn lookup(&self, arguments: &lookup::Arguments, places: &Places<'_, '_>) -> anyhow::Result<Status> {
        match self {
            Self::Sframe(object) => sframe::lookup::lookup(object, places, arguments),
            Self::Compact(object) => unwind_info::lookup::lookup(object, places, arguments),
        }
    }

    /// Counts the tables. If the file has no table, counts the table that is made from its CFI.
    pub fn stats(&self, arguments: &stats::Arguments) -> anyhow::Result<Outcome> {
        match self {
            Self::Sframe(object) => sframe::stats::count(object, arguments),
            Self::Compact(object) => unwind_info::stats::count(object, arguments),
        }
    }

    /// Verifies the tables, or the tables in `elsewhere`, against the object's CFI.
    pub fn verify(
        &self,
        arguments: &verify::Arguments,
        elsewhere: Option<&Object<'_>>,
    ) -> anyhow::Result<Outcome> {
        match self {
            Self::Sframe(object) => sframe::verify::verify(object, elsewhere, arguments),
            Self::Compact(object) => unwind_info::verify::check(object, elsewhere, arguments),
        }
    }

    /// Checks that the tables can be for the code of another object. The caller adds the tables' file to an error.
    pub fn check_for(&self, object: &Object<'_>, arguments: &verify::Arguments) -> anyhow::Result<()> {
        match self {
            Self::Sframe(table) => sframe::verify::check_for(table, object, arguments),
            Self::Compact(table) => unwind_info::verify::check_for(table, arguments),
        }
    }
}
