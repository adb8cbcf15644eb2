//! The lookup by image offset.

use core::hint::select_unpredictable;

use cfipack_format::ImageOffset;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, IndexEntry, PageKind, RegularEntry,
};

use super::{Entry, Error, Section};

impl<'a> Section<'a> {
    /// The entry that answers for `pc`; `None` below the first and from the sentinel on.
    ///
    /// # Errors
    /// What is broken on the way to the entry: the index around it, its page, the entry.
    pub fn lookup(&self, pc: ImageOffset) -> Result<Option<Entry>, Error> {
        match self.find(pc) {
            Some(entry) => Ok(Some(entry)),
            None => self.explain(pc),
        }
    }

    /// The lookup step by step: to learn why [`Section::find`] found nothing.
    #[cold]
    fn explain(&self, pc: ImageOffset) -> Result<Option<Entry>, Error> {
        let after = self.index.partition_point(|b| IndexEntry::read(b).function <= pc);
        let Some(number) = after.checked_sub(1) else { return Ok(None) };
        let Some(page) = self.page(number).transpose()? else { return Ok(None) };
        if page.end() <= pc {
            let offset = self.index_entry_offset(after, 0);
            return Err(Error::IndexUnsorted { offset, function: page.end() });
        }
        page.lookup(pc)
    }

    /// The lookup where all is well. It keeps nothing that only an error would need, which makes
    /// it a quarter faster.
    #[inline]
    fn find(&self, pc: ImageOffset) -> Option<Entry> {
        let after = count_up_to::<_, 32>(self.index, pc.0, |b| IndexEntry::read(b).function.0);
        let number = after.checked_sub(1)?;
        let this = IndexEntry::read(self.index.get(number)?);
        let next = IndexEntry::read(self.index.get(after)?).function;
        let bytes = self.bytes.get(this.page_off as usize..)?;
        let header = bytes.first_chunk()?;
        let (kind, header) = (PageKind::read(header), CompressedPage::read(header));
        let (start, end, encoding) = match PageKind::from_number(kind)? {
            PageKind::Compressed => {
                let entries = array(bytes, header.entries_off, header.entries_count)?;
                let delta = pc.0.wrapping_sub(this.function.0);
                let after =
                    count_up_to::<_, 512>(entries, delta, |b| CompressedEntry::read(b).function_off());
                let i = after.checked_sub(1)?;
                let entry = CompressedEntry::read(entries.get(i)?);
                let start = this.function.0.checked_add(entry.function_off())?;
                let end = match entries.get(after) {
                    // Beyond 32 bits it comes to lie below the PC.
                    Some(b) => this.function.0.wrapping_add(CompressedEntry::read(b).function_off()),
                    None => next.0,
                };
                let encoding = self.encoding(entry.encoding_index(), bytes, &header)?;
                (ImageOffset(start), ImageOffset(end), encoding)
            }
            PageKind::Regular => {
                let entries = array(bytes, header.entries_off, header.entries_count)?;
                let after = count_up_to::<_, 256>(entries, pc.0, |b| RegularEntry::read(b).function.0);
                let i = after.checked_sub(1)?;
                let entry = RegularEntry::read(entries.get(i)?);
                let end = entries.get(after).map_or(next, |b| RegularEntry::read(b).function);
                if entry.function < this.function {
                    return None;
                }
                (entry.function, end, entry.encoding)
            }
        };
        let entry = Entry { start, end, encoding, page: number as u32 };
        (start <= pc && pc < end).then_some(entry)
    }

    /// The encoding with this number, of the common ones or of the page's own.
    #[inline]
    fn encoding(&self, index: u8, page: &[u8], header: &CompressedPage) -> Option<Encoding> {
        let index = usize::from(index);
        let b = match self.common.get(index) {
            Some(b) => b,
            None => array::<ENCODING_SIZE>(page, header.encodings_off, header.encodings_count)?
                .get(index - self.common.len())?,
        };
        Some(Encoding(u32::from_le_bytes(*b)))
    }
}

/// An array of a page.
#[inline]
fn array<const SIZE: usize>(page: &[u8], offset: u16, count: u16) -> Option<&[[u8; SIZE]]> {
    page.get(usize::from(offset)..)?.as_chunks().0.get(..usize::from(count))
}

/// How many items, of an array sorted by `key`, have one of at most `limit`.
///
/// A `partition_point` whose last steps, from `WINDOW` (a power of two) items on, are a fixed
/// number: counting the size down is half of its instructions. It compares with "less", because
/// that needs one flag of an x86 and "at most" needs two.
#[inline]
fn count_up_to<const SIZE: usize, const WINDOW: usize>(
    items: &[[u8; SIZE]],
    limit: u32,
    key: impl Fn(&[u8; SIZE]) -> u32,
) -> usize {
    // Of the highest limit none is found.
    let limit = limit.wrapping_add(1);
    let up_to = |item: &[u8; SIZE]| key(item) < limit;
    let Some(last) = items.len().checked_sub(WINDOW) else { return items.partition_point(up_to) };
    let (mut base, mut size) = (0, items.len());
    while size > WINDOW {
        let half = size / 2;
        let Some(middle) = items.get(base + half) else { break };
        base = select_unpredictable(up_to(middle), base + half, base);
        size -= half;
    }
    // In front of the window are items up to the limit only, and behind it are none.
    let base = base.min(last);
    let Some(window) = items.get(base..).and_then(|rest| rest.first_chunk::<WINDOW>()) else { return 0 };
    let mut count = 0;
    let mut step = WINDOW / 2;
    while step > 0 {
        count = select_unpredictable(up_to(&window[count + step - 1]), count + step, count);
        step /= 2;
    }
    base + count + usize::from(up_to(&window[count]))
}
