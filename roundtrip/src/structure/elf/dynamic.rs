//! Compares the dynamic section: each entry must lead to the same place as before.

use object::elf;

use super::error::StructureError;
use super::image::Image;
use super::pairs::Pair;
use super::{Check, check_fields};

/// Bytes of an entry.
const ENTRY: usize = 16;

/// Compares the entries. An address in a moved section must have moved with the section.
pub(super) fn check(check: &Check<'_>, pair: Pair) -> Result<(), StructureError> {
    let Check { old, new, pairs } = check;
    let (from, to) = (old.contents(pair.old), new.contents(pair.new));
    let whole = from.len() / ENTRY * ENTRY;
    if from[whole..] != to[whole..] {
        return check.same_bytes(pair);
    }
    for (index, (a, b)) in from.chunks_exact(ENTRY).zip(to.chunks_exact(ENTRY)).enumerate() {
        let (tag, value) = (old.u64(a, 0), old.u64(a, 8));
        let (new_tag, new_value) = (new.u64(b, 0), new.u64(b, 8));
        let expected = if is_address(tag) { pairs.new_address(value) } else { value };
        let fields = [("d_tag", tag, new_tag), ("d_val", expected, new_value)];
        let section = pair.new;
        check_fields(&fields, |field, old, new| StructureError::Item { section, index, field, old, new })?;
    }
    Ok(())
}

/// Returns whether the dynamic section states that the file is a program (`DF_1_PIE`).
pub(super) fn is_pie(image: &Image<'_>) -> bool {
    let mut segments = image.segments.iter().filter(|segment| segment.kind == elf::PT_DYNAMIC.0);
    let range = segments.next().and_then(|segment| image.range(segment.offset, segment.filesz));
    let mut entries = image.bytes[range.unwrap_or(0..0)].chunks_exact(ENTRY);
    entries.any(|entry| {
        let (tag, value) = (image.u64(entry, 0), image.u64(entry, 8));
        tag == elf::DT_FLAGS_1.0 as u64 && value & elf::DF_1_PIE.0 != 0
    })
}

/// Returns whether the value of a tag is an address, as the generic ABI and its GNU additions define it.
fn is_address(tag: u64) -> bool {
    let tag = elf::DynamicTag(tag as i64);
    let generic = [
        elf::DT_PLTGOT,
        elf::DT_HASH,
        elf::DT_STRTAB,
        elf::DT_SYMTAB,
        elf::DT_RELA,
        elf::DT_INIT,
        elf::DT_FINI,
        elf::DT_REL,
        elf::DT_JMPREL,
        elf::DT_INIT_ARRAY,
        elf::DT_FINI_ARRAY,
        elf::DT_PREINIT_ARRAY,
        elf::DT_RELR,
        elf::DT_VERSYM,
        elf::DT_VERDEF,
        elf::DT_VERNEED,
    ];
    generic.contains(&tag) || (elf::DT_ADDRRNGLO..=elf::DT_ADDRRNGHI).contains(&tag.0)
}
