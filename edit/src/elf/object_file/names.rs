//! Appends and removes the names of a table and of its relocations.

use cfipack_format::widen::ToUsize;

use crate::rewrite::Rewrite;

/// The bytes of both names: `.sframe` is the end of `.rela.sframe`.
const BOTH: &[u8] = b".rela.sframe\0";

/// The number of bytes before `.sframe` in `.rela.sframe`.
const PREFIX_LEN: usize = 5;

/// The offsets of both names in a table of names.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TableNames {
    pub(super) sframe: u32,
    pub(super) relocations: u32,
}

/// Appends both names to a table of names, which `contents` already holds. Returns `None` if the table is too long.
pub(super) fn append(contents: &mut Rewrite<'_>) -> Option<TableNames> {
    let relocations = u32::try_from(contents.len()).ok()?;
    contents.bytes("names of .sframe and .rela.sframe", BOTH);
    Some(TableNames { sframe: relocations.checked_add(PREFIX_LEN as u32)?, relocations })
}

/// Returns the length of a table of names without both names, if they are at its end. `last_name` is the offset of the
/// last name in use. Both names stay if the last name lies in them.
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
