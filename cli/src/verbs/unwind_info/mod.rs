//! `__unwind_info` and `__compact_unwind`: the verb that builds the former, and the parts of the other
//! verbs for files with either.

pub mod build;
pub mod diff;
pub mod dump;
pub mod encodings;
mod entries;
pub mod explain;
pub mod lookup;
mod personalities;
pub mod source;
pub mod stats;
mod table;
pub mod verify;

use cfipack_format::Address;

use super::table::FileTables;
use crate::io::each::Outcome;
use crate::io::input::Object;
use crate::report::place::Places;
use crate::report::status::Status;
use crate::verbs;

/// The `__unwind_info` and `__compact_unwind` of an object.
pub struct Tables<'o, 'a>(pub &'o Object<'a>);

impl FileTables for Tables<'_, '_> {
    fn diff(&self, other: &Object<'_>, arguments: &verbs::diff::Arguments) -> anyhow::Result<Status> {
        diff::compare(self.0, other, arguments)
    }

    fn dump(&self, arguments: &verbs::dump::Arguments, _: bool) -> anyhow::Result<Outcome> {
        dump::dump(self.0, arguments)
    }

    fn explain(
        &self,
        arguments: &verbs::explain::Arguments,
        places: &Places<'_, '_>,
        address: Option<Address>,
    ) -> anyhow::Result<Status> {
        explain::explain(self.0, places, address, arguments)
    }

    fn lookup(
        &self,
        arguments: &verbs::lookup::Arguments,
        places: &Places<'_, '_>,
    ) -> anyhow::Result<Status> {
        lookup::lookup(self.0, places, arguments)
    }

    fn stats(&self, arguments: &verbs::stats::Arguments) -> anyhow::Result<Outcome> {
        stats::count(self.0, arguments)
    }

    fn verify(
        &self,
        arguments: &verbs::verify::Arguments,
        elsewhere: Option<&Object<'_>>,
    ) -> anyhow::Result<Outcome> {
        verify::check(self.0, elsewhere, arguments)
    }

    fn check_for(&self, _: &Object<'_>, arguments: &verbs::verify::Arguments) -> anyhow::Result<()> {
        verify::check_for(self.0, arguments)
    }
}
