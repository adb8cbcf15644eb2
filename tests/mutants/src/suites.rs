//! The nearest tests of each crate.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Result;

/// A test program, and filters of its tests; all without any.
#[derive(Debug)]
pub struct Suite {
    /// A test program's name, or `own` for the unit tests of the crate and what is in its `tests`.
    pub program: String,
    pub filters: Vec<String>,
}

/// Reads the lines `CRATE: PROGRAM[=FILTER,...]...`.
pub fn read(file: &Path) -> Result<BTreeMap<String, Vec<Suite>>> {
    let text = std::fs::read_to_string(file)?;
    let mut suites = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let (name, rest) = line.split_once(':').ok_or_else(|| format!("{}: {line}", file.display()))?;
        let suite = |word: &str| {
            let (program, filters) = word.split_once('=').unwrap_or((word, ""));
            let filters = filters.split(',').filter(|filter| !filter.is_empty()).map(str::to_owned).collect();
            Suite { program: program.to_owned(), filters }
        };
        suites.insert(name.to_owned(), rest.split_whitespace().map(suite).collect());
    }
    Ok(suites)
}
