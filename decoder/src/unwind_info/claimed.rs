//! The length of a table, according to its own fields.

use cfipack_format::unwind_info::{CompressedPage, ENCODING_SIZE, Header, IndexEntry, PERSONALITY_SIZE};
use cfipack_format::widen::ToU64;

use super::{Error, Section};

impl Section<'_> {
    /// Returns how many bytes the table at the start of `bytes` has at least, according to the fields in
    /// `bytes`.
    ///
    /// Use this function to find out how far to read when you do not know where the table ends. Call it again
    /// with the bytes that it asked for, because the result may grow: the header leads to the index, the index
    /// to the pages, and a page's header to its end. If `bytes` have no header, it returns the size of a
    /// header.
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
            // The sentinel's LSDA offset is the end of the LSDA index.
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
