//! Counts in words.

use std::fmt;

/// Counts and what they count. As a continuation of a sentence: those that are not 0, each behind a
/// comma.
#[derive(Debug)]
pub struct Counts<'a>(pub &'a [(&'a str, u64)]);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut present = self.0.iter().filter(|(_, count)| *count != 0);
        present.try_for_each(|(name, count)| write!(f, ", {count} {name}"))
    }
}

impl Counts<'_> {
    /// The same as a sentence of its own.
    pub fn list(&self) -> String {
        self.to_string().trim_start_matches(", ").to_string()
    }
}

/// A part of a whole, as a percentage of two decimals that is 100.00 only if it is all.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "100.00 %".to_string();
    }
    let hundredths = u128::from(part) * 10_000 / u128::from(whole);
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}
