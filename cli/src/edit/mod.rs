//! Changes files: finds them, applies a verb's edit to each on several threads, and puts the results into their place.

mod apply;
mod change;
mod find;
mod jobs;
mod problem;
mod thin;
mod walk;

pub use apply::{FileReport, Outcome, Part, Place, apply};
pub use change::{Change, changes};
pub use find::{Found, Origin, find};
pub use jobs::for_each;
pub use problem::{Problem, Skip};

use cfipack_edit::Rewrite;
use serde::Serialize;

/// The work of a verb on an object or a linked file.
pub trait Edit: Sync {
    /// The report about one object.
    type Report: Serialize + Send;

    /// The changed object, none if it stays as it is, and the report.
    fn edit<'a>(&self, object: &'a [u8]) -> Result<(Option<Rewrite<'a>>, Self::Report), Problem>;

    /// Checks a changed object as it stands in the new file, whose structure is checked already.
    fn judge(&self, new: &[u8], report: &mut Self::Report) -> Result<(), Problem>;
}
