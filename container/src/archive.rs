//! `ar` archives, and the common case of a file that is not one.

use std::borrow::Cow;

use object::read::archive::{ArchiveFile, ArchiveMemberIterator};

use crate::Error;

/// A file inside a file.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// Its name in the archive; none if the file itself is the only member.
    pub name: Option<Cow<'a, str>>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The members of a file, in its order.
#[derive(Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
    source: Source<'a>,
    /// Where the member starts that is read next, or just before its header.
    next: u64,
}

#[derive(Debug)]
enum Source<'a> {
    Single(Option<&'a [u8]>),
    Archive(Box<ArchiveMemberIterator<'a>>),
}

/// The members of an archive, or the file itself if it is none. Members need not be objects:
/// [`File::parse`](crate::File::parse) tells.
pub fn members(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(Error::ThinArchive);
    }
    let source = if bytes.starts_with(&object::archive::MAGIC) {
        let archive = ArchiveFile::parse(bytes).map_err(|_| Error::Archive { offset: 8 })?;
        Source::Archive(Box::new(archive.members()))
    } else {
        Source::Single(Some(bytes))
    };
    Ok(Members { bytes, source, next: object::archive::MAGIC.len() as u64 })
}

impl Members<'_> {
    /// Whether this is an archive, whose members are named.
    pub fn is_archive(&self) -> bool {
        matches!(self.source, Source::Archive(_))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let members = match &mut self.source {
            Source::Single(bytes) => {
                return bytes.take().map(|bytes| Ok(Member { name: None, bytes }));
            }
            Source::Archive(members) => members,
        };
        let Ok(member) = members.next()? else {
            return Some(Err(Error::Archive { offset: self.next }));
        };
        let name = Some(String::from_utf8_lossy(member.name()));
        let (offset, size) = member.file_range();
        self.next = offset.saturating_add(size);
        Some(
            member
                .data(self.bytes)
                .map(|bytes| Member { name, bytes })
                .map_err(|_| Error::Archive { offset }),
        )
    }
}
