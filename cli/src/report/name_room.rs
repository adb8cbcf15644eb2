//! Limits the names in a report, so that the report cannot be much larger than the file.

use std::borrow::Cow;
use std::cell::Cell;

/// A report may have this many bytes of names for each byte of the file. A real report has a tenth of this. In a
/// hostile file, every function could be in a section, and at a symbol, with a long name.
const FOR_EACH_BYTE: usize = 8;

/// A report about a small file may still have this many bytes of names.
const MIN_ROOM: usize = 1 << 20;

/// After the room is used up, a name is cut to this many characters.
const CUT_NAME: usize = 64;

/// The number of bytes that are left for the names in a report.
#[derive(Debug)]
pub struct NameRoom {
    rest: Cell<usize>,
}

impl NameRoom {
    /// Returns the room for names in the report about a file of `len` bytes.
    pub fn of_file(len: usize) -> Self {
        Self { rest: Cell::new(len.saturating_mul(FOR_EACH_BYTE).saturating_add(MIN_ROOM)) }
    }

    /// Shortens a name of the file for a report. Returns the name's start and `…` if all names in the report are much
    /// longer than the file.
    pub fn bounded<'n>(&self, name: impl Into<Cow<'n, str>>) -> Cow<'n, str> {
        let name = name.into();
        let rest = self.rest.get().checked_sub(name.len());
        if let Some(rest) = rest {
            self.rest.set(rest);
        }
        if rest.is_some() || name.len() <= CUT_NAME {
            return name;
        }
        let start: String = name.chars().take(CUT_NAME).collect();
        Cow::Owned(start + "…")
    }
}
