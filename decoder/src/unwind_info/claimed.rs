//! The length of a table, by its own fields.

use cfipack_format::unwind_info::{CompressedPage, ENCODING_SIZE, Header, IndexEntry, PERSONALITY_SIZE};
use cfipack_format::widen::ToU64;

use super::{Error, Section};

impl Section<'_> {
    /// The least number of bytes of the table that `bytes` start with, as far as `bytes` determine: to know how far to
    /// read where the end is not known. With so many bytes at hand it may be more: the header leads to the index,
    /// the index to the pages, and a page's header to its end. The header's own size if `bytes` have no header.
    pub fn claimed_len(bytes: &[u8]) -> u64 {
        let Some(header) = bytes.first_chunk() else { return Header::SIZE.to_u64() };
        let header = Header::read(header);
        let array =
            |offset: u32, count: u32, size: usize| u64::from(offset) + u64::from(count) * size.to_u64();
        let index_end = array(header.index_off, header.index_count, IndexEntry::SIZE);
        let arrays = [
            Header::SIZE.to_u64(),
            array(header.common_off, header.common_count, ENCODING_SIZE),
            array(header.personalities_off, header.personalities_count, PERSONALITY_SIZE),
            index_end,
        ];
        let mut len = arrays.into_iter().max().unwrap_or(0);
        let Ok(section) = Section::parse(bytes) else { return len };
        for (number, entry) in section.index().enumerate() {
            // The sentinel's is the end of the LSDA index.
            len = len.max(entry.lsda_off.into());
            if entry.page_off != 0 {
                len = len.max(u64::from(entry.page_off) + CompressedPage::SIZE.to_u64());
            }
            len = len.max(match section.page(number) {
                Some(Ok(page)) => page.bytes_end().to_u64(),
                Some(Err(Error::OutOfBounds { offset, size, .. })) => offset.0.to_u64() + size,
                _ => 0,
            });
        }
        len
    }
}
