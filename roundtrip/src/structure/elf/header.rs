//! Compares the ELF headers.

use super::error::StructureError;
use super::image::Image;

/// The fields that must stay, with offset and size.
const FIELDS: [(&str, usize, usize); 10] = [
    ("e_ident", 0, 8),
    ("e_ident", 8, 8),
    ("e_type", 16, 2),
    ("e_machine", 18, 2),
    ("e_version", 20, 4),
    ("e_entry", 24, 8),
    ("e_flags", 48, 4),
    ("e_ehsize", 52, 2),
    ("e_phentsize", 54, 2),
    ("e_shentsize", 58, 2),
];

/// The fields that describe program headers.
const SEGMENTS: [(&str, usize, usize); 2] = [("e_phoff", 32, 8), ("e_phnum", 56, 2)];

/// The fields that describe section headers.
const SECTIONS: [(&str, usize, usize); 3] = [("e_shoff", 40, 8), ("e_shnum", 60, 2), ("e_shstrndx", 62, 2)];

/// Compares the headers. The fields for program headers must stay too if the new file has no program headers. The same
/// holds for section headers.
pub(super) fn check(old: &Image<'_>, new: &Image<'_>) -> Result<(), StructureError> {
    let fields = FIELDS.iter().chain(if new.segments.is_empty() { &SEGMENTS[..] } else { &[] });
    for &(field, offset, size) in fields.chain(if new.sections.is_empty() { &SECTIONS[..] } else { &[] }) {
        let range = offset..offset + size;
        if old.bytes[range.clone()] != new.bytes[range] {
            let value = |image: &Image<'_>| match size {
                2 => image.u16(image.bytes, offset).into(),
                4 => image.u32(image.bytes, offset).into(),
                _ => image.u64(image.bytes, offset),
            };
            return Err(StructureError::Header { field, old: value(old), new: value(new) });
        }
    }
    Ok(())
}
