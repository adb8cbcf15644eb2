//! Output of the verbs: text and JSON about functions, rows, reasons and places, and exit statuses.

pub mod cfi_bytes;
pub mod code;
pub mod comparison;
pub mod count;
pub mod difference;
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
pub mod status;
pub mod style;
pub mod symbol;
pub mod target;
pub mod unverified;
pub mod verdict;
pub mod without_lists;
