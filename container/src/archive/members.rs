//! The members of `ar` archives and fat files, and the common case of a file that is neither.

use std::borrow::Cow;
use std::vec;

use cfipack_format::widen::ToU64;

use super::entries::{Entries, Entry, EntryKind};
use super::symbol_index;
use crate::error::Error;
use crate::fat::{self, Slice};

/// A file inside a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The name in the archive, or its architecture in a fat file, or both with a colon between;
    /// none if the file itself is the only member.
    pub name: Option<Cow<'a, str>>,
    /// The bytes.
    pub bytes: &'a [u8],
    /// The architecture as `lipo` and `llvm-objdump --arch` call it (`x86_64`, `arm64`, `arm64e`): in
    /// a fat file by that file's header, elsewhere by its own; none if that is not Mach-O or ELF. Those of
    /// ELF are `x86_64`, `aarch64`, `aarch64_be` and `s390x`.
    pub arch: Option<Cow<'static, str>>,
    /// True if it comes from an archive, which may hold anything. What a fat file contains is of an
    /// architecture must be an object or a linked file.
    pub is_of_archive: bool,
}

/// The members of a file, in its order.
#[derive(Debug)]
pub struct Members<'a> {
    source: Source<'a>,
}

#[derive(Debug)]
enum Source<'a> {
    Single(Option<&'a [u8]>),
    Archive {
        bytes: &'a [u8],
        entries: Entries<'a>,
    },
    Fat {
        slices: vec::IntoIter<Slice<'a>>,
        /// The members of the slice that was begun, and its architecture.
        slice: Option<(Cow<'static, str>, Box<Members<'a>>)>,
    },
}

/// The members of an archive, the slices of a fat file (and their members where they are
/// archives), or the file itself if it is neither. Members need not be objects:
/// [`File::parse`](crate::File::parse) decides. An archive without members is an error, and a member whose name has more than 4096 bytes.
pub fn members(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if let Some(slices) = fat::slices(bytes)? {
        let source = Source::Fat { slices: slices.into_iter(), slice: None };
        return Ok(Members { source });
    }
    members_of_slice(bytes)
}

/// The members of what is not a fat file.
fn members_of_slice(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(Error::ThinArchive);
    }
    let Some(entries) = Entries::of(bytes) else {
        return Ok(Members { source: Source::Single(Some(bytes)) });
    };
    // The symbol index, which comes first, may claim the bytes of all that follow it.
    if let Some(Ok(index)) = entries.clone().next() {
        symbol_index::check(bytes, &index)?;
    }
    if next_of_archive(bytes, &mut entries.clone()).is_none() {
        return Err(Error::EmptyArchive { offset: object::archive::MAGIC.len().to_u64() });
    }
    Ok(Members { source: Source::Archive { bytes, entries } })
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<Member<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.source {
            Source::Single(bytes) => bytes.take().map(|bytes| Ok(Member::only(bytes))),
            Source::Archive { bytes, entries } => next_of_archive(bytes, entries),
            Source::Fat { slices, slice } => next_of_fat(slices, slice),
        }
    }
}

impl<'a> Member<'a> {
    /// A file that is neither an archive nor fat, as its own only member.
    pub fn only(bytes: &'a [u8]) -> Self {
        Self { name: None, bytes, arch: fat::arch(bytes), is_of_archive: false }
    }
}

impl<'a> Slice<'a> {
    /// The slice as a member of its file.
    pub fn member(&self) -> Member<'a> {
        let arch = Some(self.name.clone());
        Member { name: arch.clone(), bytes: self.bytes, arch, is_of_archive: false }
    }
}

impl<'a> Entry<'a> {
    /// The member that it is, in the bytes of the archive.
    pub fn member(&self, archive: &'a [u8]) -> Member<'a> {
        let (name, bytes) = (Some(String::from_utf8_lossy(self.name)), &archive[self.data.clone()]);
        Member { name, bytes, arch: fat::arch(bytes), is_of_archive: true }
    }
}

fn next_of_archive<'a>(bytes: &'a [u8], entries: &mut Entries<'a>) -> Option<Result<Member<'a>, Error>> {
    let is_member =
        |entry: &Result<Entry<'_>, _>| entry.as_ref().map_or(true, |entry| entry.kind == EntryKind::Member);
    let entry = entries.find(is_member)?;
    Some(entry.map(|entry| entry.member(bytes)))
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
