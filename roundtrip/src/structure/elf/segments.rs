//! Compares program headers: each must lead to the same bytes as before.

use object::elf;

use super::error::{StructureError, Version};
use super::image::Image;
use super::loads::Load;
use super::plain::Segment;
use super::sections::segments_size;
use super::{Check, PAGE, check_fields, dynamic, others};

/// Checks all program headers apart from the table's.
pub(super) fn check(check: &Check<'_>) -> Result<(), StructureError> {
    let (gone, added) = check_loads(check)?;
    others::check(check, &gone, &added)?;
    check_own(check)
}

/// Pairs the loaded segments. Returns the indexes of the removed segments in the original, and of the added segments in
/// the new file.
fn check_loads(check: &Check<'_>) -> Result<(Vec<usize>, Vec<usize>), StructureError> {
    let Check { old, new, .. } = check;
    let (mut gone, mut added) = (Vec::new(), Vec::new());
    let (mut from, mut to) = (old.loads.0.iter().peekable(), new.loads.0.iter().peekable());
    while let Some(load) = from.peek() {
        match to.peek() {
            Some(there) if overlaps(load, there) => {
                check_load(check, load, there)?;
                from.next();
                to.next();
            }
            Some(there) if there.segment.vaddr < load.segment.vaddr => {
                added.push(there.index);
                to.next();
            }
            _ => {
                gone.push(load.index);
                from.next();
            }
        }
    }
    added.extend(to.map(|load| load.index));
    if let Some(&index) = added.get(1) {
        return Err(StructureError::AddedSegment { index, kind: elf::PT_LOAD.0 });
    }
    if let Some(&index) = added.first() {
        check_added(check, index)?;
    }
    Ok((gone, added))
}

fn overlaps(a: &Load, b: &Load) -> bool {
    let (start, end) = (a.segment.vaddr.max(b.segment.vaddr), a.end().min(b.end()));
    start < end || a.segment.vaddr == b.segment.vaddr
}

/// Builds the error for a field of a program header of the new file.
pub(super) fn differs(index: usize, field: &'static str, old: u64, new: u64) -> StructureError {
    StructureError::Segment { index, field, old, new }
}

/// Checks that a segment loads the same bytes as before. A segment without write permission may load more.
fn check_load(check: &Check<'_>, from: &Load, to: &Load) -> Result<(), StructureError> {
    let index = to.index;
    let (old, new) = (from.segment, to.segment);
    let mut fields = vec![
        ("p_flags", old.flags.into(), new.flags.into()),
        ("p_paddr", new.vaddr.wrapping_add(old.paddr.wrapping_sub(old.vaddr)), new.paddr),
    ];
    let is_fixed = old.flags & elf::PF_W.0 != 0 || old.memsz != old.filesz;
    if is_fixed {
        // The segment may be longer by as much as it starts earlier.
        let more = old.vaddr.wrapping_sub(new.vaddr);
        fields.push(("p_memsz", old.memsz.wrapping_add(more), new.memsz));
        fields.push(("p_filesz", old.filesz.wrapping_add(more), new.filesz));
    }
    fields.push(("p_filesz", if is_fixed { new.filesz } else { new.memsz }, new.filesz));
    // A page with the headers may be added or removed before all others.
    let front = old.vaddr.max(new.vaddr) - old.vaddr.min(new.vaddr);
    let first = if new.vaddr < old.vaddr { new } else { old };
    let is_front = front == 0 || front.is_multiple_of(PAGE) && first.offset == 0;
    fields.push(("p_vaddr", if is_front { new.vaddr } else { old.vaddr }, new.vaddr));
    check_fields(&fields, |field, old, new| differs(index, field, old, new))?;
    // A program with fixed addresses only needs the alignment of pages, whatever power of 2 the header has.
    let is_page =
        check.new.is_executable && [old.align, new.align].contains(&PAGE) && new.align.is_power_of_two();
    if new.align != old.align && !is_page {
        return Err(differs(index, "p_align", old.align, new.align));
    }
    check_congruent(index, new, old)
}

/// Checks that an offset and an address agree modulo the alignment, if the original's do.
fn check_congruent(index: usize, new: Segment, old: Segment) -> Result<(), StructureError> {
    if misalignment(new) == 0 || misalignment(old) != 0 {
        return Ok(());
    }
    Err(differs(index, "p_offset", new.offset.wrapping_add(misalignment(new)), new.offset))
}

