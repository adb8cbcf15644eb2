//! Room for a file's names in a report, so that it is no large multiple of the file.

use std::borrow::Cow;
use std::cell::Cell;

/// Bytes of names in a report for each byte of the file. A real report has a tenth of this; in a file made for it each
/// function could be in a section, and at a symbol, of a long name.
const FOR_EACH_BYTE: usize = 8;

/// Bytes of names that any report may have.
const MIN_ROOM: usize = 1 << 20;

/// Characters that are left of a name when a report has too many.
const CUT_NAME: usize = 64;

/// The bytes that further names of a report may have.
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
