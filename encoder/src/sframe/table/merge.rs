//! Merges neighbouring functions into FDEs. This works because a lookup sees an FDE only as a range of PCs.
//!
//! Dynamic programming over the functions in address order finds the cheapest way to cut them into FDEs with a
//! limited number of rows. A function that shares its block with other functions pays a part of the block, so
//! sharing is given up only if merging saves more.

use alloc::vec;
use alloc::vec::Vec;

use cfipack_format::sframe::{FdeInfo, FdeType, FreType, Version};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Endian};

use crate::Reason;
use crate::sframe::options::{Layout, Options};
use crate::sframe::rows::fre::Fre;
use crate::sframe::rows::fres::{Fres, MAX_ROWS};
use crate::sframe::table::block::Blocks;
use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::read_back::{Head, Row, read_back};

/// The largest number of functions in an FDE. A larger group with the same row would save hardly another byte,
/// and time grows with the square of the group.
const MAX_GROUP: usize = 256;

/// A function that may be merged.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    entry: Entry,
    info: FdeInfo,
    fde_type: FdeType,
    rep_size: u8,
    /// The range of the function's rows in the list of all rows.
    rows: (u32, u32),
    /// The cost of the function alone, in bytes. Its part of a shared block is a fraction.
    cost: f32,
}

/// Merges neighbouring functions, if no functions share a PC. Keys are taken for addresses. If the functions
/// move apart later, [`Section::write`](crate::sframe::Section::write) refuses the table.
pub(crate) fn merge<'a>(arch: Arch, options: Options, entries: &Entries<'_>) -> Result<Entries<'a>, Reason> {
    let endian = arch.endian();
    let (candidates, rows) = candidates(entries, options.version, endian);
    let cuts = cuts(&candidates, &rows, &Gaps::new(entries, options), options);
    let mut fres = Fres::new(endian, false);
    let blocks = Blocks::new(options, endian, fres.seed());
    let mut merged = Entries::new(blocks);
    merged.list.reserve(entries.list.len());
    for group in cuts {
        write(&candidates[group.0..group.1], &rows, &mut fres, &mut merged)?;
    }
    Ok(merged)
}

/// Returns the functions in address order, and all their rows.
fn candidates(entries: &Entries<'_>, version: Version, endian: Endian) -> (Vec<Candidate>, Vec<Row>) {
    let mut list = entries.list.clone();
    list.sort_by_cached_key(|entry| entry.start);
    let mut shares = vec![0u32; entries.blocks.len()];
    list.iter().for_each(|entry| shares[entry.block.to_usize()] += 1);
    let mut rows = Vec::new();
    let candidates = list.into_iter().map(|entry| {
        let block = entries.blocks.block(entry.block);
        let first = rows.len() as u32;
        let (Head { info, fde_type, rep_size, .. }, of_block) =
            read_back(&entries.blocks, entry.block, endian);
        rows.extend(of_block);
        let part = block.len() as f32 / shares[entry.block.to_usize()] as f32;
        let cost = version.fde_size() as f32 + part;
        Candidate { entry, info, fde_type, rep_size, rows: (first, rows.len() as u32), cost }
    });
    (candidates.collect(), rows)
}

/// Decides across which gaps between functions to merge.
struct Gaps {
    /// The starts of omitted functions, ascending. With each start is the greatest end of the omitted functions
    /// up to it.
    omitted: Vec<(u64, u64)>,
    /// Bytes of the longest gap.
    longest: u64,
}

impl Gaps {
    fn new(entries: &Entries<'_>, options: Options) -> Self {
        let mut omitted: Vec<_> =
            entries.omitted.iter().map(|omitted| (omitted.start, omitted.end())).collect();
        omitted.sort_unstable();
        let mut reached = 0;
        for (_, end) in &mut omitted {
            reached = reached.max(*end);
            *end = reached;
        }
        Self { omitted, longest: if entries.unread { 0 } else { options.padding() } }
    }

    /// Returns whether there is nothing or only padding between a function's end and the next function's start.
    fn is_padding(&self, end: u64, next: u64) -> bool {
        let before = self.omitted.partition_point(|&(start, _)| start < next);
        let reached = before.checked_sub(1).map_or(0, |last| self.omitted[last].1);
        (end..=end.saturating_add(self.longest)).contains(&next) && (end == next || reached <= end)
    }
}

/// Returns whether `next` can follow `last` in the same FDE.
fn can_follow(last: &Candidate, next: &Candidate, rows: &[Row], gaps: &Gaps) -> bool {
    // Stubs repeat, and a signal frame's PC is used without subtracting 1. Neither is true of any other
    // function.
    let alone = FdeInfo::PC_MASK | FdeInfo::SIGNAL;
    let Some(end) = last.entry.start.checked_add(last.entry.size.into()) else { return false };
    let starts_with_a_row = rows.get(next.rows.0.to_usize()).is_some_and(|row| row.0 == 0);
    !last.info.intersects(alone)
        && !next.info.intersects(alone)
        && last.info.with_fre_type(FreType::Addr1) == next.info.with_fre_type(FreType::Addr1)
        && last.fde_type == next.fde_type
        && starts_with_a_row
        && gaps.is_padding(end, next.entry.start)
}

