//! Compares the bytes outside of sections and headers. Loaded bytes must keep their address, and other bytes their
//! place in the file.

use std::ops::Range;

use cfipack_format::widen::{ToU64, ToUsize};

use super::Check;
use super::error::{StructureError, Version};
use super::image::Image;
use super::loads::Memory;
use super::plain::{HEADER, SECTION};
use super::sections::segments_size;

/// A part of a file that another check compares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    start: usize,
    end: usize,
    /// The number to add to the offset of a byte to find it in the other file, modulo 2^64.
    shift: Option<usize>,
    /// The same for the byte after the part, which may be longer in the other file.
    end_shift: Option<usize>,
}

impl Region {
    /// Creates a part whose place in the other file is not of use.
    fn new(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end, shift: None, end_shift: None }
    }
}

/// The parts of both files that other checks compare, in ascending order.
pub(super) struct Regions {
    /// Headers and sections that are loaded.
    loaded: [Vec<Region>; 2],
    /// All headers and sections.
    all: [Vec<Region>; 2],
}

impl Regions {
    /// Finds the regions, and checks that the regions of the new file do not overlap.
    pub(super) fn new(check: &Check<'_>) -> Result<Self, StructureError> {
        let (old, new) = (check.old, check.new);
        let mut all = [headers(old), headers(new)];
        for pair in &check.pairs.pairs {
            let (from, to) = (old.sections[pair.old], new.sections[pair.new]);
            let shift = to.offset.to_usize().wrapping_sub(from.offset.to_usize());
            let is_kept = from.addr == to.addr;
            let end_shift = shift.wrapping_add(to.size.to_usize()).wrapping_sub(from.size.to_usize());
            let shifts = is_kept.then_some([shift, end_shift]);
            push_section(&mut all[0], old, pair.old, shifts);
            push_section(&mut all[1], new, pair.new, shifts.map(|shifts| shifts.map(usize::wrapping_neg)));
        }
        for (image, regions) in [old, new].into_iter().zip(&mut all) {
            for index in (0..image.sections.len()).filter(|&index| image.belongs_to_table(index)) {
                push_section(regions, image, index, None);
            }
            regions.sort_by_key(|region| region.start);
        }
        if let Some(two) = all[1].windows(2).find(|two| two[0].end > two[1].start) {
            let (offset, end) = (two[1].start.to_u64(), two[0].end.to_u64());
            let (file, what) = (Version::New, "sections or headers");
            return Err(StructureError::Overlap { file, what, offset, end });
        }
        let mut loaded = [loaded_regions(old), loaded_regions(new)];
        // If a file has new headers before all other bytes, its old headers are still in the file, but not in use.
        let shift = check.first_shift();
        if shift != 0 {
            let sides = [(old, new, shift.wrapping_neg()), (new, old, shift)];
            for (side, (image, other, shift)) in sides.into_iter().enumerate() {
                let copies = copies_of_headers(image, other, shift);
                for regions in [&mut loaded[side], &mut all[side]] {
                    regions.extend(&copies);
                    regions.sort_by_key(|region| region.start);
                }
            }
        }
        Ok(Self { loaded, all })
    }
}

/// Finds the place in a file that corresponds to the other file's ELF header and program headers, `shift` bytes after
/// them.
fn copies_of_headers(image: &Image<'_>, other: &Image<'_>, shift: u64) -> Vec<Region> {
    let tables = [(0, HEADER), (other.segments_at, segments_size(other))];
    let ranges = tables.into_iter().filter_map(|(offset, size)| {
        // The other file may start earlier: its headers then correspond to no bytes of this file.
        let start = offset.wrapping_add(shift);
        image.range(start, size)
    });
    ranges.map(Region::new).collect()
}

/// Returns the ELF header, the program headers and the section headers.
fn headers(image: &Image<'_>) -> Vec<Region> {
    let section_headers = image.sections.len().to_u64() * SECTION;
    let tables =
        [(0, HEADER), (image.segments_at, segments_size(image)), (image.sections_at, section_headers)];
    let ranges = tables.into_iter().filter(|&(_, size)| size != 0);
    let ranges = ranges.filter_map(|(offset, size)| image.range(offset, size));
    ranges.map(Region::new).collect()
}

