//! Makes room for program headers: the small sections after them move to a new segment.

use core::ops::Range;

use cfipack_format::widen::ToU64;
use object::elf;

use super::header::Segment;
use super::movable::{self, Kinds};
use super::neighbours::Neighbours;
use super::plan::{LEAD, Move, Plan};
use super::references;
use super::source::Source;
use super::way::Way;
use crate::embed_error::EmbedError;

/// Moved sections keep their addresses modulo this number. So they keep every alignment up to this number.
pub(super) const STEP: u64 = 64;

/// The conditions under which the sections are evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Attempt {
    /// The number of free program headers that are left.
    pub spare: u64,
    /// True if a build-id has to stay in the file's first page.
    pub keep_build_id: bool,
    pub reuse_note: bool,
    pub reuse_phdr: bool,
    pub movable: Kinds,
}

impl Attempt {
    /// Starts with `spare` free program headers. All other conditions are off.
    pub const fn new(spare: u64, movable: Kinds) -> Self {
        Self { spare, keep_build_id: false, reuse_note: false, reuse_phdr: false, movable }
    }

    pub const fn keep_build_id(self) -> Self {
        Self { keep_build_id: true, ..self }
    }

    pub const fn reuse_note(self) -> Self {
        Self { reuse_note: true, ..self }
    }

    pub const fn reuse_phdr(self) -> Self {
        Self { reuse_phdr: true, ..self }
    }

    /// Returns the way as reports name it.
    pub fn way(self) -> Way {
        let Self { spare, keep_build_id, reuse_note, reuse_phdr, .. } = self;
        Way::Evict { spare: spare as u8, keep_build_id, reuse_note, reuse_phdr }
    }
}

/// The new places of evicted sections.
struct Evicted {
    /// The range of the sections. It is empty if the program headers have room.
    run: Range<u64>,
    /// The sections that go back into the old place of the run, and their new offset.
    kept: Option<(Range<u64>, u64)>,
}

/// Plans the file with a table in a new segment. Returns `None` if the program headers cannot get room for it.
pub(super) fn plan(
    source: &Source<'_>,
    table_len: u64,
    attempt: Attempt,
) -> Result<Option<Plan>, EmbedError> {
    let mut plan = Plan::unchanged(source);
    if attempt.reuse_note && !drop_repeated_note(&mut plan.segments)
        || attempt.reuse_phdr && !drop_phdr(source, &mut plan.segments)
    {
        return Ok(None);
    }
    // Two headers are added: for the new segment and for the table.
    let headers = plan.segments.len().to_u64() + 2 + attempt.spare;
    let limit = source.phoff + headers * Segment::LEN;
    let first = source.load_with(&(source.phoff..limit.max(source.ph_end()))).copied();
    // A first segment that is writable is refused: when the table is removed, read-only sections would return to
    // writable memory.
    let Some(first) = first.filter(|first| first.flags & elf::PF_W.0 == 0) else { return Ok(None) };
    let Some(evicted) = evict(source, limit, attempt)? else { return Ok(None) };
    let Evicted { run, kept } = evicted;
    // Later, only the place of the moved sections shows that the file had a PT_PHDR. Without moved sections it could
    // not be restored.
    if run.is_empty() && attempt.reuse_phdr {
        return Ok(None);
    }
    let kept_end = kept.as_ref().map_or(0, |(kept, to)| to + (kept.end - kept.start));
    let end = limit.max(run.end).max(kept_end);
    let sharing = source.loaded().filter(|load| load.range().start < end && source.phoff < load.range().end);
    if end > first.range().end || sharing.count() != 1 {
        return Ok(None);
    }
    plan.cleared.push(source.ph_end().min(limit)..end);
    let address = first.address_of(run.start);
    let align = if run.is_empty() { (0, 8) } else { (address, align_of(source, &run).max(STEP)) };
    let load = plan.push_table_segment(source, table_len, run.end - run.start, align)?;
    if !run.is_empty() {
        let delta = (load.address + LEAD).wrapping_sub(address);
        let mut rest = run.start;
        let part = |from: Range<u64>| {
            let to = load.offset + LEAD + (from.start - run.start);
            (!from.is_empty()).then_some(Move { from, to, delta })
        };
        if let Some((kept, to)) = kept {
            plan.moves.extend(part(rest..kept.start));
            rest = kept.end;
            let delta = to.wrapping_sub(kept.start);
            plan.moves.push(Move { from: kept, to, delta });
        }
        plan.moves.extend(part(rest..run.end));
        references::apply(source, &mut plan)?;
    }
    Ok(Some(plan))
}

/// Finds the sections that have to move so that the program headers can end at `limit`. Returns `None` if a build-id
/// cannot be kept.
fn evict(source: &Source<'_>, limit: u64, attempt: Attempt) -> Result<Option<Evicted>, EmbedError> {
    let neighbours = Neighbours::find(source);
    let run = neighbours.evicted(source, limit, attempt.movable)?;
    let Some(run) = run else { return Ok(Some(Evicted { run: limit..limit, kept: None })) };
    let build_id = source.sections.iter().position(|section| {
        section.has_bytes() && run.contains(&section.offset) && movable::has_build_id(source, section)
    });
    let Some(build_id) = build_id.filter(|_| attempt.keep_build_id) else {
        return Ok(Some(Evicted { run, kept: None }));
    };
    let Some(kept) = neighbours.group(build_id) else { return Ok(None) };
    let to = limit + kept.start.wrapping_sub(limit) % align_of(source, &kept);
    let end = to + (kept.end - kept.start);
    let run = neighbours.evicted(source, end, attempt.movable)?.unwrap_or(run);
    let stays = run.start <= kept.start && kept.end <= run.end;
    Ok(stays.then_some(Evicted { run, kept: Some((kept, to)) }))
}

/// Returns the largest alignment of the sections and segments in a range.
fn align_of(source: &Source<'_>, range: &Range<u64>) -> u64 {
    let is_in = |offset: u64, size: u64| size != 0 && range.contains(&offset);
    let sections = source.sections.iter().filter(|section| is_in(section.offset, section.size));
    let segments = source.segments.iter().filter(|one| !one.is_loaded() && is_in(one.offset, one.file_size));
    let aligns = sections.map(|section| section.align).chain(segments.map(|segment| segment.align));
    aligns.filter(|align| align.is_power_of_two() && *align <= source.page()).max().unwrap_or(1)
}

/// Removes the `PT_NOTE` that repeats `PT_GNU_PROPERTY`. Returns false if there is no such note.
fn drop_repeated_note(segments: &mut Vec<Segment>) -> bool {
    let properties = segments.iter().find(|segment| segment.kind == elf::PT_GNU_PROPERTY.0);
    let Some(properties) = properties else { return false };
    let note = Segment { kind: elf::PT_NOTE.0, ..*properties };
    let Some(index) = segments.iter().position(|segment| *segment == note) else { return false };
    segments.remove(index);
    true
}

/// Removes `PT_PHDR`. Only a dynamic loader uses it, to find where a program lies. Returns false if it is needed or
/// missing.
fn drop_phdr(source: &Source<'_>, segments: &mut Vec<Segment>) -> bool {
    let is_static = source.is_fixed && source.segment(elf::PT_INTERP).is_none();
    let found = segments.iter().position(|segment| segment.kind == elf::PT_PHDR.0);
    if let Some(index) = found
        && is_static
    {
        segments.remove(index);
        return true;
    }
    false
}
