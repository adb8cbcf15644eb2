//! Thin archives: their members are files of their own, whose sizes the archive repeats.

use super::entries::{Entries, Entry, EntryKind};
use crate::error::Error;

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
        Ok(entry) => entry.thin_member().map(Ok),
        Err(error) => Some(Err(error)),
    });
    members.collect::<Result<_, _>>().map(Some)
}

impl<'a> Entry<'a> {
    /// The member that it is in a thin archive; none of a table.
    pub fn thin_member(&self) -> Option<ThinMember<'a>> {
        let is_member = self.kind == EntryKind::Member;
        is_member.then_some(ThinMember { path: self.name, nested: self.nested, size: self.size })
    }
}
