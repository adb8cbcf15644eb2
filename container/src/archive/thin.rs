//! Reads thin archives. The members of a thin archive are separate files, and the archive has only their names and
//! sizes.

use super::entries::{Entries, Entry, EntryKind};
use crate::error::Error;

/// A member of a thin archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ThinMember<'a> {
    /// The path of the member's file, relative to the directory of the archive. Parts are separated by `/`, and a
    /// path that starts with `/` is absolute.
    pub path: &'a [u8],
    /// If the file at [`path`](Self::path) is an archive itself: the offset of the member's header in that archive.
    pub nested: Option<u64>,
    /// The member's size in bytes, as the archive states it. The file may have changed since.
    pub size: u64,
}

/// Returns the members of a thin archive in file order, or `None` if the file is not a thin archive. A path may occur
/// several times.
///
/// # Errors
/// Returns [`Error::Archive`] for a damaged member.
pub fn thin_members(bytes: &[u8]) -> Result<Option<Vec<ThinMember<'_>>>, Error> {
    if !bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Ok(None);
    }
    let entries = Entries::parse(bytes).into_iter().flatten();
    let members = entries.filter_map(|entry| match entry {
        Ok(entry) => entry.thin_member().map(Ok),
        Err(error) => Some(Err(error)),
    });
    members.collect::<Result<_, _>>().map(Some)
}

impl<'a> Entry<'a> {
    /// Returns the entry as a member of a thin archive, or `None` if the entry is a table.
    pub fn thin_member(&self) -> Option<ThinMember<'a>> {
        let is_member = self.kind == EntryKind::Member;
        is_member.then_some(ThinMember { path: self.name, nested: self.nested, size: self.size })
    }
}
