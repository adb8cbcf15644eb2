//! Prints the output of the verbs, as text and JSON.
//!
//! - `row`, `symbol`, `place` and `target` describe a row or a function.
//! - `reasons` and `explanation` explain why a table omits a function. `excluded` counts FDEs without a function.
//! - `verification` compares tables with their CFI. `verdict`, `comparison`, `difference`, `unverified` and `lint` are
//!   results of checks, and `displaced` recognizes a wrong address of a table.
//! - `compact_verdict` compares `__unwind_info` and `__compact_unwind` with the CFI and their readers' rules.
//! - `source` names what figures are counted from.
//! - `edits` is the summary of changed files.
//! - `limits` and `status` decide the exit status.
//! - `schemas` has the schemas of all JSON output.

pub mod cfi_bytes;
pub mod code;
pub mod compact_verdict;
pub mod comparison;
pub mod count;
pub mod difference;
pub mod displaced;
pub mod edits;
pub mod escaped;
pub mod excluded;
pub mod explanation;
pub mod fault;
pub mod kernel;
pub mod limits;
pub mod lint;
pub mod name_room;
pub mod place;
pub mod reasons;
pub mod row;
#[cfg(test)]
mod schemas;
pub mod source;
pub mod status;
pub mod style;
pub mod symbol;
pub mod target;
pub mod unverified;
pub mod verdict;
pub mod verification;
pub mod without_lists;