/// Returns the difference of a segment's address and offset, modulo the alignment.
fn misalignment(segment: Segment) -> u64 {
    segment.vaddr.wrapping_sub(segment.offset) % segment.align.max(1)
}

/// Checks the added segment. It must be read-only, on pages of its own, and hold the table or moved sections.
fn check_added(check: &Check<'_>, index: usize) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let segment = new.segments[index];
    let has_known_align =
        segment.align == PAGE || old.loads.0.iter().any(|load| load.segment.align == segment.align);
    let fields = [
        ("p_flags", u64::from(elf::PF_R.0), u64::from(segment.flags)),
        ("p_paddr", segment.vaddr, segment.paddr),
        ("p_memsz", segment.filesz, segment.memsz),
        ("p_align", PAGE, if has_known_align { PAGE } else { segment.align }),
    ];
    check_fields(&fields, |field, old, new| differs(index, field, old, new))?;
    check_congruent(index, segment, Segment { offset: 0, vaddr: 0, ..segment })?;
    for load in new.loads.0.iter().filter(|load| load.index != index) {
        let other = load.segment;
        let (end, other_end) = (segment.vaddr + segment.memsz, load.end());
        if other.memsz != 0
            && end > start_of_page(other.vaddr)
            && start_of_page(segment.vaddr) < other_end.next_multiple_of(PAGE)
        {
            let (what, offset) = ("pages", segment.vaddr);
            return Err(StructureError::Overlap { file: Version::New, what, offset, end: other_end });
        }
        let (end, other_end) = (segment.offset + segment.filesz, other.offset + other.filesz);
        if segment.offset < other_end && other.offset < end {
            let (what, offset) = ("PT_LOADs in the file", segment.offset);
            return Err(StructureError::Overlap { file: Version::New, what, offset, end: other_end });
        }
    }
    let holds = |section: usize| {
        let header = new.sections[section];
        header.has_memory() && header.addr >= segment.vaddr && header.addr - segment.vaddr < segment.memsz
    };
    let moved = check.pairs.moves.iter().any(|range| holds(range.pair.new));
    if moved || (0..new.sections.len()).any(|section| holds(section) && new.is_table(section)) {
        return Ok(());
    }
    Err(StructureError::AddedSegment { index, kind: segment.kind })
}

/// Returns the start of the page that contains an address.
fn start_of_page(address: u64) -> u64 {
    address - address % PAGE
}

/// Checks that the program headers are loaded where the kernel and `PT_PHDR` place them.
fn check_own(check: &Check<'_>) -> Result<(), StructureError> {
    let Check { old, new, .. } = check;
    let address = |image: &Image<'_>| image.loads.address_of(image.segments_at);
    // Kernels before 5.18 and qemu-user add `e_phoff` to the lowest address of a program.
    let by_rule = |image: &Image<'_>| {
        let first = image.loads.0.first()?.segment;
        Some(first.vaddr.wrapping_sub(first.offset).wrapping_add(image.segments_at))
    };
    let is_found_by_rule = address(old).is_some() && address(old) == by_rule(old);
    let has_interpreter = old.segments.iter().any(|segment| segment.kind == elf::PT_INTERP.0);
    if is_found_by_rule && (old.is_executable || has_interpreter || dynamic::is_pie(old)) {
        let (expected, found) = (by_rule(new).unwrap_or(0), address(new).unwrap_or(u64::MAX));
        let size = segments_size(new);
        if expected != found || new.loads.offset_of(found, size) != Some(new.segments_at) {
            return Err(StructureError::Header { field: "e_phoff", old: expected, new: found });
        }
    }
    let own = new.segments.iter().enumerate().find(|(_, segment)| segment.kind == elf::PT_PHDR.0);
    if let Some((index, own)) = own
        && Some(own.vaddr) != address(new)
    {
        return Err(differs(index, "p_vaddr", address(new).unwrap_or(0), own.vaddr));
    }
    let spare = new.segments.iter().enumerate().filter(|(_, segment)| segment.kind == elf::PT_NULL.0);
    for (index, segment) in spare {
        if *segment != Segment::default() && old.segments.get(index) != Some(segment) {
            return Err(differs(index, "p_type", 0, 0));
        }
    }
    Ok(())
}
