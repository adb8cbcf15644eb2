//! Removes the table from a linked file. This is the reverse of every way to embed a table: sections that moved beside
//! the table go back after the program headers.

use core::ops::Range;

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::existing;
use super::header::{Header, Segment};
use super::movable::{self, Kinds, is_relocations_of, is_table};
use super::neighbours::Neighbours;
use super::plan::{LEAD, Move, NAME, Names, Plan, Tail};
use super::prepend;
use super::references;
use super::renumber;
use super::source::Source;
use crate::embed_error::EmbedError;

/// The greatest number of tables that are removed. A file has one table, or one for each input if the linker does not
/// merge them.
const MAX_TABLES: usize = 16;

/// The number of notes that are searched for the place of the properties' note. Programs have three notes.
const MAX_NOTES: usize = 16;

/// The greatest number of free program headers that embedding leaves.
const MAX_SPARE: u64 = 1;

/// Moved sections have kept their addresses modulo this number.
const STEP: u64 = 64;

/// The greatest number of bytes that a linker counts in `PT_PHDR` without writing program headers there.
const MAX_SURPLUS: u64 = 4 * Segment::LEN;

/// The greatest number of ranges of moved sections. Few kinds of sections can move.
const MAX_RANGES: usize = 32;

/// Plans the file without tables. Returns `None` if it has no table.
///
/// Sections that moved to make room for the table go back, if their old place is free. Program headers that gave their
/// place to the table come back, as far as the file shows which they were. If a linker wrote the table, its section
/// symbol and its relocations go too.
pub(super) fn plan(source: &Source<'_>) -> Result<Option<Plan>, EmbedError> {
    let tables: Vec<usize> = (0..source.sections.len()).filter(|&index| is_table(source, index)).collect();
    if tables.is_empty() && source.segment(elf::PT_GNU_SFRAME).is_none() {
        return Ok(None);
    }
    if let Some(&table) = tables.get(MAX_TABLES) {
        return Err(EmbedError::SeveralTables {
            offset: source.sections[table].offset,
            value: table.to_u64(),
        });
    }
    let mut plan = match prepend::skip(source) {
        0 => Plan::unchanged(source),
        skip => without_page(source, skip),
    };
    plan.segments.retain(|segment| segment.kind != elf::PT_GNU_SFRAME.0);
    for &table in &tables {
        remove_memory(source, &mut plan, table)?;
    }
    if plan.skip == 0 && !plan.segments.is_empty() {
        restore_note(source, &mut plan);
    }
    plan.resize_phdr();
    let ph_end = source.phoff + plan.segments.len().to_u64() * Segment::LEN;
    if plan.skip == 0 && ph_end < source.ph_end() {
        plan.cleared.push(ph_end..source.ph_end());
    }
    let mut removed = Vec::new();
    for (index, section) in source.sections.iter().enumerate() {
        let has_relocations = tables.iter().any(|&table| is_relocations_of(section, table));
        if has_relocations || tables.binary_search(&index).is_ok() {
            removed.push(index);
        }
    }
    for &index in &removed {
        let section = source.sections[index];
        if section.has_bytes() && section.offset >= plan.skip {
            plan.cleared.push(section.range());
        }
        // A section without bytes is ignored below.
        plan.sections[index] = Header { name: plan.sections[index].name, ..Header::default() };
    }
    renumber::symbols(source, &mut plan, &removed)?;
    rebuild_tail(source, &mut plan);
    renumber::sections(source, &mut plan, &removed)?;
    match find_headers(source, &plan) {
        Some(tail) => plan.tail = tail,
        // The section headers between the sections are no longer in use.
        None if matches!(plan.tail, Tail::Rebuild(_)) => {
            let size = source.sections.len().to_u64() * Header::LEN;
            plan.cleared.push(source.shoff..source.shoff.saturating_add(size));
        }
        None => {}
    }
    Ok(Some(plan.check(source)?))
}

