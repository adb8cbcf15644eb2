//! Moves sections beside a table back after the program headers, and restores program headers that gave their place to
//! the table's.

use core::ops::Range;

use cfipack_format::widen::ToU64;
use object::elf;

use super::evict::STEP;
use super::header::Segment;
use super::movable::{self, Kinds};
use super::neighbours::Neighbours;
use super::plan::{LEAD, Move, Plan};
use super::references;
use super::source::Source;
use crate::embed_error::EmbedError;

/// The number of notes that are searched for the place of the properties' note. Programs have three notes.
const MAX_NOTES: usize = 16;

/// The greatest number of bytes that a linker counts in `PT_PHDR` without writing program headers there.
const MAX_SURPLUS: u64 = 4 * Segment::LEN;

/// The greatest number of ranges of moved sections. Few kinds of sections can move.
const MAX_RANGES: usize = 32;

/// Plans to remove a segment and to move its other sections back after the program headers. Returns `None` if the
/// sections did not come from there. `at` is the segment's index in the plan, and `table` the index of the table's
/// section.
pub(super) fn sections(
    source: &Source<'_>,
    plan: &Plan,
    at: usize,
    load: &Segment,
    table: usize,
) -> Result<Option<Plan>, EmbedError> {
    let Some(first) = source.load_with(&(source.phoff..source.ph_end())).copied() else { return Ok(None) };
    let Some(run) = Run::find(source, load, table).filter(|_| first != *load) else { return Ok(None) };
    let mut restored = plan.clone();
    restored.segments.remove(at);
    note(source, &mut restored);
    phdr(source, &mut restored, &first, &run);
    // In the original file, the sections followed the bytes that PT_PHDR counts.
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
        range.is_empty() || source.next_use(range.start, None) >= range.end && source.is_zero(range.clone())
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
    /// The start in the file. Before the first range there may be room of sections that have been kept elsewhere.
    start: u64,
    /// The ranges of the sections, in ascending order. Adjacent sections form one range.
    ranges: Vec<Range<u64>>,
    /// The start of the table.
    limit: u64,
    /// The sections have kept their addresses modulo this alignment.
    align: u64,
    load: Segment,
}

impl Run {
    /// Finds the moved sections. Returns `None` if the segment has a section that cannot move. The result has no ranges
    /// if all moved sections have been kept elsewhere.
    fn find(source: &Source<'_>, load: &Segment, table: usize) -> Option<Self> {
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
        // Other programs may have removed the lead before the sections.
        let start = if first - load.offset < LEAD { first } else { load.offset + LEAD };
        let align = inner.iter().map(|(_, section)| section.align).fold(STEP, u64::max);
        Some(Self { start, ranges, limit: source.sections[table].offset, align, load: *load })
    }

    fn end(&self) -> u64 {
        self.ranges.last().map_or(self.start, |range| range.end)
    }

    /// Returns the offset of the sections after program headers that end at `headers_end`.
    fn place_after(&self, first: &Segment, headers_end: u64) -> u64 {
        let address = self.load.address_of(self.start);
        headers_end + address.wrapping_sub(first.address_of(headers_end)) % self.align
    }

    /// Returns the offset for a section that has been kept elsewhere: the first gap between the sections that is large
    /// enough.
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

/// Returns the range of a build-id that was kept after the program headers, with everything in its segments.
fn kept_build_id(source: &Source<'_>, headers_end: u64) -> Option<Range<u64>> {
    let first = source.load_with(&(source.phoff..source.ph_end()))?;
    let index = source.sections.iter().position(|section| {
        section.has_bytes()
            && first.range().contains(&section.offset)
            && movable::has_build_id(source, section)
    })?;
    let group = Neighbours::find(source).group(index)?;
    // No other bytes lie between the headers and the build-id.
    (source.next_use(headers_end.max(source.ph_end()), None) == group.start).then_some(group)
}

/// Restores the `PT_PHDR` of a static executable, if the sections then lie right after the program headers.
fn phdr(source: &Source<'_>, plan: &mut Plan, first: &Segment, run: &Run) {
    let has_kinds = source.segment(elf::PT_PHDR).is_some() || source.segment(elf::PT_INTERP).is_some();
    if !source.is_fixed || has_kinds || plan.segments.len() >= source.segments.len() {
        return;
    }
    let end = source.phoff + plan.segments.len().to_u64() * Segment::LEN;
    let distance = |end: u64| run.place_after(first, end) - end;
    if distance(end + Segment::LEN) < distance(end) {
        let address = first.address_of(source.phoff);
        plan.segments.insert(0, Segment::new(elf::PT_PHDR.0, source.phoff, address, 0, 8));
    }
}

/// Restores the `PT_NOTE` for the bytes of `PT_GNU_PROPERTY`. Every linker writes this note.
pub(super) fn note(source: &Source<'_>, plan: &mut Plan) {
    let Some(properties) = plan.segments.iter().find(|one| one.kind == elf::PT_GNU_PROPERTY.0).copied()
    else {
        return;
    };
    let range = properties.range();
    let mut notes = plan.segments.iter().filter(|one| is_note(one)).map(Segment::range);
    let is_covered = notes.any(|note| note.start <= range.start && range.end <= note.end);
    if is_covered || plan.segments.len() >= source.segments.len() {
        return;
    }
    // Linkers write notes in the order of their sections.
    let section_of = |one: &Segment| {
        source.sections.iter().position(|section| section.has_bytes() && section.offset == one.offset)
    };
    // patchelf 0.14 moves the section, and PT_GNU_PROPERTY stays where the section was.
    let Some(own) = section_of(&properties) else { return };
    let notes = plan.segments.iter().enumerate().filter(|(_, one)| is_note(one)).take(MAX_NOTES);
    let later = notes.filter(|(_, one)| section_of(one) > Some(own)).map(|(index, _)| index).next();
    let mut all = plan.segments.iter();
    let before = all.rposition(|one| one.is_loaded() || one.kind == elf::PT_DYNAMIC.0 || is_note(one));
    let at = match (later, before) {
        (Some(later), _) => later,
        (None, Some(before)) => before + 1,
        (None, None) => 0,
    };
    plan.segments.insert(at, Segment { kind: elf::PT_NOTE.0, ..properties });
}

fn is_note(segment: &Segment) -> bool {
    segment.kind == elf::PT_NOTE.0
}
