//! The names of sections: appends and removes the names of a table and of its relocations.

use core::ops::Range;

use cfipack_container::Error;
use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;
use object::read::elf::SectionHeader as _;

use super::edit::Edit;
use crate::embed_error::EmbedError;
use crate::rewrite::Rewrite;

/// The bytes of both names: `.sframe` is the end of `.rela.sframe`.
const BOTH: &[u8] = b".rela.sframe\0";

/// The number of bytes before `.sframe` in `.rela.sframe`.
const PREFIX_LEN: u32 = 5;

/// The offsets of both names in the names of sections.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct TableNames {
    pub(super) sframe: u32,
    pub(super) relocations: u32,
}

/// Refuses an object if the names of its sections cannot be read or have no end. An appended name would change them.
pub(super) fn check(edit: &Edit<'_, '_>) -> Result<(), EmbedError> {
    let names = range(edit).filter(|_| edit.names != 0).ok_or(missing(edit))?;
    match edit.headers.bytes[names.clone()].last() {
        Some(0) => Ok(()),
        _ => Err(damaged(&names)),
    }
}

/// Appends both names to the names of the object's sections.
pub(super) fn append(edit: &mut Edit<'_, '_>) -> Result<TableNames, EmbedError> {
    let old = range(edit).ok_or(missing(edit))?;
    // A name beyond the end would become the new name.
    if last_name(edit).to_usize() >= old.len() {
        return Err(damaged(&old));
    }
    let relocations = u32::try_from(old.len()).map_err(|_| damaged(&old))?;
    let sframe = relocations.checked_add(PREFIX_LEN).ok_or(damaged(&old))?;
    let mut contents = Rewrite::new();
    contents.old(old);
    contents.bytes("names of .sframe and .rela.sframe", BOTH);
    edit.set(edit.names, contents);
    Ok(TableNames { sframe, relocations })
}

/// Removes both names if they are the last names. They stay if they are in use.
pub(super) fn remove(edit: &mut Edit<'_, '_>) {
    let Some(old) = range(edit) else { return };
    let Some(rest) = edit.headers.bytes[old.clone()].strip_suffix(BOTH) else { return };
    if last_name(edit).to_usize() < rest.len() && rest.last() == Some(&0) {
        let mut contents = Rewrite::new();
        contents.old(old.start..old.start + rest.len());
        edit.set(edit.names, contents);
    }
}

/// Returns the offset of the last name that is in use by a section, or by a symbol if symbols use the same names.
fn last_name(edit: &Edit<'_, '_>) -> u32 {
    let endian = edit.headers.endian;
    let kept = edit.slots.iter().filter(|slot| !slot.is_removed);
    let last = kept.map(|slot| slot.header.sh_name.get(endian)).max().unwrap_or(0);
    let strings_of = |table: usize| edit.slots[table].header.sh_link(endian).to_usize();
    let of_symbols = edit.symbols.as_ref().filter(|symbols| strings_of(symbols.table) == edit.names);
    of_symbols.map_or(last, |symbols| last.max(symbols.last_name()))
}

/// Returns the range of the names of sections, or `None` if there are no names.
fn range(edit: &Edit<'_, '_>) -> Option<Range<usize>> {
    let slot = edit.slots.get(edit.names).filter(|slot| !slot.is_removed)?;
    let is_names = slot.header.sh_type(edit.headers.endian) == elf::SHT_STRTAB;
    slot.old.clone().filter(|_| is_names)
}

fn missing(edit: &Edit<'_, '_>) -> EmbedError {
    EmbedError::NoSectionNames { value: edit.names.to_u64() }
}

fn damaged(names: &Range<usize>) -> EmbedError {
    let (offset, value) = (names.start.to_u64(), names.len().to_u64());
    Error::Table { what: "names of sections", offset, value }.into()
}
