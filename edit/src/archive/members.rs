//! Rebuilds an archive around changed members.

use std::borrow::Cow;

use cfipack_container::raw::archive::{Entries, Entry, EntryKind, HEADER_LEN};
use cfipack_container::raw::fat;
use cfipack_container::{Error, Member};
use cfipack_format::widen::ToU64;

use super::entries::append_header;
use super::symbol_index;
use crate::rewrite::Rewrite;

/// The alignment of members in archives of Darwin. The padding is part of the member.
const DARWIN_ALIGN: usize = 8;

/// Rebuilds an archive. It calls `rewrite` for each member, in the order of the archive, and puts the result in the
/// place of the member. `None`, or the same bytes, leaves a member as it is. A new member must define the symbols of
/// the old member, because the symbol index stays.
///
/// Names (also duplicates), dates, owners, modes and the order stay. In the symbol index only offsets change. A changed
/// member of odd length is padded with `\n`. In an archive of Darwin, each member starts at a multiple of 8, after its
/// name. There, a changed member is padded with `\n` to a multiple of 8, and the padding counts as part of the member.
/// A file that is not an archive is treated as its own only member.
///
/// ```
/// # fn strip(archive: &[u8]) -> Result<Vec<u8>, cfipack_edit::EmbedError> {
/// use cfipack_container::File;
/// use cfipack_edit::{rewrite_members, without_sframe};
///
/// let rewrite = rewrite_members(archive, |member| match File::parse(member.bytes) {
///     Ok(file) => without_sframe(&file),
///     // Archives may hold anything.
///     Err(_) => Ok(None),
/// })?;
/// # Ok(rewrite.to_vec(archive)) }
/// ```
///
/// # Errors
/// Returns the errors of `rewrite`, and:
///
/// - [`Error::ThinArchive`], because the members are in other files: use
///   [`resize_thin_members`](crate::resize_thin_members).
/// - [`Error::Unsupported`] for AIX archives, and for fat files: use [`rewrite_slices`](crate::rewrite_slices).
/// - [`Error::Archive`] for a damaged entry, and for Microsoft's second symbol index.
/// - [`Error::ArchiveIndex`] if an entry of the symbol index does not lead to a member.
/// - [`Error::ArchiveSize`] if a size or an offset no longer fits into its field.
pub fn rewrite_members<'a, E: From<Error>>(
    bytes: &'a [u8],
    mut rewrite: impl FnMut(&Member<'a>) -> Result<Option<Rewrite<'a>>, E>,
) -> Result<Rewrite<'a>, E> {
    if bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Err(Error::ThinArchive.into());
    }
    let is_other = bytes.starts_with(&object::archive::AIX_BIG_MAGIC) || fat::has_magic(bytes);
    if is_other && let Some(&magic) = bytes.first_chunk() {
        let value = u32::from_be_bytes(magic).into();
        let name = fat::has_magic(bytes).then_some("of a fat Mach-O file");
        return Err(Error::Unsupported { what: "archive format", offset: 0, value, name }.into());
    }
    let Some(entries) = Entries::parse(bytes) else {
        return Ok(rewrite(&Member::only(bytes))?.unwrap_or_else(|| Rewrite::unchanged(bytes.len())));
    };
    let entries: Vec<_> = entries.collect::<Result<_, _>>()?;
    if let Some(foreign) = entries.iter().find(|entry| entry.kind == EntryKind::Foreign) {
        return Err(Error::Archive { offset: foreign.header.to_u64() }.into());
    }
    let mut changed = Vec::new();
    for entry in &entries {
        changed.push(match entry.kind {
            EntryKind::Member => {
                let member = entry.member(bytes);
                rewrite(&member)?.filter(|rewrite| !rewrite.is_unchanged(member.bytes))
            }
            _ => None,
        });
    }
    if changed.iter().all(Option::is_none) {
        return Ok(Rewrite::unchanged(bytes.len()));
    }
    Ok(assemble(bytes, &entries, changed)?)
}

/// Builds the archive from its entries, with the changed contents of some of them.
fn assemble<'a>(
    bytes: &'a [u8],
    entries: &[Entry<'a>],
    mut changed: Vec<Option<Rewrite<'a>>>,
) -> Result<Rewrite<'a>, Error> {
    if is_of_darwin(entries) {
        for member in changed.iter_mut().flatten() {
            pad(member, DARWIN_ALIGN);
        }
    }
    let moved = moved(entries, &changed);
    let mut archive = Rewrite::new();
    archive.old(0..object::archive::MAGIC.len());
    for (entry, changed) in entries.iter().zip(changed) {
        pad(&mut archive, 2);
        match (entry.kind, changed) {
            (EntryKind::SymbolIndex(kind), _) => {
                symbol_index::append(&mut archive, bytes, entry, kind, &moved)?;
            }
            (_, None) => archive.old(entry.header..entry.end),
            (_, Some(member)) => {
                let name_len = entry.data.start - entry.header - HEADER_LEN;
                append_header(&mut archive, entry, (name_len + member.len()).to_u64())?;
                archive.old(entry.header + HEADER_LEN..entry.data.start);
                archive.append(member, entry.data.start);
                pad(&mut archive, 2);
            }
        }
    }
    Ok(archive)
}

/// Returns whether each member starts at a multiple of 8, because a padded name comes before it.
fn is_of_darwin(entries: &[Entry<'_>]) -> bool {
    let mut members = entries.iter().filter(|entry| entry.kind == EntryKind::Member);
    members.all(|entry| {
        let has_name = entry.data.start > entry.header + HEADER_LEN;
        has_name && entry.data.start % DARWIN_ALIGN == 0 && entry.data.len() % DARWIN_ALIGN == 0
    })
}

/// Returns the offsets of each entry's header in the old and in the new archive.
fn moved(entries: &[Entry<'_>], changed: &[Option<Rewrite<'_>>]) -> Vec<(usize, usize)> {
    let mut next = object::archive::MAGIC.len();
    let mut moved = Vec::with_capacity(entries.len());
    for (entry, changed) in entries.iter().zip(changed) {
        moved.push((entry.header, next));
        let length = match changed {
            Some(member) => entry.data.start - entry.header + member.len(),
            None => entry.end - entry.header,
        };
        next = (next + length).next_multiple_of(2);
    }
    moved
}

/// Fills up with the byte that archives are padded with.
fn pad(rewrite: &mut Rewrite<'_>, align: usize) {
    let padding = rewrite.len().next_multiple_of(align) - rewrite.len();
    rewrite.bytes(Cow::Borrowed("padding of a member"), vec![b'\n'; padding]);
}
