//! Counts as text.

use std::fmt;

/// Counts with their words. Prints the counts that are not 0, each after a comma, to continue a line.
#[derive(Debug)]
pub struct Counts<'a>(pub &'a [(&'a str, u64)]);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut present = self.0.iter().filter(|(_, count)| *count != 0);
        present.try_for_each(|(name, count)| write!(f, ", {count} {name}"))
    }
}

impl Counts<'_> {
    /// Lists the counts without the first comma.
    pub fn list(&self) -> String {
        self.to_string().trim_start_matches(", ").to_string()
    }
}

/// A count with its word. The word is in the singular if the count is 1.
#[derive(Debug)]
pub struct Number(pub u64, pub &'static str);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, name) = self;
        match (*count, name.strip_suffix('y')) {
            (1, _) => write!(f, "1 {name}"),
            (_, Some(stem)) => write!(f, "{count} {stem}ies"),
            (_, None) => write!(f, "{count} {name}s"),
        }
    }
}

/// Returns a percentage with two decimals. It is 100.00 only if the part is the whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "100.00 %".to_string();
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let rounded = (part * 10_000 + whole / 2) / whole;
    let hundredths = if part < whole { rounded.min(9_999) } else { rounded };
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::{Number, percent};

    #[test]
    fn percentages_below_100_are_not_rounded_to_100() {
        let cases = [
            (2, 3, "66.67 %"),
            (1, 3, "33.33 %"),
            (99_999, 100_000, "99.99 %"),
            (u64::MAX - 1, u64::MAX, "99.99 %"),
            (3, 3, "100.00 %"),
            (0, 0, "100.00 %"),
            (3, 2, "150.00 %"),
        ];
        for (part, whole, expected) in cases {
            assert_eq!(percent(part, whole), expected, "{part} of {whole}");
        }
    }

    #[test]
    fn one_is_singular() {
        let printed = [0, 1, 2].map(|count| Number(count, "byte").to_string());
        assert_eq!(printed, ["0 bytes", "1 byte", "2 bytes"]);
        assert_eq!([1, 2].map(|count| Number(count, "entry").to_string()), ["1 entry", "2 entries"]);
    }
}
