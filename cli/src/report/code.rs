//! Describes how much of the code has rows.

use cfipack_lint::coverage::CodeBytes;

use super::count::{self, Number};

/// Returns the part of the code that has rows, in percent.
pub fn percent(code: &CodeBytes) -> String {
    count::percent(code.covered, code.wanted())
}

/// Returns a report's line about the code that has rows.
pub fn line(code: &CodeBytes) -> String {
    let wanted = Number(code.wanted(), "byte");
    format!("code: {} of {wanted} covered ({})", code.covered, percent(code))
}
