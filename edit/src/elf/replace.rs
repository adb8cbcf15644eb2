//! Replaces a section's bytes in a finished file. The new bytes must not be more than the old bytes.

use cfipack_container::{Error, File};
use cfipack_format::widen::{ToU64, ToUsize};
use object::read::elf::SectionHeader as _;

/// Bytes of a section header before the field with its size.
const SH_SIZE: usize = 0x20;

/// Replaces the bytes of an ELF section, which you name by its [index](cfipack_container::Section::index). The section
/// gets the size of the new bytes. The rest of its room in the file becomes zeros, and nothing moves. Returns `None` if
/// the bytes do not fit, or if the file is not ELF.
pub fn with_section(file: &File<'_>, index: usize, contents: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let Some(headers) = file.as_elf().map(|elf| elf.headers()) else { return Ok(None) };
    let room = headers.section_bytes(index)?.len();
    let Ok(header) = headers.sections.section(object::SectionIndex(index)) else { return Ok(None) };
    if contents.len() > room || !headers.has_bytes(header) {
        return Ok(None);
    }
    let mut bytes = headers.bytes.to_vec();
    // The offset lies in the file, because `section_bytes` has read the section.
    let at = header.sh_offset(headers.endian).to_usize();
    let (new, rest) = bytes[at..at + room].split_at_mut(contents.len());
    new.copy_from_slice(contents);
    rest.fill(0);
    let header = core::ptr::from_ref(header).addr() - headers.bytes.as_ptr().addr();
    let size = headers.arch.endian().put_u64(contents.len().to_u64());
    bytes[header + SH_SIZE..][..8].copy_from_slice(&size);
    Ok(Some(bytes))
}
