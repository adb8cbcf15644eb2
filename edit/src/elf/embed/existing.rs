//! Uses the room of a table that the file already has.

use object::elf;

use super::header::Segment;
use super::hole::Hole;
use super::movable::{is_relocations_of, is_table};
use super::plan::{Plan, Splice};
use super::source::Source;
use super::way::Way;

/// Plans the file with a new table in the place of its table. Returns `None` if it has no table, or if the place of the
/// table cannot be used again.
pub(super) fn plan(source: &Source<'_>, table_len: u64) -> Option<(Way, Plan)> {
    let mut tables = (0..source.sections.len()).filter(|&index| is_table(source, index));
    let section = tables.next()?;
    let is_alone = tables.next().is_none();
    let has_relocations = source.sections.iter().any(|other| is_relocations_of(other, section));
    if !is_alone || has_relocations {
        return None;
    }
    if let Some(plan) = in_place(source, section, table_len) {
        return Some((Way::InPlace, plan));
    }
    Some((Way::Grow, grow(source, section, table_len)?))
}

/// Plans a new table in the old table's place. The new table may use the free bytes after the old table.
fn in_place(source: &Source<'_>, section: usize, table_len: u64) -> Option<Plan> {
    let old = source.sections[section];
    source.segment(elf::PT_GNU_SFRAME)?;
    let load = loaded(source, section)?;
    let end = old.offset.checked_add(table_len)?;
    // The table may be the first of its segment.
    let limit = source.next_use(old.offset + 1, Some(section)).min(load.range().end);
    if !old.address.is_multiple_of(8) || end > limit || !source.is_zero(old.range().end..end) {
        return None;
    }
    let mut plan = Plan::unchanged(source);
    plan.cleared.push(old.range());
    plan.place_table(source, Some(section), old.offset, old.address, table_len);
    Some(plan)
}

/// Plans a longer table at the end of the file's last segment.
fn grow(source: &Source<'_>, section: usize, table_len: u64) -> Option<Plan> {
    let old = source.sections[section];
    source.segment(elf::PT_GNU_SFRAME)?;
    let load = *loaded(source, section).filter(|load| load.is_constant())?;
    let is_last = source.loaded().all(|other| other.address <= load.address);
    let before = end_without(source, &load, section);
    let size = (old.offset - load.offset).checked_add(table_len)?;
    // The headers stay at the start of the file.
    let has_headers = load.offset == 0 || load.range().contains(&source.phoff);
    let fits = is_last && !has_headers && before <= old.offset && old.address.is_multiple_of(8);
    if !fits || load.address.checked_add(size).is_none() {
        return None;
    }

    let hole = Hole::find(source, &load)?;
    let mut plan = Plan::unchanged(source);
    let index = plan.segments.iter().position(|segment| *segment == load)?;
    plan.cleared.push(old.range());
    plan.splice(Splice::zeros(hole.range.end, hole.growth(size)?));
    plan.segments[index].resize(size);
    plan.place_table(source, Some(section), old.offset, old.address, table_len);
    Some(plan)
}

/// Returns the read-only segment that loads a table at the address of its section.
fn loaded<'s>(source: &'s Source<'_>, section: usize) -> Option<&'s Segment> {
    let section = &source.sections[section];
    let load = source.load_with(&section.range())?;
    let is_there = section.has(elf::SHF_ALLOC)
        && section.has_bytes()
        && load.flags & elf::PF_W.0 == 0
        && load.address_of(section.offset) == section.address;
    is_there.then_some(load)
}

/// Returns the end of a segment's bytes in the file. If `section` comes after all other sections, its bytes do not
/// count.
pub(super) fn end_without(source: &Source<'_>, segment: &Segment, section: usize) -> u64 {
    let range = segment.range();
    if !range.contains(&source.sections[section].offset) {
        return range.end;
    }
    let others = source.sections.iter().enumerate().filter(|(index, _)| *index != section);
    let others = others.filter(|(_, other)| other.has_bytes() && range.contains(&other.offset));
    let end = others.map(|(_, other)| other.range().end).fold(range.start, u64::max);
    if end <= source.sections[section].offset { end } else { range.end }
}
