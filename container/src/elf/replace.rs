//! A section's bytes in a finished file replaced by fewer.

use object::read::elf::SectionHeader as _;

use super::Headers;
use crate::Error;

/// Bytes of a section header before the field with its size.
const SH_SIZE: usize = 0x20;

impl Headers<'_> {
    /// The file with other bytes in a section, which has room for them: the header's size becomes theirs, what is left
    /// over becomes zeros, and nothing moves. None if they do not fit.
    pub(crate) fn with_section(&self, index: usize, contents: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let room = self.section_bytes(index)?.len();
        let Ok(header) = self.sections.section(object::SectionIndex(index)) else { return Ok(None) };
        if contents.len() > room || !self.has_bytes(header) {
            return Ok(None);
        }
        let mut bytes = self.bytes.to_vec();
        // It has been read there.
        let at = header.sh_offset(self.endian) as usize;
        let (new, rest) = bytes[at..at + room].split_at_mut(contents.len());
        new.copy_from_slice(contents);
        rest.fill(0);
        let header = core::ptr::from_ref(header).addr() - self.bytes.as_ptr().addr();
        let size = self.arch.endian().put_u64(contents.len() as u64);
        bytes[header + SH_SIZE..][..8].copy_from_slice(&size);
        Ok(Some(bytes))
    }
}
