//! Writes the entries of an archive.

use std::borrow::Cow;

use cfipack_container::Error;
use cfipack_container::raw::archive::{Entry, HEADER_LEN, SIZE_FIELD};
use cfipack_format::widen::ToU64;

use crate::rewrite::Rewrite;

/// The greatest length of a name in a description. Descriptions are copies of names, and many entries may share a name.
const MAX_NAME_LEN: usize = 100;

/// Appends an entry's header with another size.
pub(super) fn append_header(archive: &mut Rewrite<'_>, entry: &Entry<'_>, size: u64) -> Result<(), Error> {
    let field = format!("{size:<10}").into_bytes();
    if field.len() > SIZE_FIELD.len() {
        let offset = (entry.header + SIZE_FIELD.start).to_u64();
        return Err(Error::ArchiveSize { offset, value: size });
    }
    let name = &entry.name[..entry.name.len().min(MAX_NAME_LEN)];
    let what = format!("size of member {}", String::from_utf8_lossy(name));
    archive.old(entry.header..entry.header + SIZE_FIELD.start);
    archive.bytes(Cow::Owned(what), field);
    archive.old(entry.header + SIZE_FIELD.end..entry.header + HEADER_LEN);
    Ok(())
}
