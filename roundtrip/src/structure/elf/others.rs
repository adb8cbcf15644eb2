//! Compares the program headers other than `PT_LOAD`: each must lead to the same bytes as before.

use core::cell::Cell;

use cfipack_format::widen::ToU64;
use object::elf;

use super::error::StructureError;
use super::image::Image;
use super::plain::Segment;
use super::sections::segments_size;
use super::segments::differs;
use super::{Check, check_fields};

/// How often the headers of a file may lead to each of its bytes, on average. It bounds the time for hostile files.
const COMPARED_PER_BYTE: u64 = 4;

/// Pairs the headers of segments that are not loaded, in their order.
pub(super) fn check(check: &Check<'_>, gone: &[usize], added: &[usize]) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let list = |image: &Image<'_>, without: &[usize]| -> Vec<usize> {
        let kept = image.segments.iter().enumerate().filter(|(index, segment)| {
            let is_other = segment.kind != elf::PT_GNU_SFRAME.0 && segment.kind != elf::PT_NULL.0;
            is_other && without.binary_search(index).is_err()
        });
        kept.map(|(index, _)| index).collect()
    };
    let (optional_old, optional_new) = (Optional::find(old), Optional::find(new));
    let places = &Places {
        shifts: [0, check.first_shift()],
        room: Cell::new(old.bytes.len().to_u64().saturating_mul(COMPARED_PER_BYTE)),
    };
    let mut to = list(new, added).into_iter().peekable();
    for index in list(old, gone) {
        loop {
            let there = to.peek().copied();
            let Err(error) = check_pair(check, index, there, places) else {
                to.next();
                break;
            };
            match there {
                _ if optional_old.has(old.segments[index]) => break,
                Some(there) if optional_new.has(new.segments[there]) => drop(to.next()),
                _ => return Err(error),
            }
        }
    }
    match to.find(|&index| !optional_new.has(new.segments[index])) {
        Some(index) => Err(StructureError::AddedSegment { index, kind: new.segments[index].kind }),
        None => Ok(()),
    }
}

/// The places for segments that are not loaded.
struct Places {
    /// How far bytes of the file may have moved: not at all, or as far as the first segment.
    shifts: [u64; 2],
    /// The number of bytes that may still be compared.
    room: Cell<u64>,
}

impl Places {
    /// Returns whether a header leads to the same bytes of the file as before.
    fn are_same(&self, check: &Check<'_>, from: Segment, to: Segment) -> bool {
        let Some(room) = self.room.get().checked_sub(from.filesz) else { return false };
        self.room.set(room);
        let (old, new) = (check.old, check.new);
        let old_bytes = old.range(from.offset, from.filesz).map(|range| &old.bytes[range]);
        old_bytes == new.range(to.offset, to.filesz).map(|range| &new.bytes[range])
    }
}

/// The headers that no reader needs, so that a file may lack them.
struct Optional {
    /// The `PT_NOTE` of the note that `PT_GNU_PROPERTY` also leads to.
    property: Option<Segment>,
    /// `PT_PHDR`, in a program that no loader relocates.
    own: Option<Segment>,
}

impl Optional {
    fn find(image: &Image<'_>) -> Self {
        let find = |kind: elf::ProgramType| image.segments.iter().find(|segment| segment.kind == kind.0);
        let property = find(elf::PT_GNU_PROPERTY).map(|other| Segment { kind: elf::PT_NOTE.0, ..*other });
        let mut own = None;
        if image.is_executable
            && find(elf::PT_INTERP).is_none()
            && let Some(vaddr) = image.loads.address_of(image.segments_at)
        {
            let (kind, flags, align) = (elf::PT_PHDR.0, elf::PF_R.0, 8);
            let (offset, size) = (image.segments_at, segments_size(image));
            let (paddr, filesz, memsz) = (vaddr, size, size);
            own = Some(Segment { kind, flags, offset, vaddr, paddr, filesz, memsz, align });
        }
        Self { property, own }
    }

    fn has(&self, segment: Segment) -> bool {
        self.property == Some(segment) || self.own == Some(segment)
    }
}

/// Checks that a header of the original is in the new file.
fn check_pair(
    check: &Check<'_>,
    index: usize,
    there: Option<usize>,
    places: &Places,
) -> Result<(), StructureError> {
    let from = check.old.segments[index];
    match there.filter(|&there| check.new.segments[there].kind == from.kind) {
        None => Err(StructureError::MissingSegment { index, kind: from.kind }),
        // `PT_LOAD` is compared by address.
        Some(_) if from.kind == elf::PT_LOAD.0 => Ok(()),
        Some(there) => check_other(check, from, there, places),
    }
}

/// Checks that a header leads to the same bytes as before.
fn check_other(
    check: &Check<'_>,
    from: Segment,
    index: usize,
    places: &Places,
) -> Result<(), StructureError> {
    let Check { old, new, pairs } = check;
    let to = new.segments[index];
    let is_own = from.kind == elf::PT_PHDR.0;
    let delta = if is_own {
        to.vaddr.wrapping_sub(from.vaddr)
    } else if from.memsz == 0 {
        0
    } else {
        pairs.delta_of(from.vaddr, from.memsz).ok_or(differs(index, "p_vaddr", from.vaddr, to.vaddr))?
    };
    let vaddr = from.vaddr.wrapping_add(delta);
    // If `PT_PHDR` was larger than the program headers, the difference must stay.
    let surplus = from.filesz.wrapping_sub(segments_size(old));
    let size = if is_own { segments_size(new).wrapping_add(surplus) } else { from.filesz };
    let memsz = if is_own { size } else { from.memsz };
    let fields = [
        ("p_flags", from.flags.into(), u64::from(to.flags)),
        ("p_vaddr", vaddr, to.vaddr),
        ("p_paddr", to.vaddr.wrapping_add(from.paddr.wrapping_sub(from.vaddr)), to.paddr),
        ("p_filesz", size, to.filesz),
        ("p_memsz", memsz, to.memsz),
        ("p_align", from.align, to.align),
    ];
    check_fields(&fields, |field, old, new| differs(index, field, old, new))?;
    // `PT_GNU_RELRO` protects memory, and no reader takes bytes of the file from it. Older versions of lld round its
    // size up to a page, beyond the memory of its segment. BOLT counts all of it as bytes of the file. Sections and
    // loaded bytes are compared elsewhere.
    let reads_none = from.kind == elf::PT_GNU_RELRO.0;
    let loaded = |image: &Image<'_>, segment: Segment| {
        let size = if reads_none { segment.filesz.min(1) } else { segment.filesz };
        image.loads.offset_of(segment.vaddr, size)
    };
    let (in_old, in_new) = (loaded(old, from), loaded(new, to));
    let is_shifted = places.shifts.iter().any(|&shift| to.offset == from.offset.wrapping_add(shift));
    let (expected, is_right) = match (in_old, in_new) {
        _ if is_own => (new.segments_at, to.offset == new.segments_at),
        (Some(in_old), Some(in_new)) if in_old == from.offset => (in_new, to.offset == in_new),
        // The address of the segment is loaded from other bytes, or not loaded at all.
        _ => {
            let is_right = in_old.is_some() || reads_none || places.are_same(check, from, to);
            (from.offset, is_right && is_shifted)
        }
    };
    if is_right || from.filesz == 0 && is_shifted {
        return Ok(());
    }
    if expected == to.offset {
        return Err(StructureError::SegmentBytes { index, offset: to.offset, size: to.filesz });
    }
    Err(differs(index, "p_offset", expected, to.offset))
}
