//! Removes the table from a linked file. This is the reverse of every way to embed a table: the inserted bytes go, and
//! sections that moved beside the table go back after the program headers.

use core::ops::Range;

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::existing;
use super::header::{Header, Segment};
use super::hole::Hole;
use super::movable::{is_relocations_of, is_table};
use super::plan::{NAME, Plan, Splice};
use super::prepend;
use super::renumber;
use super::restore;
use super::source::Source;
use crate::embed_error::EmbedError;

/// The greatest number of tables that are removed. A file has one table, or one for each input if the linker does not
/// merge them.
const MAX_TABLES: usize = 16;

/// The greatest number of free program headers that embedding leaves.
const MAX_SPARE: u64 = 1;

/// Plans the file without tables. Returns `None` if it has no table.
///
/// Sections that moved to make room for the table go back, if their old place is free. Program headers that gave their
/// place to the table come back, as far as the file shows which they were. If a linker wrote the table, its section
/// symbol and its relocations go too.
pub(super) fn plan(source: &Source<'_>) -> Result<Option<Plan>, EmbedError> {
    if !has_table(source) {
        return Ok(None);
    }
    let tables = tables(source);
    if let Some(&table) = tables.get(MAX_TABLES) {
        let (offset, value) = (source.sections[table].offset, table.to_u64());
        return Err(EmbedError::SeveralTables { offset, value });
    }
    let skip = prepend::skip(source);
    let mut plan = if skip == 0 { Plan::unchanged(source) } else { without_page(source, skip) };
    plan.segments.retain(|segment| segment.kind != elf::PT_GNU_SFRAME.0);
    let mut hole = None;
    for &table in &tables {
        hole = hole.or(remove_memory(source, &mut plan, table)?);
    }
    if skip == 0 && !plan.segments.is_empty() {
        restore::note(source, &mut plan);
    }
    plan.resize_phdr();
    let ph_end = source.phoff + plan.segments.len().to_u64() * Segment::LEN;
    if skip == 0 && ph_end < source.ph_end() {
        plan.cleared.push(ph_end..source.ph_end());
    }
    let mut removed = Vec::new();
    for (index, section) in source.sections.iter().enumerate() {
        if tables.iter().any(|&table| index == table || is_relocations_of(section, table)) {
            removed.push(index);
        }
    }
    for &index in &removed {
        plan.cleared.push(source.sections[index].range());
        // A section without bytes is ignored below.
        plan.sections[index] = Header { name: plan.sections[index].name, ..Header::default() };
    }
    if let Some(Hole { range, .. }) = hole {
        plan.splice(Splice::removed(range));
    }
    renumber::symbols(source, &mut plan, &removed)?;
    remove_name(source, &mut plan);
    renumber::sections(source, &mut plan, &removed)?;
    remove_headers(source, &mut plan);
    Ok(Some(plan.check(source)?))
}

/// Returns whether a file has a table, or a program header for one.
pub(super) fn has_table(source: &Source<'_>) -> bool {
    !tables(source).is_empty() || source.segment(elf::PT_GNU_SFRAME).is_some()
}

fn tables(source: &Source<'_>) -> Vec<usize> {
    (0..source.sections.len()).filter(|&index| is_table(source, index)).collect()
}

/// Plans the file without the page that was put before all others.
fn without_page(source: &Source<'_>, skip: u64) -> Plan {
    let mut plan = Plan::unchanged(source);
    plan.splice(Splice::removed(0..skip));
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
    prepend::place_phdr(&mut plan, source.phoff, address);
    plan
}

/// Removes the table's segment if it holds only the table. Otherwise shortens the segment if the table is at its end.
/// Returns the segment's place in the file if nothing else is there.
fn remove_memory(source: &Source<'_>, plan: &mut Plan, table: usize) -> Result<Option<Hole>, EmbedError> {
    let section = source.sections[table];
    let Some(load) = source.load_with(&section.range()).copied().filter(Segment::is_constant) else {
        return Ok(None);
    };
    let headers_end = if load.range().contains(&source.phoff) { source.ph_end() } else { 0 };
    let end = existing::end_without(source, &load, table).max(headers_end);
    let at = plan.segments.iter().position(|segment| {
        segment.is_loaded() && plan.old_of(segment.offset) == load.offset && segment.address == load.address
    });
    let Some(at) = at.filter(|_| section.has_bytes() && end <= section.offset) else { return Ok(None) };
    // If another tool wrote bytes without a section after the table, they stay.
    if load.range().end > section.range().end && !source.is_zero(section.range().end..load.range().end) {
        return Ok(None);
    }
    let is_last = source.loaded().all(|other| other.address <= load.address);
    if is_last && headers_end == 0 {
        if plan.splices.is_empty()
            && load.offset < section.offset
            && let Some(restored) = restore::sections(source, plan, at, &load, table)?
        {
            *plan = restored;
            plan.cleared.push(load.range());
            return Ok(Hole::find(source, &load));
        }
        if end == load.offset {
            plan.segments.remove(at);
            plan.cleared.push(load.range());
            return Ok(Hole::find(source, &load));
        }
    }
    plan.segments[at].resize(end - load.offset);
    Ok(None)
}

