//! Finds places to divide a section between threads.

use cfipack_format::SectionOffset;

use crate::Section;
use crate::record::Records;

/// Returns the offset of the first record at or after `offset`, or the section's length. `record` is the offset of a
/// record that is not after `offset`, for example 0. This function reads all records between the two.
pub fn record_at_or_after(
    section: &Section<'_>,
    record: SectionOffset,
    offset: SectionOffset,
) -> SectionOffset {
    let records = Records::new(section, true);
    let mut at = record.0;
    while at < offset.0 {
        match records.record_end(at) {
            Some(end) => at = end,
            None => return SectionOffset(section.bytes.len()),
        }
    }
    SectionOffset(at)
}

/// Guesses the offset of the first record at or after `offset`, in constant time.
///
/// Rarely, the result is not a record but bytes that look like several records in a row. Returns `None` if
/// nothing within 4 kB looks like records, for example near the end of a section. Use this function to divide a
/// section between threads: with [`record_at_or_after`], each thread would need as long as a single thread
/// needs for everything. Before `offset`, only CIEs are read.
pub fn likely_record_at_or_after(section: &Section<'_>, offset: SectionOffset) -> Option<SectionOffset> {
    /// Nearly all records are shorter.
    const WINDOW: usize = 1 << 12;
    let records = Records::new(section, true);
    let first = offset.0.next_multiple_of(4);
    let mut places = (first..first.saturating_add(WINDOW)).step_by(4);
    places.find(|&at| is_likely_record(&records, at)).map(SectionOffset)
}

/// Returns whether several records in a row start at `at`, and each is a CIE or refers to a CIE.
fn is_likely_record(section: &Records<'_>, mut at: usize) -> bool {
    const IN_A_ROW: usize = 8;
    for _ in 0..IN_A_ROW {
        let Ok((Some(record), end)) = section.record(at) else { return false };
        let cie_at = if section.is_cie(&record) { Some(at) } else { section.cie_offset(&record) };
        let Some(cie_at) = cie_at else { return false };
        let Ok((Some(cie), _)) = section.record(cie_at) else { return false };
        // The version of the CIE is the first byte.
        if !section.is_cie(&cie) || !matches!(cie.body, [1 | 3 | 4, ..]) {
            return false;
        }
        at = end;
    }
    true
}

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch, SectionOffset};

    use super::{likely_record_at_or_after, record_at_or_after};
    use crate::SectionKind;
    use crate::record::Records;
    use crate::write::{Cie, Writer};

    /// The guess is the record that a walk finds, in a section with a CIE and FDEs of several lengths.
    #[test]
    fn a_guess_is_what_a_walk_finds() {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        let cie = writer.cie(&Cie::new(Arch::Amd64, &[])).unwrap();
        for number in 0..100 {
            let padding = 3 + number as usize % 7 * 4;
            writer.fde(&cie, Address(number), 1, None, &[0; 27][..padding]).unwrap();
        }
        let section = writer.section();
        for offset in (0..=section.bytes.len() + 1).map(SectionOffset) {
            let walked = record_at_or_after(&section, SectionOffset(0), offset);
            let mut end = Some(walked.0);
            (0..8).for_each(|_| end = end.and_then(|end| Records::new(&section, true).record_end(end)));
            assert_eq!(likely_record_at_or_after(&section, offset), end.map(|_| walked), "{offset}");
        }
    }

    /// A walk finds a record at each of these zeros, but it takes as long as a single thread needs for the
    /// section.
    #[test]
    fn where_nothing_looks_like_records_there_is_no_guess() {
        let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
        writer.cie(&Cie::new(Arch::Amd64, &[])).unwrap();
        writer.raw(&[0; 1 << 15]);
        let section = writer.section();
        let middle = SectionOffset(1 << 14);
        assert_eq!(record_at_or_after(&section, SectionOffset(0), middle), middle);
        assert_eq!(likely_record_at_or_after(&section, middle), None);
    }
}
