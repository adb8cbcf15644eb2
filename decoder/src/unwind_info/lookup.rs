//! The lookup by image offset.

use core::hint::select_unpredictable;

use cfipack_format::ImageOffset;
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::unwind_info::{
    CompressedEntry, CompressedPage, ENCODING_SIZE, IndexEntry, MAX_COMPRESSED_OFFSET, PageKind, RegularEntry,
};
use cfipack_format::widen::ToUsize;

use super::{Entry, Error, Section};

impl<'a> Section<'a> {
    /// Returns the entry for `pc`, or `None` before the first entry and from the sentinel on.
    ///
    /// # Errors
    /// The index around the entry, its page, or the entry itself is broken.
    pub fn lookup(&self, pc: ImageOffset) -> Result<Option<Entry>, Error> {
        match self.find(pc) {
            Some(entry) => Ok(Some(entry)),
            None => self.explain(pc),
        }
    }

    /// Does the lookup step by step, to find out why [`Section::find`] found nothing.
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

    /// Does the lookup in a correct table. This function keeps nothing that only an error needs, which makes
    /// it a quarter faster.
    ///
    /// A CPU works on several lookups at the same time, and a wrongly predicted branch discards the later
    /// lookups. So every branch here goes the same way for nearly all PCs.
    #[inline]
    fn find(&self, pc: ImageOffset) -> Option<Entry> {
        // For the highest PC the limit wraps to 0 and nothing is found; then `explain` answers.
        let limit = pc.0.wrapping_add(1);
        let number = last_below::<3, 96>(self.index.as_flattened().as_chunks().0, limit);
        let [this, next] = self.index.get(number..)?.first_chunk()?;
        let (this, next) = (IndexEntry::read(this), IndexEntry::read(next).function);
        let page = self.bytes.get(this.page_off.to_usize()..)?;
        let header = page.first_chunk()?;
        let (kind, header) = (PageKind::read(header), CompressedPage::read(header));
        let (entries_off, count) = (usize::from(header.entries_off), usize::from(header.entries_count));
        let (start, end, encoding) = match PageKind::from_number(kind)? {
            PageKind::Compressed => {
                // The word that starts one byte earlier has the function in its high bits, so the comparison
                // needs no mask. `explain` looks up a function at the very last offset.
                let size = count * CompressedEntry::SIZE;
                let page = page.get(entries_off.checked_sub(1)?..)?.get(..1 + size)?;
                let (_, in_place) = page.split_first()?;
                let (shifted, entries) = (page.as_chunks().0, in_place.as_chunks().0);
                let delta = pc.0.wrapping_sub(this.function.0);
                let limit = (delta.min(MAX_COMPRESSED_OFFSET - 1) + 1) << 8;
                let i = last_below::<1, 512>(shifted, limit);
                let entry = CompressedEntry::read(entries.get(i)?);
                let start = this.function.0.checked_add(entry.function_off())?;
                let end = match entries.get(i + 1) {
                    // If the sum exceeds 32 bits, it wraps to a value below the PC.
                    Some(b) => this.function.0.wrapping_add(CompressedEntry::read(b).function_off()),
                    None => next.0,
                };
                let own = this.page_off.to_usize() + usize::from(header.encodings_off);
                let encoding = self.encoding(entry.encoding_index(), own, header.encodings_count)?;
                (ImageOffset(start), ImageOffset(end), encoding)
            }
            PageKind::Regular => {
                let entries: &[[u8; RegularEntry::SIZE]] =
                    page.get(entries_off..)?.as_chunks().0.get(..count)?;
                let i = last_below::<2, 512>(entries.as_flattened().as_chunks().0, limit);
                let entry = RegularEntry::read(entries.get(i)?);
                let end = entries.get(i + 1).map_or(next, |b| RegularEntry::read(b).function);
                if entry.function < this.function {
                    return None;
                }
                (entry.function, end, entry.encoding)
            }
        };
        // Entries of the last page may start after the sentinel.
        let entry = Entry { start, end: end.min(next), encoding, page: number as u32 };
        (start <= pc && pc < end).then_some(entry)
    }

