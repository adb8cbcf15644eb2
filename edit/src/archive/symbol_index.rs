//! The symbol index of an archive. Its entries lead to the headers of members.

use std::borrow::Cow;

use cfipack_container::Error;
use cfipack_container::raw::archive::{Entry, IndexKind, Numbers};
use cfipack_format::widen::ToU64;

use crate::rewrite::Rewrite;

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
        let damaged = Error::ArchiveIndex { offset: at.to_u64(), value: old };
        let known = moved.binary_search_by_key(&old, |&(old, _)| old.to_u64()).map_err(|_| damaged)?;
        write(&numbers, moved[known].1.to_u64(), field, at.to_u64())?;
    }
    archive.bytes(Cow::Borrowed("symbol index of the archive"), new);
    archive.old(numbers.range.end..entry.end);
    Ok(())
}

/// Writes an offset at a place of the old file into its field.
fn write(numbers: &Numbers, value: u64, field: &mut [u8], offset: u64) -> Result<(), Error> {
    if numbers.width == 4 && u32::try_from(value).is_err() {
        return Err(Error::ArchiveSize { offset, value });
    }
    let bytes = value.to_be_bytes();
    field.copy_from_slice(&bytes[8 - numbers.width..]);
    if !numbers.is_big {
        field.reverse();
    }
    Ok(())
}
