//! The names of sections: those of a table and its relocations appended and removed.

use cfipack_format::widen::ToUsize;

use crate::rewrite::Rewrite;

/// The bytes of both names: the first is the end of the second.
const BOTH: &[u8] = b".rela.sframe\0";

/// Bytes before the first name in the second.
const PREFIX_LEN: usize = 5;

/// The offsets of the two names in a table of names.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TableNames {
    pub(super) sframe: u32,
    pub(super) relocations: u32,
}

/// Appends the names to those of a table of names, which `contents` has already; none if it is too long.
pub(super) fn append(contents: &mut Rewrite<'_>) -> Option<TableNames> {
    let relocations = u32::try_from(contents.len()).ok()?;
    contents.bytes("names of .sframe and .rela.sframe", BOTH);
    Some(TableNames { sframe: relocations.checked_add(PREFIX_LEN as u32)?, relocations })
}

/// The length of a table of names without the names at its end, if they are there and no name that is left starts
/// at `last_name` in them.
pub(super) fn len_without(names: &[u8], last_name: u32) -> usize {
    match names.len().checked_sub(BOTH.len()) {
        Some(rest)
            if names.ends_with(BOTH) && last_name.to_usize() < rest && names[..rest].last() == Some(&0) =>
        {
            rest
        }
        _ => names.len(),
    }
}