/// Removes the name of the table if it is the last name and no other section uses it.
fn remove_name(source: &Source<'_>, plan: &mut Plan) {
    let old = source.name_range();
    // The name may be the end of another name.
    let is_last = source.bytes(old.clone()).ends_with(&[b"\0", NAME].concat());
    let start = (old.end - old.start).wrapping_sub(NAME.len().to_u64());
    if !is_last || plan.sections.iter().any(|section| section.kind != 0 && u64::from(section.name) >= start) {
        return;
    }
    let name = old.end - NAME.len().to_u64()..old.end;
    plan.sections[source.names].size -= NAME.len().to_u64();
    let wanted = source.bytes(old.start..name.start).to_vec();
    match find_loaded(source, plan, &wanted, 1) {
        // The names could not grow in their place, and were written again at the end, with the section headers after them.
        Some(offset) => {
            let end = source.next_use(old.end, None).min(source.len());
            let is_last = end == source.len() || end == source.headers_range().start;
            if is_last && source.is_zero(old.end..end) {
                plan.splice(Splice::removed(old.start..end));
            } else {
                plan.remove(source, old);
            }
            plan.sections[source.names].offset = offset;
        }
        None => plan.remove(source, name),
    }
}

/// Removes section headers from their table. If the table could not grow in its place, the old table is still there.
fn remove_headers(source: &Source<'_>, plan: &mut Plan) {
    let wanted: Vec<u8> = plan.sections.iter().flat_map(|section| section.to_bytes(source.endian)).collect();
    let old = source.headers_range();
    // patchelf 0.19 loads the headers.
    let found = if source.is_loaded(&old) {
        None
    } else {
        find_loaded(source, plan, &wanted, 8).or_else(|| find_overwritten(source, plan, &wanted))
    };
    match found {
        Some(offset) => {
            // The headers were written again at a multiple of 8. But if the names of sections end the file, wild itself
            // has put zeros after them.
            let sections = source.sections.iter().map(Header::range);
            let ends = sections.chain(source.segments.iter().map(Segment::used)).map(|range| range.end);
            let end = ends.filter(|end| *end <= old.start).max().unwrap_or(old.start);
            let is_padding = end != source.name_range().end
                && end.next_multiple_of(8) == old.start
                && source.is_zero(end..old.start);
            plan.remove(source, if is_padding { end..old.end } else { old });
            plan.shoff = offset;
        }
        None => plan.remove(source, old.start + wanted.len().to_u64()..old.end),
    }
}

/// Finds bytes among the loaded bytes of the new file, outside of its sections, at a multiple of `step`.
fn find_loaded(source: &Source<'_>, plan: &Plan, wanted: &[u8], step: usize) -> Option<u64> {
    let len = wanted.len().to_u64();
    let end = plan.shift(source.loaded_end(None));
    let sections = plan.sections.iter().enumerate().filter(|(index, _)| *index != plan.names);
    let mut ranges: Vec<_> =
        sections.filter(|(_, one)| one.has_bytes()).map(|(_, one)| one.range()).collect();
    ranges.push(end..end);
    ranges.sort_by_key(|range| range.start);
    // Bytes that may be compared, so that hostile gaps do not cost the product of both lengths.
    let mut budget = source.len().saturating_mul(4);
    // After another tool has added a segment, the names and headers in use can lie before it.
    let current = [source.name_range(), source.headers_range()];
    let mut next = plan.segments.len().to_u64() * Segment::LEN + source.phoff;
    for range in ranges.into_iter().take_while(|range| range.start <= end) {
        let first = next.next_multiple_of(step.to_u64());
        for offset in (first..(range.start + 1).saturating_sub(len)).step_by(step) {
            let start = plan.old_of(offset);
            let bytes = source.bytes(start..start.saturating_add(len));
            let equal = bytes.iter().zip(wanted).take_while(|(a, b)| a == b).count().to_u64();
            let is_current = |current: &Range<u64>| start < current.end && current.start < start + len;
            if equal == len && !current.iter().any(is_current) {
                return Some(offset);
            }
            budget = budget.checked_sub(equal + 1)?;
        }
        next = next.max(range.end);
    }
    None
}

/// Looks for the planned section headers after the program headers, where wild writes them. The table's program headers
/// have overwritten the first section headers. The rest is still there.
fn find_overwritten(source: &Source<'_>, plan: &Plan, wanted: &[u8]) -> Option<u64> {
    let start = (source.phoff + plan.segments.len().to_u64() * Segment::LEN).next_multiple_of(8);
    let end = start + wanted.len().to_u64();
    let headers_end = source.ph_end();
    if plan.shift(start) != start || headers_end <= start || source.next_use(headers_end, None) < end {
        return None;
    }
    // Free program headers are zero.
    let is_there = (0..=MAX_SPARE).any(|spare| {
        let kept = headers_end + spare * Segment::LEN;
        kept < end
            && source.is_zero(headers_end..kept)
            && source.bytes(kept..end) == &wanted[(kept - start).to_usize()..]
    });
    is_there.then_some(start)
}
