//! Where a section can be cut, for several threads.

use cfipack_format::SectionOffset;

use super::Section;

impl Section<'_> {
    /// The offset of the first record at or behind `offset`, or the section's length.
    pub fn record_at_or_after(&self, offset: SectionOffset) -> SectionOffset {
        let mut at = 0;
        while at < offset.0 {
            match self.record_end(at) {
                Some(end) => at = end,
                None => return SectionOffset(self.bytes.len()),
            }
        }
        SectionOffset(at)
    }

    /// Where a record starts that is the first at or behind `offset`; or, hardly ever, where something else
    /// does that looks like several records in a row. Nothing in front of `offset` is read but CIEs, unless
    /// nothing near it looks like that, as at the end of a section: then all records are.
    #[cfg(feature = "std")]
    pub(crate) fn likely_record_at_or_after(&self, offset: SectionOffset) -> SectionOffset {
        /// Nearly all records are shorter.
        const WINDOW: usize = 1 << 12;
        let first = offset.0.next_multiple_of(4);
        let likely = (first..first.saturating_add(WINDOW)).step_by(4).find(|&at| self.is_likely_record(at));
        likely.map_or_else(|| self.record_at_or_after(offset), SectionOffset)
    }

    /// Whether several records in a row start here, each a CIE or with the offset of one.
    #[cfg(feature = "std")]
    fn is_likely_record(&self, mut at: usize) -> bool {
        const IN_A_ROW: usize = 8;
        for _ in 0..IN_A_ROW {
            let Ok((Some(record), end)) = self.record(at) else { return false };
            let cie = if self.is_cie(&record) { Some(at) } else { self.cie_offset(&record) };
            let cie = cie.and_then(|cie| self.record(cie).ok()?.0);
            // Its version comes first.
            if !cie.is_some_and(|cie| self.is_cie(&cie) && matches!(cie.body, [1 | 3 | 4, ..])) {
                return false;
            }
            at = end;
        }
        true
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use alloc::vec::Vec;

    use cfipack_format::{Address, Arch, SectionOffset};

    use crate::cfi::{Section, SectionKind};

    /// A CIE and FDEs of several lengths: the guess is the record that a walk finds.
    #[test]
    fn a_guess_is_what_a_walk_finds() {
        let mut bytes = Vec::from(*b"\x14\0\0\0\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01\0\0");
        for number in 0..100u32 {
            let padding = 3 + number as usize % 7 * 4;
            let words = [13 + padding as u32, bytes.len() as u32 + 4, number, 1];
            bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
            bytes.extend(core::iter::repeat_n(0, 1 + padding));
        }
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        for offset in (0..=bytes.len() + 1).map(SectionOffset) {
            assert_eq!(section.likely_record_at_or_after(offset), section.record_at_or_after(offset));
        }
    }
}
