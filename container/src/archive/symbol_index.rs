//! Reads the symbol index of an archive. Its entries lead to the headers of members.

use std::ops::Range;

use cfipack_format::widen::ToU64;

use super::entries::{Entry, EntryKind, IndexKind};
use crate::error::Error;

/// Checks that a symbol index is complete. Any other entry passes.
pub(super) fn check(bytes: &[u8], entry: &Entry<'_>) -> Result<(), Error> {
    let EntryKind::SymbolIndex(kind) = entry.kind else { return Ok(()) };
    Numbers::find(bytes, entry, kind).map(|_| ())
}

/// The place of the offsets in a symbol index, so that an editor can rewrite them.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The place of the records in the archive. Each record ends with an offset.
    pub range: Range<usize>,
    /// The size of a record in bytes.
    pub stride: usize,
    /// The size of an offset in bytes.
    pub width: usize,
    /// True if the numbers are big-endian.
    pub is_big: bool,
}

impl Numbers {
    /// Finds the offsets in a symbol index. The `kind` is the entry's form.
    ///
    /// # Errors
    /// Returns [`Error::Archive`] if the index is not complete.
    pub fn find(bytes: &[u8], entry: &Entry<'_>, kind: IndexKind) -> Result<Self, Error> {
        let data = &bytes[entry.data.clone()];
        let found = match kind {
            IndexKind::Gnu { width } => Self::gnu(data, width),
            IndexKind::Bsd { width } => {
                Self::bsd(data, width, false).or_else(|| Self::bsd(data, width, true))
            }
        };
        let found = found.ok_or(Error::Archive { offset: entry.header.to_u64() })?;
        let range = entry.data.start + found.range.start..entry.data.start + found.range.end;
        Ok(Self { range, ..found })
    }

    /// Reads a GNU index: a count, then that number of offsets.
    fn gnu(data: &[u8], width: usize) -> Option<Self> {
        // An index without symbols may be empty.
        if data.is_empty() {
            return Some(Self { range: 0..0, stride: width, width, is_big: true });
        }
        let count = usize::try_from(number(data.get(..width)?, true)).ok()?;
        let end = count.checked_mul(width)?.checked_add(width)?;
        (end <= data.len()).then_some(Self { range: width..end, stride: width, width, is_big: true })
    }

    /// Reads a BSD index: the size of the records, the records, the size of the names, the names.
    fn bsd(data: &[u8], width: usize, is_big: bool) -> Option<Self> {
        if data.is_empty() {
            return Some(Self { range: 0..0, stride: 2 * width, width, is_big });
        }
        let size = usize::try_from(number(data.get(..width)?, is_big)).ok()?;
        let end = size.checked_add(width)?;
        let after = end.checked_add(width)?;
        let names = usize::try_from(number(data.get(end..after)?, is_big)).ok()?;
        let is_whole = size % (2 * width) == 0 && names <= data.len() - after;
        is_whole.then_some(Self { range: width..end, stride: 2 * width, width, is_big })
    }

    /// Returns the offset in a field of `width` bytes.
    pub fn read(&self, field: &[u8]) -> u64 {
        number(field, self.is_big)
    }
}

/// Reads a number of at most 8 bytes.
fn number(bytes: &[u8], is_big: bool) -> u64 {
    if is_big { bytes.iter().fold(0, push_byte) } else { bytes.iter().rev().fold(0, push_byte) }
}

fn push_byte(value: u64, byte: &u8) -> u64 {
    value << 8 | u64::from(*byte)
}