/// Cuts the functions into groups, as ranges of candidates.
fn cuts(candidates: &[Candidate], rows: &[Row], gaps: &Gaps, options: Options) -> Vec<(usize, usize)> {
    let fixed = options.version.fde_size() + options.version.attribute_size();
    let max_rows = options.merge_functions.min(MAX_ROWS);
    // `best[n]` has the least cost of the first `n` functions, and the start of their last group.
    let mut best = vec![(f32::INFINITY, 0); candidates.len() + 1];
    best[0] = (0.0, 0);
    for first in 0..candidates.len() {
        let so_far = best[first].0;
        let alone = so_far + candidates[first].cost;
        if alone < best[first + 1].0 {
            best[first + 1] = (alone, first);
        }
        let mut group = Group::new(&candidates[first], rows);
        for next in first + 1..candidates.len().min(first + MAX_GROUP) {
            let (from, to) = candidates[next].rows;
            // Only the first row of a function may repeat the row before it.
            let has_too_many_rows = group.rows + (to - from) > max_rows + 1;
            if has_too_many_rows || !can_follow(&candidates[next - 1], &candidates[next], rows, gaps) {
                break;
            }
            let Some(offset) = group.add(&candidates[next], rows) else { break };
            if group.rows > max_rows {
                break;
            }
            let width = FreType::for_start(offset).width();
            let cost = so_far + (fixed + group.rows.to_usize() * width + group.bytes) as f32;
            if cost < best[next + 1].0 {
                best[next + 1] = (cost, first);
            }
        }
    }
    let mut cuts = Vec::new();
    let mut end = candidates.len();
    while end > 0 {
        let first = best[end].1;
        cuts.push((first, end));
        end = first;
    }
    cuts.reverse();
    cuts
}

/// The rows and bytes of a group under construction.
struct Group {
    start: u64,
    rows: u32,
    /// Bytes of the FREs, without their starts.
    bytes: usize,
    last: Option<Fre>,
    last_start: u32,
}

impl Group {
    fn new(first: &Candidate, rows: &[Row]) -> Self {
        let mut group = Self { start: first.entry.start, rows: 0, bytes: 0, last: None, last_start: 0 };
        group.add(first, rows);
        group
    }

    /// Adds a function. Returns the start of the group's last row, if the group is not too large.
    fn add(&mut self, candidate: &Candidate, rows: &[Row]) -> Option<u32> {
        let offset = u32::try_from(candidate.entry.start - self.start).ok()?;
        offset.checked_add(candidate.entry.size)?;
        for (start, fre) in &rows[candidate.rows.0.to_usize()..candidate.rows.1.to_usize()] {
            if self.last != Some(*fre) {
                self.rows += 1;
                self.bytes += fre.len();
                self.last = Some(*fre);
                self.last_start = offset + start;
            }
        }
        Some(self.last_start)
    }
}

/// Writes a group as an FDE.
fn write(group: &[Candidate], rows: &[Row], fres: &mut Fres, merged: &mut Entries<'_>) -> Result<(), Reason> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(()) };
    let start = first.entry.start;
    let size = (last.entry.start - start) as u32 + last.entry.size;
    fres.begin(Layout::Small.fre_type(size));
    for candidate in group {
        let offset = (candidate.entry.start - start) as u32;
        for (row, fre) in &rows[candidate.rows.0.to_usize()..candidate.rows.1.to_usize()] {
            if !fres.repeats(fre) {
                fres.push(offset + row, fre);
            }
        }
    }
    let others = group.iter().skip(1).map(|candidate| (start, candidate.entry.start));
    merged.merged.extend(others);
    fres.narrow();
    merged.add(start, size, fres, first.info, first.fde_type, first.rep_size)
}

#[cfg(test)]
mod tests {
    use cfipack_format::{Address, Arch};

    use super::MAX_GROUP;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame::{CIE, fde};
    use crate::sframe::{Builder, Options};

    /// Returns the number of FDEs for `count` functions of 16 bytes from `start` on. Each function follows the
    /// function before it, and all have the row of their CIE.
    fn merged(start: u64, count: u32) -> usize {
        let mut bytes = CIE.to_vec();
        for number in 0..count {
            fde(&mut bytes, 0, 0x10_0000 + 16 * number, 16, &[0; 3]);
        }
        let address = Address(start.wrapping_sub(0x10_0000));
        let section = Section::new(SectionKind::EhFrame, &bytes, address, Arch::Amd64);
        let options = Options::new().with_merge_functions(16);
        let mut builder = Builder::new(Arch::Amd64, options).unwrap();
        builder.push_all(crate::cfi::Functions::new(&section), |omitted| panic!("{omitted:?}"));
        builder.finish().num_fdes()
    }

    #[test]
    fn functions_of_one_row_are_merged_so_many_at_a_time() {
        assert_eq!(merged(0x1000, MAX_GROUP as u32), 1);
        assert_eq!(merged(0x1000, 4 * MAX_GROUP as u32 + 1), 5);
    }

    /// If a function's CIE cannot be read, its place is unknown: it may lie in the gap.
    #[test]
    fn no_gap_is_merged_across_beside_a_function_that_cannot_be_read() {
        for (version, fdes) in [(1, 1), (9, 2)] {
            let mut bytes = [CIE, CIE].concat();
            // The version of the second CIE.
            bytes[CIE.len() + 8] = version;
            // The function of the second CIE fills the gap between the other functions.
            for (cie, start, size) in [(0, 0, 4), (24, 4, 8), (0, 12, 4)] {
                fde(&mut bytes, cie, 0x10_0000 + start, size, &[0; 3]);
            }
            let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
            let options = Options::new().with_merge_functions(16);
            let mut builder = Builder::new(Arch::Amd64, options).unwrap();
            let mut omitted = 0;
            builder.push_all(crate::cfi::Functions::new(&section), |_| omitted += 1);
            assert_eq!((omitted, builder.finish().num_fdes()), (fdes - 1, fdes));
        }
    }

    #[test]
    fn functions_up_to_the_last_address_are_merged() {
        assert_eq!(merged(u64::MAX - 32, 2), 1);
    }
}
