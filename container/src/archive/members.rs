//! The members of `ar` archives and fat files, and the common case of a file that is neither.

use std::borrow::Cow;
use std::vec;

use object::read::archive::{ArchiveFile, ArchiveMemberIterator};

use crate::Error;
use crate::fat::{self, Slice};

/// A file inside a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// Its name in the archive, or its architecture in a fat file, or both with a colon between;
    /// none if the file itself is the only member.
    pub name: Option<Cow<'a, str>>,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its architecture as `lipo` and `llvm-objdump --arch` call it (`x86_64`, `arm64`, `arm64e`): in
    /// a fat file by that file's header, elsewhere by its own; none if that is not Mach-O or ELF. Those of
    /// ELF are `x86_64`, `aarch64`, `aarch64_be` and `s390x`.
    pub arch: Option<Cow<'static, str>>,
    /// Whether it comes from an archive, which may hold anything. What a fat file contains is of an
    /// architecture must be an object or a linked file.
    pub is_of_archive: bool,
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
    Fat {
        slices: vec::IntoIter<Slice<'a>>,
        /// The members of the slice that was begun, and its architecture.
        slice: Option<(Cow<'static, str>, Box<Members<'a>>)>,
    },
}

/// The members of an archive, the slices of a fat file (and their members where they are
/// archives), or the file itself if it is neither. Members need not be objects:
/// [`File::parse`](crate::File::parse) decides. An archive without members is an error.
pub fn members(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(Error::ThinArchive);
    }
    if let Some(slices) = fat::slices(bytes)? {
        let source = Source::Fat { slices: slices.into_iter(), slice: None };
        return Ok(Members { bytes, source, next: 0 });
    }
    members_of_slice(bytes)
}

/// The members of what is not a fat file.
fn members_of_slice(bytes: &[u8]) -> Result<Members<'_>, Error> {
    let source = if bytes.starts_with(&object::archive::MAGIC) {
        let offset = object::archive::MAGIC.len() as u64;
        let archive = ArchiveFile::parse(bytes).map_err(|_| Error::Archive { offset })?;
        // The table of symbols, which comes first, may claim the bytes of all that follow it.
        archive.symbols().map_err(|_| Error::Archive { offset })?;
        if archive.members().next().is_none() {
            return Err(Error::EmptyArchive { offset });
        }
        Source::Archive(Box::new(archive.members()))
    } else {
        Source::Single(Some(bytes))
    };
    Ok(Members { bytes, source, next: object::archive::MAGIC.len() as u64 })
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let members = match &mut self.source {
            Source::Single(bytes) => {
                return bytes.take().map(|bytes| {
                    Ok(Member { name: None, bytes, arch: fat::arch(bytes), is_of_archive: false })
                });
            }
            Source::Archive(members) => members,
            Source::Fat { slices, slice } => return next_of_fat(slices, slice),
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
                .map(|bytes| Member { name, bytes, arch: fat::arch(bytes), is_of_archive: true })
                .map_err(|_| Error::Archive { offset }),
        )
    }
}

/// The next member of a fat file, under its architecture's name.
fn next_of_fat<'a>(
    slices: &mut vec::IntoIter<Slice<'a>>,
    begun: &mut Option<(Cow<'static, str>, Box<Members<'a>>)>,
) -> Option<Result<Member<'a>, Error>> {
    loop {
        if let Some((arch, members)) = begun
            && let Some(member) = members.next()
        {
            let in_arch = |name: Option<Cow<'_, str>>| match name {
                Some(name) => Cow::Owned(format!("{arch}:{name}")),
                None => arch.clone(),
            };
            return Some(member.map(|Member { name, bytes, is_of_archive, .. }| Member {
                name: Some(in_arch(name)),
                bytes,
                arch: Some(arch.clone()),
                is_of_archive,
            }));
        }
        let slice = slices.next()?;
        match members_of_slice(slice.bytes) {
            Ok(members) => *begun = Some((slice.name, Box::new(members))),
            Err(error) => {
                *begun = None;
                return Some(Err(error));
            }
        }
    }
}
