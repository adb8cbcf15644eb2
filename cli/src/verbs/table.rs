//! The tables of a file, of one format: the parts of verbs that depend on it.

use cfipack_format::Address;

use super::{diff, dump, explain, lookup, sframe, stats, unwind_info, verify};
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::report::place::Places;
use crate::report::status::Status;

/// The tables of an object: `.sframe`, or `__unwind_info` and `__compact_unwind`.
pub trait FileTables {
    /// Compares them with those of another object.
    fn diff(&self, other: &Object<'_>, arguments: &diff::Arguments) -> anyhow::Result<Status>;

    /// Prints them. A part that cannot be read is replaced by an error, which is returned after the rest is printed.
    fn dump(&self, arguments: &dump::Arguments, several: bool) -> anyhow::Result<Outcome>;

    /// Explains the functions that they do not represent, or the one at an address.
    fn explain(
        &self,
        arguments: &explain::Arguments,
        places: &Places<'_, '_>,
        address: Option<Address>,
    ) -> anyhow::Result<Status>;

    /// Prints the rows for addresses.
    fn lookup(&self, arguments: &lookup::Arguments, places: &Places<'_, '_>) -> anyhow::Result<Status>;

    /// Counts them; for a file without any, those that are made of its CFI.
    fn stats(&self, arguments: &stats::Arguments) -> anyhow::Result<Outcome>;

    /// Verifies them, or those of `elsewhere`, against the object's CFI.
    fn verify(
        &self,
        arguments: &verify::Arguments,
        elsewhere: Option<&Object<'_>>,
    ) -> anyhow::Result<Outcome>;

    /// Refuses them as tables for the code of another object, so that an error names their file.
    fn check_for(&self, object: &Object<'_>, arguments: &verify::Arguments) -> anyhow::Result<()>;
}

/// The tables of an object, by its format.
pub fn of<'o>(object: &'o Object<'_>) -> Box<dyn FileTables + 'o> {
    match object.is_compact() {
        true => Box::new(unwind_info::Tables(object)),
        false => Box::new(sframe::Tables(object)),
    }
}