fn push_section(regions: &mut Vec<Region>, image: &Image<'_>, index: usize, shifts: Option<[usize; 2]>) {
    let section = image.sections[index];
    let range = image.range(section.offset, section.size).filter(|_| section.has_bytes());
    if let Some(Range { start, end }) = range {
        let [shift, end_shift] = shifts.map_or([None; 2], |shifts| shifts.map(Some));
        regions.push(Region { start, end, shift, end_shift });
    }
}

/// Returns headers, section names, tables and sections that occupy memory. Other sections in a segment are compared as
/// bytes of the segment.
fn loaded_regions(image: &Image<'_>) -> Vec<Region> {
    let mut regions = headers(image);
    for (index, section) in image.sections.iter().enumerate() {
        if section.is_loaded() || index == image.names || image.belongs_to_table(index) {
            push_section(&mut regions, image, index, None);
        }
    }
    regions.sort_by_key(|region| region.start);
    regions
}

/// Returns the parts of a range that no region covers. Each part has the shifts of the last section before it, of its end,
/// and of the region after it, or `shift` if there is none.
fn gaps(
    regions: &[Region],
    range: Range<usize>,
    mut shift: usize,
) -> impl Iterator<Item = (Range<usize>, [usize; 3])> {
    let first = regions.partition_point(|region| region.end <= range.start);
    let last = Region::new(range.end..range.end);
    let inside = regions[first..].iter().take_while(move |region| region.start < range.end).copied();
    let (mut next, mut end_shift) = (range.start, shift);
    inside.chain([last]).filter_map(move |region| {
        let gap = next..region.start.max(next);
        let (before, before_end) = (shift, end_shift);
        next = next.max(region.end);
        shift = region.shift.unwrap_or(shift);
        end_shift = region.end_shift.unwrap_or(end_shift);
        (!gap.is_empty()).then_some((gap, [before, before_end, shift]))
    })
}

/// Checks all gaps of both files.
pub(super) fn check(check: &Check<'_>) -> Result<(), StructureError> {
    let regions = Regions::new(check)?;
    let first = check.first_shift().to_usize();
    for (side, lost) in [(0, true), (1, false)] {
        let (this, other) = if lost { (check.old, check.new) } else { (check.new, check.old) };
        let compare = Compare { this, other, lost };
        for load in &this.loads.0 {
            let segment = load.segment;
            // The reader has checked that a segment lies in the file.
            let range = segment.offset.to_usize()..(segment.offset + segment.filesz).to_usize();
            for (gap, _) in gaps(&regions.loaded[side], range.clone(), 0) {
                compare.in_memory(gap.clone(), segment.vaddr + (gap.start - range.start).to_u64())?;
            }
        }
        let mut all = regions.all[side].clone();
        all.extend(this.loads.0.iter().map(|load| {
            let (start, size) = (load.segment.offset.to_usize(), load.segment.filesz.to_usize());
            Region::new(start..start + size)
        }));
        // If a segment and a section start at the same byte, the segment comes first.
        all.sort_by_key(|region| (region.start, core::cmp::Reverse(region.end)));
        let end = all.iter().map(|region| region.end).max().unwrap_or(0);
        // Bytes before all sections move with the first segment.
        let first = if lost { first } else { first.wrapping_neg() };
        let names = names_of(other);
        let mut others = regions.all[1 - side].clone();
        others.retain(|region| names != (region.start..region.end));
        for (gap, shifts) in gaps(&all, 0..end, first) {
            compare.moved(gap, shifts, first, &others)?;
        }
        let tail = other.bytes.len().wrapping_sub(this.bytes.len());
        compare.in_file(end..this.bytes.len(), tail)?;
    }
    Ok(())
}

/// Compares the bytes of a file with the other file.
struct Compare<'c> {
    this: &'c Image<'c>,
    other: &'c Image<'c>,
    /// True if this is the original.
    lost: bool,
}

/// Returns the range of the names of sections.
fn names_of(image: &Image<'_>) -> Range<usize> {
    let names = image.sections.get(image.names);
    names.and_then(|names| image.range(names.offset, names.size)).unwrap_or(0..0)
}

