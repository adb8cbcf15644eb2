//! Thin archives: their members are files of their own, whose sizes the archive repeats.

use super::entries::{Entries, Entry, EntryKind, HEADER_LEN};
use super::rewrite::append_header;
use crate::{Error, Rewrite};

/// A member of a thin archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ThinMember<'a> {
    /// The file, from the directory of the archive; `/` separates its parts, and what starts with one is absolute.
    pub path: &'a [u8],
    /// If that file is an archive, where the member's header starts in it.
    pub nested: Option<u64>,
    /// The member's size in bytes, as the archive states.
    pub size: u64,
}

/// The members of a thin archive, in its order; none if the file is not one. A file may be there several times.
pub fn thin_members(bytes: &[u8]) -> Result<Option<Vec<ThinMember<'_>>>, Error> {
    if !bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Ok(None);
    }
    let entries = Entries::of(bytes).into_iter().flatten();
    let members = entries.filter_map(|entry| match entry {
        Ok(entry) => member(&entry).map(Ok),
        Err(error) => Some(Err(error)),
    });
    members.collect::<Result<_, _>>().map(Some)
}

/// The thin archive with the sizes that `size` returns for its members, which the caller has rewritten; the rest of
/// it stays, for the symbol index leads to headers in the archive, and these do not move. A file that is no thin
/// archive is unchanged.
///
/// # Errors
/// Those of `size`, [`Error::Archive`] for a damaged entry, [`Error::ArchiveSize`] for a size that has no room.
pub fn resize_thin_members<'a, E: From<Error>>(
    bytes: &'a [u8],
    mut size: impl FnMut(&ThinMember<'a>) -> Result<u64, E>,
) -> Result<Rewrite<'a>, E> {
    let mut archive = Rewrite::new();
    if !bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Ok(Rewrite::unchanged(bytes.len()));
    }
    archive.old(0..object::archive::MAGIC.len());
    for entry in Entries::of(bytes).into_iter().flatten() {
        let entry = entry?;
        match member(&entry) {
            Some(member) => {
                let size = size(&member)?;
                if size == member.size {
                    archive.old(entry.header..entry.end);
                } else {
                    append_header(&mut archive, &entry, size)?;
                    archive.old(entry.header + HEADER_LEN..entry.end);
                }
            }
            None => archive.old(entry.header..entry.end),
        }
    }
    Ok(archive)
}

fn member<'a>(entry: &Entry<'a>) -> Option<ThinMember<'a>> {
    let is_member = entry.kind == EntryKind::Member;
    is_member.then_some(ThinMember { path: entry.name, nested: entry.nested, size: entry.size })
}
