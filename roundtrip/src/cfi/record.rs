//! The places of a section's records.

use cfipack_format::cfi::{Section, SectionKind};

/// A CIE or an FDE. Only its kind and its place are known.
pub(super) struct Record {
    pub offset: usize,
    /// The offset of the first byte after the CIE pointer.
    pub body: usize,
    /// One past the last byte.
    pub end: usize,
    pub is_cie: bool,
}

/// Returns the records of a section. It skips terminators in the middle and [excluded](Section::excluded) FDEs. A
/// record that ends beyond the section is the last record. gimli refuses this record, so that it is reported.
pub(super) fn records<'s>(section: &Section<'s>) -> impl Iterator<Item = Record> + use<'s> {
    let (section, mut at) = (*section, 0);
    std::iter::from_fn(move || {
        loop {
            let Some(record) = record_at(&section, at)? else {
                at += 4;
                continue;
            };
            at = record.end.min(section.bytes.len());
            let excluded = section.excluded;
            if excluded.is_empty() || excluded.binary_search_by_key(&record.offset, |it| it.fde.0).is_err() {
                return Some(record);
            }
        }
    })
}

/// Returns the record at an offset. Returns `Some(None)` for a terminator, which has the length 0, and `None` at the
/// section's end.
#[inline]
pub(super) fn record_at(section: &Section<'_>, offset: usize) -> Option<Option<Record>> {
    let (bytes, endian) = (section.bytes, section.arch.endian());
    let u32_at = move |at: usize| Some(endian.u32(*bytes.get(at..)?.first_chunk()?));
    let u64_at = move |at: usize| Some(endian.u64(*bytes.get(at..)?.first_chunk()?));
    let (length, start) = match u32_at(offset)? {
        0 => return Some(None),
        u32::MAX => (u64_at(offset + 4)?, offset + 12),
        length => (u64::from(length), offset + 4),
    };
    let end = usize::try_from(length).map_or(usize::MAX, |length| start.saturating_add(length));
    // In `.eh_frame` the CIE pointer has 4 bytes even after a 64-bit length.
    let (is_cie, body) = match section.kind {
        SectionKind::EhFrame => (u32_at(start) == Some(0), start + 4),
        SectionKind::DebugFrame if start == offset + 12 => (u64_at(start) == Some(u64::MAX), start + 8),
        SectionKind::DebugFrame => (u32_at(start) == Some(u32::MAX), start + 4),
    };
    Some(Some(Record { offset, body, end, is_cie }))
}

/// Returns the offsets of a section's records, in ascending order.
pub(crate) fn record_offsets(section: &Section<'_>) -> Vec<usize> {
    records(section).map(|record| record.offset).collect()
}
