//! Where a section can be cut, for several threads.

use cfipack_format::SectionOffset;

use crate::Section;

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
    /// does that looks like several records in a row. `None` where nothing near it looks like that, as at the
    /// end of a section: to walk there from its start would take each thread as long as one alone takes.
    /// Nothing in front of `offset` is read but CIEs.
    pub fn likely_record_at_or_after(&self, offset: SectionOffset) -> Option<SectionOffset> {
        /// Nearly all records are shorter.
        const WINDOW: usize = 1 << 12;
        let first = offset.0.next_multiple_of(4);
        let mut places = (first..first.saturating_add(WINDOW)).step_by(4);
        places.find(|&at| self.is_likely_record(at)).map(SectionOffset)
    }

    /// Whether several records in a row start here, each a CIE or with the offset of one.
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

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch, SectionOffset};

    use crate::eh_frame::{CIE, fde};
    use crate::{Section, SectionKind};

    /// A CIE and FDEs of several lengths: the guess is the record that a walk finds.
    #[test]
    fn a_guess_is_what_a_walk_finds() {
        let mut bytes = CIE.to_vec();
        for number in 0..100u32 {
            let padding = 3 + number as usize % 7 * 4;
            fde(&mut bytes, 0, number, 1, &[0; 27][..padding]);
        }
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        for offset in (0..=bytes.len() + 1).map(SectionOffset) {
            let walked = section.record_at_or_after(offset);
            let mut end = Some(walked.0);
            (0..8).for_each(|_| end = end.and_then(|end| section.record_end(end)));
            assert_eq!(section.likely_record_at_or_after(offset), end.map(|_| walked), "{offset}");
        }
    }

    /// A walk finds a record at each of these zeros, but takes as long as one thread does for all of them.
    #[test]
    fn where_nothing_looks_like_records_there_is_no_guess() {
        let bytes = [&CIE[..], &[0; 1 << 15]].concat();
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let middle = SectionOffset(1 << 14);
        assert_eq!(section.record_at_or_after(middle), middle);
        assert_eq!(section.likely_record_at_or_after(middle), None);
    }
}
