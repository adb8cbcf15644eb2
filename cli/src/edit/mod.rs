//! Changes files: finds them, applies a verb's edit to each on several threads, and replaces them.
//!
//! - `find` and `walk` search paths and directories for files; `thin` finds the members of thin archives.
//! - `many` has the options of the verbs that change files.
//! - `jobs` divides the files among threads.
//! - `apply` edits a file, checks the result, and replaces the file.
//! - `change` and `problem` are the results: what changed, or the reason why a file stays as it is.

mod apply;
mod change;
mod find;
mod jobs;
pub mod many;
mod problem;
mod thin;
mod walk;

pub use apply::{FileReport, MissedMember, Outcome, Part, Place, apply};
pub use change::{Change, changes};
pub use find::{Found, Origin, find};
pub use jobs::for_each;
pub use problem::{Problem, Skip};

use cfipack_edit::Rewrite;
use cfipack_lint::coverage::CodeBytes;
use serde::Serialize;

/// The work of a verb on an object or a linked file.
pub trait Edit: Sync {
    /// The report about one object.
    type Report: Serialize + Send;

    /// What a user can do if the changed file is refused.
    const WAY_OUT: &'static str;

    /// Returns the changed object and the report. The object is `None` if it stays as it is.
    fn edit<'a>(&self, object: &'a [u8]) -> Result<(Option<Rewrite<'a>>, Self::Report), Problem>;

    /// Returns another edit to try after `report` was refused, if there is one.
    fn retry(&self, _report: &Self::Report) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Returns the code that gets no rows if a member of an archive stays as it is for this reason. Returns `None` if no
    /// user expects a change of this member.
    fn misses(&self, _member: &[u8], skip: Skip) -> Option<CodeBytes> {
        skip.is_of_other_kind().then(CodeBytes::default)
    }

    /// Checks a changed object in the new file. The structure of the new file is already checked.
    fn judge(&self, new: &[u8], report: &mut Self::Report) -> Result<(), Problem>;
}
