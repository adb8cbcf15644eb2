//! Room in the unused rest of a read-only segment's last page: no new segment, and nothing moves.

use cfipack_format::widen::ToU64;

use super::evict::drop_repeated_note;
use super::header::Segment;
use super::plan::Plan;
use super::source::Source;

/// The number of segments that are tried. Programs have at most three that can only be read.
const MAX_TRIES: usize = 8;

/// Plans the file with a table at the end of a segment, where it has room without a section moving; None if there is no such
/// segment. With `reuse_note`, the table's program header takes the place of a `PT_NOTE`.
pub(super) fn plan(source: &Source<'_>, table_len: u64, reuse_note: bool) -> Option<Plan> {
    let mut plan = Plan::unchanged(source);
    if reuse_note && !drop_repeated_note(&mut plan.segments) {
        return None;
    }
    // No new segment, only the table's header.
    let limit = source.phoff + (plan.segments.len().to_u64() + 1) * Segment::LEN;
    let gained = source.ph_end()..limit.max(source.ph_end());
    source.load_with(&gained)?;
    if source.next_use(gained.start, None) < gained.end || !source.is_zero(gained.clone(), None) {
        return None;
    }
    for segment in source.segments.iter().filter(|segment| segment.is_constant()).take(MAX_TRIES) {
        let end = segment.range().end;
        let offset = end.next_multiple_of(8);
        let table_end = offset.checked_add(table_len)?;
        let end_address = segment.address.checked_add(table_end - segment.offset)?;
        let later = source.loaded().filter(|other| other.address > segment.address);
        let next_page = later.map(|other| other.address - other.address % source.page()).min();
        let fits = segment.address_of(offset).is_multiple_of(8)
            && next_page.is_none_or(|page| end_address <= page)
            && table_end <= source.next_use(end, None).min(source.contents.end)
            && source.is_zero(end..table_end, None);
        if fits {
            plan.cleared.push(limit.min(gained.start)..gained.start);
            let position = plan.segments.iter().position(|other| other == segment)?;
            plan.segments[position].resize(table_end - segment.offset);
            plan.place_table(source, None, offset, segment.address_of(offset), table_len);
            return Some(plan);
        }
    }
    None
}
