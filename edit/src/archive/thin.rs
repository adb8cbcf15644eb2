//! Thin archives. The members are separate files, and the archive repeats their sizes.

use cfipack_container::raw::archive::{Entries, HEADER_LEN};
use cfipack_container::{Error, ThinMember};

use super::entries::append_header;
use crate::rewrite::Rewrite;

/// Updates the sizes of a thin archive's members after you have rewritten the members. `size` returns the new size of
/// each member. Everything else stays: the symbol index leads to headers in the archive, and headers do not move. A
/// file that is not a thin archive is unchanged.
///
/// # Errors
/// Returns the errors of `size`, [`Error::Archive`] for a damaged entry, and [`Error::ArchiveSize`] for a size that
/// does not fit into its field.
pub fn resize_thin_members<'a, E: From<Error>>(
    bytes: &'a [u8],
    mut size: impl FnMut(&ThinMember<'a>) -> Result<u64, E>,
) -> Result<Rewrite<'a>, E> {
    let mut archive = Rewrite::new();
    if !bytes.starts_with(&object::archive::THIN_MAGIC) {
        return Ok(Rewrite::unchanged(bytes.len()));
    }
    archive.old(0..object::archive::MAGIC.len());
    for entry in Entries::parse(bytes).into_iter().flatten() {
        let entry = entry?;
        let mut start = entry.header;
        if let Some(member) = entry.thin_member() {
            let size = size(&member)?;
            if size != member.size {
                append_header(&mut archive, &entry, size)?;
                start += HEADER_LEN;
            }
        }
        archive.old(start..entry.end);
    }
    Ok(archive)
}
