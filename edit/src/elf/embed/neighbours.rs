//! The part of the file after the program headers: sections, and segments that are not loaded.

use core::ops::Range;

use cfipack_container::SectionName;
use cfipack_format::widen::ToU64;
use object::elf;

use super::movable;
use super::source::Source;
use crate::embed_error::EmbedError;

/// The sections and segments after the program headers, by their offsets.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    all: Vec<Neighbour>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Neighbour {
    range: Range<u64>,
    part: Part,
}

/// A section or a segment, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Section(usize),
    Segment(usize),
}

impl Neighbours {
    /// Finds all sections and segments that end after the program headers.
    pub fn find(source: &Source<'_>) -> Self {
        let sections = source.sections.iter().enumerate().filter(|(_, section)| section.has_bytes());
        let sections = sections.map(|(index, section)| (section.range(), Part::Section(index)));
        let segments = source.segments.iter().enumerate().filter(|(_, segment)| {
            !segment.is_loaded() && segment.kind != elf::PT_PHDR.0 && segment.file_size != 0
        });
        let segments = segments.map(|(index, segment)| (segment.range(), Part::Segment(index)));
        let all = sections.chain(segments).filter(|(range, _)| range.end > source.ph_end());
        let mut all: Vec<_> = all.map(|(range, part)| Neighbour { range, part }).collect();
        all.sort_by_key(|neighbour| (neighbour.range.start, neighbour.range.end));
        Self { all }
    }

    /// Returns the range of sections and segments that must move so that the program headers can end at `limit`. The
    /// range includes everything that overlaps it. Returns `None` if the room is free already.
    ///
    /// # Errors
    /// Returns an error if a part of the range cannot move, or has unknown bytes.
    pub fn evicted(
        &self,
        source: &Source<'_>,
        limit: u64,
        movable: movable::Kinds,
    ) -> Result<Option<Range<u64>>, EmbedError> {
        let mut run: Option<Range<u64>> = None;
        for neighbour in &self.all {
            if neighbour.range.start >= run.as_ref().map_or(limit, |run| run.end.max(limit)) {
                break;
            }
            let may_move = match neighbour.part {
                Part::Section(index) => movable.section(source, index),
                Part::Segment(index) => movable::segment(&source.segments[index]),
            };
            if neighbour.range.start < source.ph_end() || !may_move {
                return Err(neighbour.refusal(source));
            }
            let start = run.as_ref().map_or(neighbour.range.start, |run| run.start);
            run = Some(start..run.map_or(neighbour.range.end, |run| run.end.max(neighbour.range.end)));
        }
        let end = run.as_ref().map_or(limit, |run| run.end.max(limit));
        self.check_free(source, source.ph_end()..end)?;
        Ok(run)
    }

    /// Returns the range of a section, together with the segments and sections that overlap it.
    pub fn group(&self, section: usize) -> Option<Range<u64>> {
        let mut group: Option<(Range<u64>, bool)> = None;
        for neighbour in &self.all {
            let is_it = neighbour.part == Part::Section(section);
            group = match group {
                Some((range, found)) if neighbour.range.start < range.end => {
                    Some((range.start..range.end.max(neighbour.range.end), found || is_it))
                }
                Some((range, true)) => return Some(range),
                _ => Some((neighbour.range.clone(), is_it)),
            };
        }
        group.filter(|(_, found)| *found).map(|(range, _)| range)
    }

    /// Refuses bytes without a section or header, unless they are zero or patchelf's filler.
    fn check_free(&self, source: &Source<'_>, range: Range<u64>) -> Result<(), EmbedError> {
        let mut at = range.start;
        let sections = self.all.iter().filter(|neighbour| matches!(neighbour.part, Part::Section(_)));
        let before =
            sections.map(|section| section.range.clone()).take_while(|known| known.start < range.end);
        let mut ranges: Vec<_> = before.chain([source.headers_range()]).collect();
        ranges.sort_by_key(|known| known.start);
        ranges.push(range.end..range.end);
        for known in ranges {
            let gap = at..known.start.min(range.end);
            let unknown = source.bytes(gap).iter().position(|byte| !matches!(byte, 0 | b'X' | b'Z'));
            if let Some(unknown) = unknown {
                let offset = at + unknown.to_u64();
                let mut value = [0; 8];
                let bytes = source.bytes(offset..offset + 8);
                value[..bytes.len()].copy_from_slice(bytes);
                return Err(EmbedError::UnknownBytes { offset, value: u64::from_le_bytes(value) });
            }
            at = at.max(known.end);
        }
        Ok(())
    }
}

impl Neighbour {
    fn refusal(&self, source: &Source<'_>) -> EmbedError {
        let section = match self.part {
            Part::Section(index) => source.headers.name_for_error(index),
            Part::Segment(index) => SectionName::new(&source.segments[index].name()),
        };
        EmbedError::NoRoom { section, offset: self.range.start, size: self.range.end - self.range.start }
    }
}
