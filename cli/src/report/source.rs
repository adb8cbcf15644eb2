//! The source of the figures in a report: `stats` and `gaps` count a table of the file or the CFI.

use serde::Serialize;

/// The source of the figures in a report.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A table that is in the file.
    Table,
    /// The CFI, or the table that a conversion makes from it.
    Cfi,
}