/// Bytes other than zero that patchelf leaves in the place of a moved section.
const FILLERS: [u8; 2] = *b"XZ";

impl Compare<'_> {
    /// Compares the bytes between two parts with the other file. The bytes move with the part before them. Otherwise
    /// all of them must be outside of the parts of the other file, where tools leave old section headers and old
    /// contents of sections.
    ///
    /// The array has the distances by which the part before, its end and the part after have moved, and `first` is the
    /// distance of the first segment. `others` are the parts of the other file, without the names of sections.
    fn moved(
        &self,
        gap: Range<usize>,
        [before, before_end, after]: [usize; 3],
        first: usize,
        others: &[Region],
    ) -> Result<(), StructureError> {
        let found = self.in_file(gap.clone(), before);
        let Err(error) = found else { return Ok(()) };
        let is_zero = |byte: &u8| *byte == 0;
        let bytes = &self.this.bytes[gap.clone()];
        let start = gap.start + bytes.iter().take_while(|byte| is_zero(byte)).count();
        let end = gap.end - bytes.iter().rev().take_while(|byte| is_zero(byte)).count();
        let names = names_of(self.other);
        let is_left = |shift: usize| {
            let there = start.wrapping_add(shift)..end.wrapping_add(shift);
            if self.other.bytes.get(there.clone()) != Some(&self.this.bytes[start..end]) {
                return false;
            }
            // Names of sections that move as a whole may leave a copy.
            let are_names_whole = there.end <= names.start
                || names.end <= there.start
                || there.start <= names.start && names.end <= there.end;
            let first = gaps(others, there.clone(), 0).next();
            are_names_whole && first.is_some_and(|(outside, _)| outside == there)
        };
        let headers = self.other.sections_at.wrapping_sub(self.this.sections_at).to_usize();
        let is_left = [first, before_end, after, headers].into_iter().any(is_left);
        if is_left { Ok(()) } else { Err(error) }
    }

    /// Compares loaded bytes with the bytes at the same address in the other file.
    fn in_memory(&self, mut gap: Range<usize>, mut address: u64) -> Result<(), StructureError> {
        while !gap.is_empty() {
            let (offset, len) = match self.other.loads.at(address) {
                Memory::Bytes(offset, len) => (Some(offset), len.min(gap.len())),
                Memory::Nothing(len) => (None, len.min(gap.len())),
            };
            let there = offset.map_or(&[][..], |offset| &self.other.bytes[offset..offset + len]);
            self.compare(gap.start..gap.start + len, there)?;
            gap.start += len;
            address = address.saturating_add(len.to_u64());
        }
        Ok(())
    }

    /// Compares bytes that are not loaded with the bytes of the other file `shift` bytes later.
    fn in_file(&self, gap: Range<usize>, shift: usize) -> Result<(), StructureError> {
        // Bytes that would come before the other file's start are not in it.
        let is_backwards = shift > usize::MAX / 2;
        let before = if is_backwards { shift.wrapping_neg().saturating_sub(gap.start) } else { 0 };
        let start = gap.start + before.min(gap.len());
        self.compare(gap.start..start, &[])?;
        let there = self.other.bytes.get(start.wrapping_add(shift)..).unwrap_or_default();
        self.compare(start..gap.end, &there[..there.len().min(gap.end - start)])
    }

    /// Compares bytes, once for each direction. A byte of the original that is not zero must be in the new file, and a
    /// byte of the new file that is not zero must be in the original. Zeros of the original may now be covered by a
    /// part that another check compares, for example by the table.
    fn compare(&self, range: Range<usize>, there: &[u8]) -> Result<(), StructureError> {
        let here = &self.this.bytes[range.clone()];
        if here == there || here.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        for (at, &byte) in here.iter().enumerate() {
            let other = there.get(at).copied();
            let is_filler = self.lost && other.is_some() && FILLERS.contains(&byte);
            if byte == 0 || Some(byte) == other || is_filler {
                continue;
            }
            let (offset, other) = ((range.start + at).to_u64(), other.unwrap_or(0));
            return Err(if self.lost {
                StructureError::LostByte { offset, old: byte, new: other }
            } else {
                StructureError::AddedByte { offset, old: other, new: byte }
            });
        }
        Ok(())
    }
}
