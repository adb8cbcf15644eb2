//! Sections that moved beside a table go back after the program headers.

use core::ops::Range;

use cfipack_format::widen::ToU64;
use object::elf;

use super::header::Segment;
use super::movable::{self, Kinds};
use super::neighbours::Neighbours;
use super::plan::{LEAD, Move, Plan};
use super::references;
use super::source::Source;
use super::strip::restore_note;
use crate::embed_error::EmbedError;

/// Moved sections have kept their addresses modulo this.
const STEP: u64 = 64;

/// The most bytes of program headers that a linker counts in `PT_PHDR` and does not write.
const MAX_SURPLUS: u64 = 4 * Segment::LEN;

/// The number of ranges of sections that are taken for moved ones; there are few kinds that move.
const MAX_RANGES: usize = 32;

/// The plan without a segment whose other sections are back after the program headers; None if that is not where
/// they came from. `at` is the segment's index in the plan, `table` the section of the table.
pub(super) fn restore(
    source: &Source<'_>,
    plan: &Plan,
    at: usize,
    load: &Segment,
    table: usize,
) -> Result<Option<Plan>, EmbedError> {
    let Some(first) = source.load_with(&(source.phoff..source.ph_end())).copied() else { return Ok(None) };
    let Some(run) = Run::of(source, load, table).filter(|_| first != *load) else { return Ok(None) };
    let mut restored = plan.clone();
    restored.segments.remove(at);
    restore_note(source, &mut restored);
    restore_phdr(source, &mut restored, &first, &run);
    // Sections of the old file followed what PT_PHDR counts.
    let surplus = Some(restored.phdr_surplus).filter(|surplus| *surplus <= MAX_SURPLUS).unwrap_or(0);
    let headers_end = source.phoff + restored.segments.len().to_u64() * Segment::LEN + surplus;
    let start = run.place_after(&first, headers_end);

    let kept = kept_build_id(source, headers_end);
    let kept = kept.and_then(|kept| Some((run.gap_for(source, &kept)?, kept)));
    if run.ranges.is_empty() && kept.is_none() {
        return Ok(None);
    }
    let end = kept.as_ref().map_or(0, |(gap, kept)| gap + (kept.end - kept.start)).max(run.end());
    let end = start + (end - run.start);
    let headers_end = source.ph_end().max(headers_end);
    let kept_range = kept.as_ref().map_or(headers_end..headers_end, |(_, kept)| kept.clone());
    let is_free = |range: Range<u64>| {
        range.is_empty()
            || source.next_use(range.start, None) >= range.end && source.is_zero(range.clone(), None)
    };
    let has_room =
        end <= first.range().end && is_free(headers_end..kept_range.start) && is_free(kept_range.end..end);
    if !has_room {
        return Ok(None);
    }

    let delta = first.address_of(start).wrapping_sub(load.address_of(run.start));
    for range in &run.ranges {
        let to = start + (range.start - run.start);
        restored.moves.push(Move { from: range.clone(), to, delta });
    }
    if let Some((gap, kept)) = kept {
        let to = start + (gap - run.start);
        let delta = to.wrapping_sub(kept.start);
        restored.cleared.push(kept.clone());
        restored.moves.push(Move { from: kept, to, delta });
    }
    references::apply(source, &mut restored)?;
    Ok(Some(restored))
}

/// Moved sections in the segment of a table.
struct Run {
    /// The start in the file, with bytes before them that were others' in their old place.
    start: u64,
    /// The ranges of the sections, in ascending order, adjacent ones as one range.
    ranges: Vec<Range<u64>>,
    /// The start of the table.
    limit: u64,
    /// The alignment modulo which their addresses are kept.
    align: u64,
    load: Segment,
}

impl Run {
    /// None if the segment has something that does not move. It may have nothing: all have been kept elsewhere.
    fn of(source: &Source<'_>, load: &Segment, table: usize) -> Option<Self> {
        let range = load.range();
        let sections = source.sections.iter().enumerate().filter(|(index, _)| *index != table);
        let inner = sections.filter(|(_, section)| section.has_bytes() && range.contains(&section.offset));
        let inner: Vec<_> = inner.collect();
        if !inner.iter().all(|(index, _)| Kinds::Dynamic.section(source, *index)) {
            return None;
        }
        let mut all: Vec<_> = inner.iter().map(|(_, section)| section.range()).collect();
        all.sort_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for range in all {
            match ranges.last_mut() {
                Some(last) if range.start < last.end => return None,
                Some(last) if range.start == last.end => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        if ranges.len() > MAX_RANGES {
            return None;
        }
        let first = ranges.first().map_or(load.offset.saturating_add(LEAD), |range| range.start);
        // Other programs may have removed what comes before them.
        let start = if first - load.offset < LEAD { first } else { load.offset + LEAD };
        let align = inner.iter().map(|(_, section)| section.align).fold(STEP, u64::max);
        Some(Self { start, ranges, limit: source.sections[table].offset, align, load: *load })
    }

    fn end(&self) -> u64 {
        self.ranges.last().map_or(self.start, |range| range.end)
    }

    /// The address in a segment whose program headers end there.
    fn place_after(&self, first: &Segment, headers_end: u64) -> u64 {
        let address = self.load.address_of(self.start);
        headers_end + address.wrapping_sub(first.address_of(headers_end)) % self.align
    }

    /// The place among them for sections that have been kept elsewhere: the first gap that they fit into.
    fn gap_for(&self, source: &Source<'_>, kept: &Range<u64>) -> Option<u64> {
        let align = source.sections.iter().filter(|one| one.has_bytes() && kept.contains(&one.offset));
        let align = align.map(|one| one.align).filter(|align| align.is_power_of_two()).max()?;
        let starts = [self.start].into_iter().chain(self.ranges.iter().map(|range| range.end));
        let ends = self.ranges.iter().map(|range| range.start).chain([self.limit]);
        let mut gaps =
            starts.zip(ends).map(|(start, end)| (start + kept.start.wrapping_sub(start) % align, end));
        gaps.find(|(start, end)| start + (kept.end - kept.start) <= *end).map(|(start, _)| start)
    }
}

/// A build-id that was kept after the program headers, with all that lies in its segments.
fn kept_build_id(source: &Source<'_>, headers_end: u64) -> Option<Range<u64>> {
    let first = source.load_with(&(source.phoff..source.ph_end()))?;
    let is_it = |index: &usize| {
        let section = &source.sections[*index];
        section.has_bytes()
            && first.range().contains(&section.offset)
            && movable::has_build_id(source, section)
    };
    let index = (0..source.sections.len()).find(is_it)?;
    let group = Neighbours::of(source).group(index)?;
    // Nothing lies between the headers and it.
    (source.next_use(headers_end.max(source.ph_end()), None) == group.start).then_some(group)
}

/// Gives a static executable a `PT_PHDR` if it has lost one: without it sections would not lie right after the program
/// headers.
fn restore_phdr(source: &Source<'_>, plan: &mut Plan, first: &Segment, run: &Run) {
    let has = |kind| source.segment(kind).is_some();
    let kinds = [elf::PT_PHDR, elf::PT_INTERP];
    if !source.is_fixed || kinds.into_iter().any(has) || plan.segments.len() >= source.segments.len() {
        return;
    }
    let end = source.phoff + plan.segments.len().to_u64() * Segment::LEN;
    let distance = |end: u64| run.place_after(first, end) - end;
    if distance(end + Segment::LEN) < distance(end) {
        let address = first.address_of(source.phoff);
        plan.segments.insert(0, Segment::new(elf::PT_PHDR.0, source.phoff, address, 0, 8));
    }
}
