//! The symbol index of an archive, whose entries lead to the headers of members.

use std::borrow::Cow;
use std::ops::Range;

use super::entries::{Entry, EntryKind, IndexKind};
use crate::{Error, Rewrite};

/// Appends the entry of a symbol index, with its offsets changed to where members start in the new archive.
/// `moved` has the old and the new offset of each member's header, in ascending order.
pub(super) fn append<'a>(
    archive: &mut Rewrite<'a>,
    bytes: &'a [u8],
    entry: &Entry<'a>,
    kind: IndexKind,
    moved: &[(usize, usize)],
) -> Result<(), Error> {
    let numbers = Numbers::find(bytes, entry, kind)?;
    archive.old(entry.header..numbers.range.start);
    let mut new = bytes[numbers.range.clone()].to_vec();
    for (i, record) in new.chunks_exact_mut(numbers.stride).enumerate() {
        let field = &mut record[numbers.stride - numbers.width..];
        let at = numbers.range.start + (i + 1) * numbers.stride - numbers.width;
        let old = numbers.read(field);
        let damaged = Error::ArchiveIndex { offset: at as u64, value: old };
        let known = moved.binary_search_by_key(&old, |&(old, _)| old as u64).map_err(|_| damaged)?;
        numbers.write(moved[known].1 as u64, field, at as u64)?;
    }
    archive.bytes(Cow::Borrowed("symbol index of the archive"), new);
    archive.old(numbers.range.end..entry.end);
    Ok(())
}

/// Checks that a symbol index is whole; what is none is in order.
pub(super) fn check(bytes: &[u8], entry: &Entry<'_>) -> Result<(), Error> {
    let EntryKind::SymbolIndex(kind) = entry.kind else { return Ok(()) };
    Numbers::find(bytes, entry, kind).map(|_| ())
}

/// Where the offsets of a symbol index lie.
struct Numbers {
    /// The records, each of which ends with an offset.
    range: Range<usize>,
    /// Bytes of a record.
    stride: usize,
    /// Bytes of an offset.
    width: usize,
    is_big: bool,
}

impl Numbers {
    fn find(bytes: &[u8], entry: &Entry<'_>, kind: IndexKind) -> Result<Self, Error> {
        let data = &bytes[entry.data.clone()];
        let found = match kind {
            IndexKind::Gnu { width } => Self::gnu(data, width),
            IndexKind::Bsd { width } => {
                Self::bsd(data, width, false).or_else(|| Self::bsd(data, width, true))
            }
        };
        let found = found.ok_or(Error::Archive { offset: entry.header as u64 })?;
        let range = entry.data.start + found.range.start..entry.data.start + found.range.end;
        Ok(Self { range, ..found })
    }

    /// A count, and as many offsets.
    fn gnu(data: &[u8], width: usize) -> Option<Self> {
        // An index without symbols may have no bytes at all.
        if data.is_empty() {
            return Some(Self { range: 0..0, stride: width, width, is_big: true });
        }
        let count = usize::try_from(number(data.get(..width)?, true)).ok()?;
        let end = count.checked_mul(width)?.checked_add(width)?;
        (end <= data.len()).then_some(Self { range: width..end, stride: width, width, is_big: true })
    }

    /// The size of the records, the records, the size of the names, the names.
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

    fn read(&self, field: &[u8]) -> u64 {
        number(field, self.is_big)
    }

    fn write(&self, value: u64, field: &mut [u8], offset: u64) -> Result<(), Error> {
        if self.width == 4 && u32::try_from(value).is_err() {
            return Err(Error::ArchiveSize { offset, value });
        }
        let bytes = value.to_be_bytes();
        field.copy_from_slice(&bytes[8 - self.width..]);
        if !self.is_big {
            field.reverse();
        }
        Ok(())
    }
}

/// A number of at most 8 bytes.
fn number(bytes: &[u8], is_big: bool) -> u64 {
    let push = |value, &byte: &u8| value << 8 | u64::from(byte);
    if is_big { bytes.iter().fold(0, push) } else { bytes.iter().rev().fold(0, push) }
}
