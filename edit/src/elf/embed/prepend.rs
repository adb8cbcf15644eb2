//! Makes room for program headers in a new page before all other bytes.

use core::ops::Range;

use cfipack_format::widen::ToU64;
use object::elf::{self, ProgramHeader64};
use object::pod::slice_from_all_bytes;

use super::header::Segment;
use super::plan::{Plan, Splice};
use super::source::{EHSIZE, Source};
use crate::embed_error::EmbedError;

/// The lowest address that Linux lets a program have (`vm.mmap_min_addr`), as distributions set it.
const MIN_ADDRESS: u64 = 0x1_0000;

/// Plans a new page for the ELF header and the program headers before all other bytes. The first segment then loads
/// this page too. This works only for fixed addresses, if there is a lower page.
pub(super) fn plan(source: &Source<'_>, table_len: u64) -> Result<Option<Plan>, EmbedError> {
    let page = source.page();
    let mut plan = Plan::unchanged(source);
    plan.splice(Splice::zeros(0, page));
    let first = source.loaded().next().filter(|first| {
        let headers = first.offset == 0 && source.ph_end() <= first.range().end;
        headers && first.address >= MIN_ADDRESS + page && first.address.is_multiple_of(page)
    });
    // Two headers are added: for the new segment and for the table.
    let end = EHSIZE + (plan.segments.len().to_u64() + 2) * Segment::LEN;
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
    place_phdr(&mut plan, EHSIZE, address);
    plan.push_table_segment(source, table_len, 0, (0, 8))?;
    Ok(Some(plan))
}

/// Lets `PT_PHDR` describe the program headers at `offset`. `address` is the address of the file's first byte.
pub(super) fn place_phdr(plan: &mut Plan, offset: u64, address: u64) {
    for phdr in plan.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR.0) {
        phdr.offset = offset;
        phdr.address = address.wrapping_add(offset);
        phdr.physical = phdr.address;
    }
}

/// Returns the number of bytes that embedding put before all other bytes, or 0 if it put none.
///
/// The old ELF header follows these bytes, because the rest of the file has not changed.
pub(super) fn skip(source: &Source<'_>) -> u64 {
    if source.phoff != EHSIZE {
        return 0;
    }
    let mut loaded = source.loaded();
    let start = loaded.find(|load| load.offset == 0 && source.ph_end() <= load.range().end);
    let skip = source.page();
    if start.is_none_or(|start| start.file_size <= skip) {
        return 0;
    }
    // The copy has the same header, apart from numbers and offsets that have changed.
    let is_copy = |range: Range<u64>| {
        let copy = skip + range.start..skip + range.end;
        copy.end <= source.len() && source.bytes(copy) == source.bytes(range)
    };
    if skip >= source.ph_end() && is_copy(0..0x28) && is_copy(0x30..0x38) { skip } else { 0 }
}

/// Returns the alignment that a loaded segment had before the page was added. The old program headers are still in the
/// file, but no longer in use.
pub(super) fn old_align(source: &Source<'_>, skip: u64, address: u64) -> Option<u64> {
    let copy = source.bytes(skip + source.phoff..skip + source.ph_end());
    let headers: &[ProgramHeader64<_>] = slice_from_all_bytes(copy).ok()?;
    let mut segments = headers.iter().map(|header| Segment::read(header, source.headers.endian));
    segments.find(|segment| segment.is_loaded() && segment.address == address).map(|segment| segment.align)
}
