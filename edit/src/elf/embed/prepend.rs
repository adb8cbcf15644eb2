//! Room for program headers in new bytes before all others.

use core::ops::Range;

use cfipack_format::widen::{ToU64, ToUsize};
use object::elf;

use super::header::Segment;
use super::plan::Plan;
use super::source::{EHSIZE, PAGE, Source};
use crate::embed_error::EmbedError;

/// The lowest address that Linux lets a program have (`vm.mmap_min_addr`), as distributions set it.
const MIN_ADDRESS: u64 = 0x1_0000;
/// The largest alignment of segments that a file is padded for.
const MAX_ALIGN: u64 = 0x400_0000;

/// The file with a page for ELF header and program headers before all others, which its first segment loads too:
/// only where addresses are fixed, and there are lower ones.
pub(super) fn plan(source: &Source<'_>, table_len: u64) -> Result<Option<Plan>, EmbedError> {
    let page = source.page();
    let mut plan = Plan::shifted(source, 0, page);
    let first = source.loaded().next().filter(|first| {
        let headers = first.offset == 0 && source.ph_end() <= first.range().end;
        headers && first.address >= MIN_ADDRESS + page && first.address.is_multiple_of(page)
    });
    let end = headers_end(&plan);
    let Some(first) = first.filter(|_| source.is_fixed && source.phoff == EHSIZE && end <= page) else {
        return Ok(None);
    };
    let address = first.address - page;
    let mut is_first = true;
    for load in plan.segments.iter_mut().filter(|segment| segment.is_loaded()) {
        load.align = load.align.min(page);
        if core::mem::take(&mut is_first) {
            load.offset = 0;
            load.address = address;
            load.physical = load.physical.saturating_sub(page);
            load.file_size += page;
            load.memory_size += page;
        }
    }
    place_phdr(&mut plan, address);
    plan.push_table_segment(source, table_len, 0, (0, 8))?;
    Ok(Some(plan))
}

/// The file with ELF header, program headers and table before all else, in a segment of their own after all others
/// in memory.
pub(super) fn plan_with_table(source: &Source<'_>, table_len: u64) -> Result<Option<Plan>, EmbedError> {
    let align = align_of(source);
    if source.phoff != EHSIZE || align > MAX_ALIGN {
        return Ok(None);
    }
    let offset = headers_end(&Plan::unchanged(source));
    let refused = EmbedError::Address { value: offset, size: table_len };
    let size = offset.checked_add(table_len).ok_or(refused)?;
    let prefix = size.checked_next_multiple_of(align).ok_or(refused)?;
    let address = source.free_address()?;
    address.checked_add(size).ok_or(refused)?;
    source.len().checked_add(prefix).ok_or(refused)?;

    let mut plan = Plan::shifted(source, 0, prefix);
    if source.is_fixed {
        // Programs that strip keep offsets modulo the alignment, which may be less than a page (`ld -N`).
        let fits = |load: &Segment| load.address.wrapping_sub(load.offset).is_multiple_of(PAGE);
        let loads = plan.segments.iter_mut().filter(|segment| segment.is_loaded() && fits(segment));
        loads.for_each(|load| load.align = load.align.max(PAGE));
    }
    plan.push_load(Segment::new(elf::PT_LOAD.0, 0, address, size, source.page()));
    place_phdr(&mut plan, address);
    plan.place_table(source, None, offset, address + offset, table_len);
    plan.rebuild_tail(source);
    Ok(Some(plan))
}

/// The end of the program headers after the ELF header, with a new segment's and the table's.
fn headers_end(plan: &Plan) -> u64 {
    EHSIZE + (plan.segments.len().to_u64() + 2) * Segment::LEN
}

/// Lets `PT_PHDR` describe the program headers at the start of the file, whose first byte lies at an address.
fn place_phdr(plan: &mut Plan, address: u64) {
    let phdr = plan.segments.iter_mut().find(|segment| segment.kind == elf::PT_PHDR.0);
    if let Some(phdr) = phdr {
        phdr.offset = EHSIZE;
        phdr.address = address + EHSIZE;
        phdr.physical = phdr.address;
    }
}

/// The alignment modulo which bytes before all others keep offsets.
fn align_of(source: &Source<'_>) -> u64 {
    let aligns = source.loaded().map(|load| load.align).filter(|align| align.is_power_of_two());
    aligns.max().unwrap_or(1).max(source.page())
}

/// The number of bytes that were put before all others; 0 if none were.
///
/// A copy of the ELF header follows them, because nothing else has moved.
pub(super) fn skip(source: &Source<'_>) -> u64 {
    let has_headers = |segment: &&Segment| segment.offset == 0 && source.ph_end() <= segment.range().end;
    let Some(start) = source.loaded().find(has_headers).filter(|_| source.phoff == EHSIZE) else { return 0 };
    let skip = match is_segment_of_table(source, start) {
        true => start.range().end.checked_next_multiple_of(align_of(source)).unwrap_or(0),
        false if start.file_size > source.page() => source.page(),
        false => return 0,
    };
    // All of the header but the numbers and offsets that have changed.
    let is_copy = |range: Range<u64>| {
        let copy = skip + range.start..skip + range.end;
        copy.end <= source.len() && source.bytes(copy) == source.bytes(range)
    };
    if skip >= source.ph_end() && is_copy(0..0x28) && is_copy(0x30..0x38) { skip } else { 0 }
}

/// The alignment of a loaded segment, by its address, in the program headers that a page was put before. They are read
/// no longer.
pub(super) fn old_align(source: &Source<'_>, skip: u64, address: u64) -> Option<u64> {
    let copy =
        source.bytes(skip + source.phoff..skip + source.ph_end()).chunks_exact(Segment::LEN.to_usize());
    let mut segments = copy.map(|bytes| Segment::from_bytes(bytes, source.endian));
    segments.find(|one| one.is_loaded() && one.address == address).map(|one| one.align)
}

/// Returns whether a segment has the file's start and its table, and comes after all others in memory.
pub(super) fn is_segment_of_table(source: &Source<'_>, segment: &Segment) -> bool {
    let table = source.segment(elf::PT_GNU_SFRAME).map_or(0..0, Segment::range);
    let is_last = source.loaded().all(|other| other.address <= segment.address);
    segment.offset == 0
        && is_last
        && source.loaded().count() > 1
        && table.start != 0
        && table.end <= segment.range().end
}
