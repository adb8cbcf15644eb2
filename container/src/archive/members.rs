//! Iterates over the object files in a file: in an `ar` archive, in a fat file, or the file itself.

use std::borrow::Cow;
use std::vec;

use cfipack_format::widen::ToU64;

use super::entries::{Entries, Entry, EntryKind};
use super::symbol_index;
use crate::error::Error;
use crate::fat::{self, Slice};
use crate::unknown;

/// A file inside another file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member<'a> {
    /// The member's name in the archive, or its architecture in a fat file. If an archive is in a fat file, the name
    /// has both, for example `arm64:main.o`. It is `None` if the file is its own only member.
    pub name: Option<Cow<'a, str>>,
    /// The contents of the member.
    pub bytes: &'a [u8],
    /// The architecture, as `lipo` and `llvm-objdump --arch` call it, for example `x86_64`, `arm64` or `arm64e`. ELF
    /// files are named `x86_64`, `aarch64`, `aarch64_be` or `s390x`. In a fat file the name comes from the fat
    /// header, otherwise from the member's own header. It is `None` if the member is neither Mach-O nor ELF.
    pub arch: Option<Cow<'static, str>>,
    /// True if the member comes from an archive. An archive may contain any kind of file, while a slice of a fat file
    /// must be an object or a linked file.
    pub is_of_archive: bool,
}

impl Member<'_> {
    /// Returns whether the member is LLVM bitcode, which compilers write for link-time optimization.
    pub fn is_bitcode(&self) -> bool {
        self.bytes.get(..4).is_some_and(unknown::is_bitcode)
    }
}

/// Iterates over the members of a file in file order; see [`members`].
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
        /// The architecture and the members of the current slice.
        slice: Option<(Cow<'static, str>, Box<Members<'a>>)>,
    },
}

/// Returns the members of a file, so that you can treat all kinds of input alike:
///
/// - an archive has its members,
/// - a fat file has its slices, and the members of slices that are archives,
/// - any other file is its own only member.
///
/// Members need not be objects; [`File::parse`](crate::File::parse) decides.
///
/// # Errors
/// This function returns an error for an archive without members, a thin archive ([`Error::ThinArchive`]), a damaged
/// fat header or a damaged symbol index. The iterator returns an error for a damaged member, and for a member with a
/// name of more than 4096 bytes.
pub fn members(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if let Some(slices) = fat::slices(bytes)? {
        let source = Source::Fat { slices: slices.into_iter(), slice: None };
        return Ok(Members { source });
    }
    members_of_slice(bytes)
}

/// Returns the members of a file that is not a fat file.
fn members_of_slice(bytes: &[u8]) -> Result<Members<'_>, Error> {
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(Error::ThinArchive);
    }
    let Some(entries) = Entries::parse(bytes) else {
        return Ok(Members { source: Source::Single(Some(bytes)) });
    };
    // The symbol index comes first. If its size is damaged, it may claim the bytes of all members after it.
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
    /// Makes a member of a file that is neither an archive nor a fat file.
    pub fn only(bytes: &'a [u8]) -> Self {
        Self { name: None, bytes, arch: fat::arch(bytes), is_of_archive: false }
    }
}

impl<'a> Slice<'a> {
    /// Returns the slice as a member of the fat file.
    pub fn member(&self) -> Member<'a> {
        let arch = Some(self.name.clone());
        Member { name: arch.clone(), bytes: self.bytes, arch, is_of_archive: false }
    }
}

impl<'a> Entry<'a> {
    /// Returns the entry as a member of the archive with these bytes.
    pub fn member(&self, archive: &'a [u8]) -> Member<'a> {
        let (name, bytes) = (Some(String::from_utf8_lossy(self.name)), &archive[self.data.clone()]);
        Member { name, bytes, arch: fat::arch(bytes), is_of_archive: true }
    }
}

fn next_of_archive<'a>(bytes: &'a [u8], entries: &mut Entries<'a>) -> Option<Result<Member<'a>, Error>> {
    for entry in entries {
        match entry {
            Ok(entry) if entry.kind != EntryKind::Member => {}
            entry => return Some(entry.map(|entry| entry.member(bytes))),
        }
    }
    None
}

/// Returns the next member of a fat file, with its architecture in the name.
fn next_of_fat<'a>(
    slices: &mut vec::IntoIter<Slice<'a>>,
    begun: &mut Option<(Cow<'static, str>, Box<Members<'a>>)>,
) -> Option<Result<Member<'a>, Error>> {
    loop {
        if let Some((arch, members)) = begun
            && let Some(member) = members.next()
        {
            return Some(member.map(|member| Member {
                name: Some(match member.name {
                    Some(name) => Cow::Owned(format!("{arch}:{name}")),
                    None => arch.clone(),
                }),
                arch: Some(arch.clone()),
                ..member
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