/// Plans the file without the page that was put before all others.
fn without_page(source: &Source<'_>, skip: u64) -> Plan {
    let mut plan = Plan::shifted(source, skip, 0);
    if let Some(first) = plan.segments.iter_mut().find(|segment| segment.is_loaded()) {
        // Its offset is still 0.
        first.move_by(0, skip);
        first.file_size -= skip;
        first.memory_size -= skip;
    }
    if source.is_fixed {
        for load in plan.segments.iter_mut().filter(|segment| segment.is_loaded()) {
            load.align = prepend::old_align(source, skip, load.address).unwrap_or(load.align);
        }
    }
    let address = plan.segments.iter().find(|segment| segment.is_loaded()).map_or(0, |first| first.address);
    for phdr in plan.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR.0) {
        phdr.offset = source.phoff;
        phdr.address = address.wrapping_add(source.phoff);
        phdr.physical = phdr.address;
    }
    plan
}

/// Removes the table's segment if it holds only the table. Otherwise shortens the segment if the table is at its end.
fn remove_memory(source: &Source<'_>, plan: &mut Plan, table: usize) -> Result<(), EmbedError> {
    let section = source.sections[table];
    let Some(load) = source.load_with(&section.range()).copied().filter(Segment::is_constant) else {
        return Ok(());
    };
    let headers_end = if load.range().contains(&source.phoff) { source.ph_end() } else { 0 };
    let end = existing::end_without(source, &load, Some(table)).max(headers_end);
    let at = plan.segments.iter().position(|segment| {
        let offset = segment.offset.wrapping_add(plan.skip).wrapping_sub(plan.prefix);
        segment.is_loaded() && offset == load.offset && segment.address == load.address
    });
    let Some(at) = at.filter(|_| section.has_bytes() && end <= section.offset) else { return Ok(()) };
    // If another tool wrote bytes without a section after the table, they stay.
    if load.range().end > section.range().end && !source.is_zero(section.range().end..load.range().end, None)
    {
        return Ok(());
    }
    let is_last = source.loaded().all(|other| other.address <= load.address);
    if is_last && headers_end == 0 {
        if plan.skip == 0
            && load.offset < section.offset
            && let Some(restored) = restore(source, plan, at, &load, table)?
        {
            *plan = restored;
            return Ok(());
        }
        if end == load.offset {
            plan.segments.remove(at);
            return Ok(());
        }
    }
    plan.segments[at].resize(end - load.offset);
    Ok(())
}

