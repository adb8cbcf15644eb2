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
    /// The index if it is a section.
    section: Option<usize>,
    /// The index if it is a segment.
    segment: Option<usize>,
}

impl Neighbours {
    /// Finds all sections and segments that end after the program headers.
    pub fn find(source: &Source<'_>) -> Self {
        let sections = source.sections.iter().enumerate().filter(|(_, section)| section.has_bytes());
        let sections = sections.map(|(index, section)| Neighbour {
            range: section.range(),
            section: Some(index),
            segment: None,
        });
        let segments = source.segments.iter().enumerate().filter(|(_, segment)| {
            !segment.is_loaded() && segment.kind != elf::PT_PHDR.0 && segment.file_size != 0
        });
        let segments = segments.map(|(index, segment)| Neighbour {
            range: segment.range(),
            section: None,
            segment: Some(index),
        });
        let mut all: Vec<_> = sections.chain(segments).collect();
        all.retain(|one| one.range.end > source.ph_end());
        all.sort_by_key(|one| (one.range.start, one.range.end));
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
        for one in &self.all {
            if one.range.start >= run.as_ref().map_or(limit, |run| run.end.max(limit)) {
                break;
            }
            let may_move = match (one.section, one.segment) {
                (Some(index), _) => movable.section(source, index),
                (_, Some(index)) => movable::segment(&source.segments[index]),
                _ => false,
            };
            if one.range.start < source.ph_end() || !may_move {
                return Err(one.refusal(source));
            }
            let start = run.as_ref().map_or(one.range.start, |run| run.start);
            run = Some(start..run.map_or(one.range.end, |run| run.end.max(one.range.end)));
        }
        let end = run.as_ref().map_or(limit, |run| run.end.max(limit));
        self.check_free(source, source.ph_end()..end)?;
        Ok(run)
    }

    /// Returns the range of a section, together with the segments and sections that overlap it.
    pub fn group(&self, section: usize) -> Option<Range<u64>> {
        let mut group: Option<(Range<u64>, bool)> = None;
        for one in &self.all {
            let is_it = one.section == Some(section);
            group = match group {
                Some((range, found)) if one.range.start < range.end => {
                    Some((range.start..range.end.max(one.range.end), found || is_it))
                }
                Some((range, true)) => return Some(range),
                _ => Some((one.range.clone(), is_it)),
            };
        }
        group.filter(|(_, found)| *found).map(|(range, _)| range)
    }

    /// Refuses bytes without a section or header, unless they are zero or patchelf's filler.
    fn check_free(&self, source: &Source<'_>, range: Range<u64>) -> Result<(), EmbedError> {
        let mut at = range.start;
        let ranges = self.all.iter().filter(|one| one.section.is_some()).map(|one| one.range.clone());
        let mut ranges: Vec<_> = ranges.take_while(|one| one.start < range.end).collect();
        ranges.push(source.headers_range());
        ranges.sort_by_key(|one| one.start);
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
        let section = match (self.section, self.segment) {
            (Some(index), _) => source.headers.name_for_error(index),
            (_, Some(index)) => SectionName::new(&source.segments[index].name()),
            _ => SectionName::new(""),
        };
        EmbedError::NoRoom { section, offset: self.range.start, size: self.range.end - self.range.start }
    }
}