    /// Returns the encoding with this number, from the common palette or from the page's `own_count` encodings
    /// at `own`.
    #[inline]
    fn encoding(&self, number: u8, own: usize, own_count: u16) -> Option<Encoding> {
        let (number, common) = (usize::from(number), self.common.len());
        if number >= common + usize::from(own_count) {
            return None;
        }
        let is_common = number < common;
        let palette = select_unpredictable(is_common, self.header.common_off.to_usize(), own);
        let i = select_unpredictable(is_common, number, number.wrapping_sub(common));
        let b = self.bytes.get(palette + i * ENCODING_SIZE..)?.first_chunk()?;
        Some(Encoding(u32::from_le_bytes(*b)))
    }
}

/// Returns the number of the last item whose first word is below `limit`, or 0 if no item is below. Items have
/// `STRIDE` words and are sorted by their first word.
///
/// This is a `partition_point` that ends with a fixed number of steps, in a window of `WORDS` words (a power of
/// two of items). Counting down the size would take half of the instructions. It compares with "less", because
/// "less" needs a single flag of an x86 and "at most" needs two.
#[inline]
fn last_below<const STRIDE: usize, const WORDS: usize>(words: &[[u8; 4]], limit: u32) -> usize {
    let below = |word: &[u8; 4]| u32::from_le_bytes(*word) < limit;
    const { assert!(WORDS.is_multiple_of(STRIDE) && (WORDS / STRIDE).is_power_of_two()) };
    let window = WORDS / STRIDE;
    let (mut base, mut size) = (0, words.len() / STRIDE);
    let fixed = size >= window;
    let down_to = if fixed { 2 * window } else { 1 };
    while size > down_to {
        let half = size / 2;
        let Some(middle) = words.get((base + half) * STRIDE) else { break };
        base = select_unpredictable(below(middle), base + half, base);
        size -= half;
    }
    if !fixed {
        return base;
    }
    // A window at the start of the rest and a window at its end cover the rest. They may overlap.
    let back = base + size - window;
    let Some(word) = words.get(back * STRIDE) else { return base };
    base = select_unpredictable(below(word), back, base);
    let Some(words) = words.get(base * STRIDE..).and_then(|rest| rest.first_chunk::<WORDS>()) else {
        return base;
    };
    let (mut at, mut step) = (0, WORDS / 2);
    while step >= STRIDE {
        at = select_unpredictable(below(&words[at + step]), at + step, at);
        step /= 2;
    }
    base + at / STRIDE
}

/// If the search goes wrong, lookups are slow but not wrong, because [`Section::explain`] then answers. So
/// only a test in this file notices a wrong search.
#[cfg(test)]
mod tests {
    use super::last_below;

    fn every_size<const STRIDE: usize, const WORDS: usize>() {
        let mut words = [[0xff; 4]; 1200];
        for (i, word) in words.iter_mut().step_by(STRIDE).enumerate() {
            // Pairs of items are equal, and the last item of a pair counts.
            *word = (10 + i as u32 / 2).to_le_bytes();
        }
        for size in 1..=words.len() / STRIDE {
            let words = &words[..size * STRIDE];
            for limit in 0..12 + size as u32 / 2 {
                let below = words.iter().step_by(STRIDE).filter(|word| u32::from_le_bytes(**word) < limit);
                let expected = below.count().saturating_sub(1);
                assert_eq!(last_below::<STRIDE, WORDS>(words, limit), expected, "{limit} in {size} items");
            }
        }
        assert_eq!(last_below::<STRIDE, WORDS>(&[], 1), 0);
    }

    #[test]
    fn the_last_item_below_a_limit_is_found_in_every_size() {
        every_size::<3, 96>();
        every_size::<2, 128>();
        every_size::<1, 64>();
    }
}