/// Plans to remove a segment and to move its other sections back after the program headers. Returns `None` if the
/// sections did not come from there. `at` is the segment's index in the plan, and `table` the index of the table's
/// section.
fn restore(
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
    restore_note(source, &mut restored);
    restore_phdr(source, &mut restored, &first, &run);
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
fn restore_phdr(source: &Source<'_>, plan: &mut Plan, first: &Segment, run: &Run) {
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
fn restore_note(source: &Source<'_>, plan: &mut Plan) {
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
    let own = section_of(&properties);
    let notes = plan.segments.iter().enumerate().filter(|(_, one)| is_note(one)).take(MAX_NOTES);
    let later = notes.filter(|(_, one)| section_of(one) > own).map(|(index, _)| index).next();
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

/// Plans the names of sections and the section headers, if no other bytes follow them.
fn rebuild_tail(source: &Source<'_>, plan: &mut Plan) {
    let unshift = |offset: u64| offset + plan.skip - plan.prefix;
    let mut segments = plan.segments.clone();
    segments.iter_mut().filter(|one| one.file_size != 0).for_each(|one| one.offset = unshift(one.offset));
    let mut sections = plan.sections.clone();
    sections.iter_mut().filter(|one| one.has_bytes()).for_each(|one| one.offset = unshift(one.offset));
    plan.contents = source.contents(&segments, &sections, source.names);
    plan.contents.end = source.end_with_strays(plan.contents.end);
    plan.rebuild_tail(source);
    let old = source.name_range();
    // The name may be the end of another name.
    let is_last = source.bytes(old.clone()).ends_with(&[b"\0", NAME].concat());
    let start = (old.end - old.start).wrapping_sub(NAME.len().to_u64());
    if !is_last || plan.sections.iter().any(|section| section.kind != 0 && u64::from(section.name) >= start) {
        return;
    }
    let names = old.start..old.end - NAME.len().to_u64();
    let mut without = sections;
    without[source.names].size = 0;
    let mut contents = source.contents(&segments, &without, 0);
    contents.end = source.end_with_strays(contents.end);
    match find_copy(source, &without, &names) {
        Some(offset) => {
            let len = names.end - names.start;
            plan.sections[source.names].offset = offset - plan.skip;
            plan.sections[source.names].size = len;
            contents.end = contents.end.max(offset + len);
            plan.contents = contents;
            plan.tail = Tail::Rebuild(None);
        }
        None => plan.tail = Tail::Rebuild(Some(Names { old: names, append: &[] })),
    }
}

/// Looks for the planned section headers in the file, in the gaps between sections. They are there if a tool wrote new
/// section headers at the end and left the old section headers in their place.
fn find_headers(source: &Source<'_>, plan: &Plan) -> Option<Tail> {
    let Tail::Rebuild(names) = &plan.tail else { return None };
    let mut sections = plan.sections.clone();
    if let Some(names) = names {
        (sections[plan.names].offset, sections[plan.names].size) = (plan.content_end(), names.len());
    }
    let wanted: Vec<u8> = sections.iter().flat_map(|section| section.to_bytes(source.endian)).collect();
    let len = wanted.len().to_u64();
    let mut ranges: Vec<_> = plan.sections.iter().filter(|one| one.has_bytes()).map(Header::range).collect();
    ranges.sort_by_key(|range| range.start);
    // Bytes that may be compared, so that hostile gaps do not cost the product of both lengths.
    let mut budget = source.len().saturating_mul(4);
    let mut find_in = |gap: Range<u64>| {
        for offset in gap.step_by(8) {
            let start = (offset + plan.skip).wrapping_sub(plan.prefix);
            let bytes = source.bytes(start..start.saturating_add(len));
            let equal = bytes.iter().zip(&wanted).take_while(|(a, b)| a == b).count().to_u64();
            if equal == len {
                return Some(offset);
            }
            budget = budget.checked_sub(equal + 1)?;
        }
        None
    };
    let gaps = ranges.windows(2).map(|pair| pair[0].end.next_multiple_of(8)..pair[1].start);
    let found =
        gaps.filter_map(|gap| Some(gap.start..(gap.end.checked_sub(len)? + 1))).find_map(&mut find_in);
    let offset = match found {
        Some(offset) => offset,
        None => find_overwritten(source, plan, &wanted)?,
    };
    Some(Tail::At(offset, names.clone()))
}

/// Looks for the planned section headers after the program headers, where wild writes them. The table's program headers
/// have overwritten the first section headers. The rest is still there.
fn find_overwritten(source: &Source<'_>, plan: &Plan, wanted: &[u8]) -> Option<u64> {
    if plan.skip != 0 || plan.prefix != 0 {
        return None;
    }
    let start = (source.phoff + plan.segments.len().to_u64() * Segment::LEN).next_multiple_of(8);
    let end = start + wanted.len().to_u64();
    let headers_end = source.ph_end();
    if headers_end <= start || source.next_use(headers_end, None) < end {
        return None;
    }
    // Free program headers are zero.
    let is_there = (0..=MAX_SPARE).any(|spare| {
        let kept = headers_end + spare * Segment::LEN;
        kept < end
            && source.is_zero(headers_end..kept, None)
            && source.bytes(kept..end) == &wanted[(kept - start).to_usize()..]
    });
    is_there.then_some(start)
}

/// Finds a second copy of some bytes, in a gap soon after the end of a section.
fn find_copy(source: &Source<'_>, sections: &[Header], names: &Range<u64>) -> Option<u64> {
    /// The greatest number of padding bytes before the copy.
    const MAX_PADDING: u64 = 64;
    let wanted = source.bytes(names.clone());
    let len = wanted.len().to_u64();
    let mut ranges: Vec<_> = sections.iter().filter(|one| one.has_bytes()).map(Header::range).collect();
    ranges.sort_by_key(|range| range.start);
    // After the last section, bytes are free up to a section that is removed, or to the names that are in use.
    let last = ranges.last()?.end;
    let later = source.sections.iter().filter(|one| one.has_bytes() && one.offset >= last);
    let later = later.map(|one| one.offset).min().unwrap_or(source.len());
    ranges.push(later..later);
    let gaps = ranges.windows(2).map(|pair| pair[0].end..pair[1].start.min(pair[0].end + len + MAX_PADDING));
    gaps.filter(|gap| gap.start + len <= gap.end).find_map(|gap| {
        let bytes = source.bytes(gap.clone());
        let at = bytes.windows(wanted.len().max(1)).position(|window| window == wanted)?;
        Some(gap.start + at.to_u64())
    })
}
