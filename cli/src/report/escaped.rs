//! Escapes names of files, and names in them, because they can contain line breaks and control sequences of terminals.

use std::fmt::{self, Write as _};
use std::path::Path;

use serde::Serialize;

/// The name of a file for a report: text has it escaped, and JSON as it is. There is no other way to print it, so that no
/// verb can forget to escape it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(inline, description = ""))]
#[serde(transparent)]
pub struct FileName(String);

impl FileName {
    /// Takes the name of a file, or of a member of an archive with the archive's name.
    pub fn new(name: String) -> Self {
        Self(name)
    }

    /// Takes the name from a path.
    pub fn of_path(path: &Path) -> Self {
        Self(path.display().to_string())
    }

    /// Returns the name as it is, to hash it or to put it into JSON.
    pub fn as_is(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.0).fmt(f)
    }
}

/// Prints a text with its control characters as escapes, so that a line stays a single line.
#[derive(Debug)]
pub struct Escaped<T>(pub T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'f, 'w>(&'f mut fmt::Formatter<'w>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            if char.is_control() {
                write!(self.0, "{}", char.escape_default())?;
            } else {
                self.0.write_char(char)?;
            }
        }
        Ok(())
    }
}
