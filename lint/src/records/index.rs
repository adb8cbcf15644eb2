//! Checks the index in `.eh_frame_hdr`: entries ascend, each leads to an FDE that starts there, and a search for a PC
//! finds the FDE that describes the PC.

use std::collections::HashSet;
use std::ops::Range;

use cfipack_cfi::SectionKind;
use cfipack_container::{CallFrameSection, FdeIndex, IndexEntry};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use super::{Fde, RecordFinding, RecordKind};

/// The name of the section in reports.
const NAME: &str = ".eh_frame_hdr";

/// Finds the faults of the index. `fdes` are sorted by section, then by start, and FDEs with the same start by end.
pub(super) fn check(
    index: &FdeIndex,
    sections: &[CallFrameSection<'_>],
    fdes: &[Fde],
    found: &mut Vec<RecordFinding>,
) {
    let is_eh_frame = |section: &CallFrameSection<'_>| section.kind == SectionKind::EhFrame;
    let is_indexed = |section: &CallFrameSection<'_>| {
        let offset = index.eh_frame.and_then(|start| start.0.checked_sub(section.section.address.0));
        is_eh_frame(section) && offset.is_some_and(|offset| offset < section.section.bytes.len().to_u64())
    };
    let place = sections.iter().position(is_indexed).or_else(|| sections.iter().position(is_eh_frame));
    let Some(number) = place else { return };
    let first = fdes.partition_point(|fde| fde.section < number);
    let fdes = &fdes[first..first + fdes[first..].partition_point(|fde| fde.section == number)];
    order(index, found);
    let search = Search::new(index, &sections[number], fdes, found);
    for (place, fde) in fdes.iter().enumerate().filter(|(_, fde)| !fde.is_empty()) {
        let next = fdes.get(place + 1);
        // Of several FDEs with the same start, the last one in this order is the longest.
        if next.is_none_or(|next| next.start != fde.start) {
            found.extend(search.fault(fde, &sections[number].section.name));
        }
    }
}

/// Finds entries that are for a lower address than the entry before them.
fn order(index: &FdeIndex, found: &mut Vec<RecordFinding>) {
    for pair in index.entries.windows(2) {
        let [before, entry] = pair else { continue };
        if before.start > entry.start {
            let words = format!(
                "the entry before it is for {}: a binary search does not find every function",
                before.start
            );
            found.push(fault(RecordKind::IndexOrder, entry, words));
        }
    }
}

fn fault(kind: RecordKind, entry: &IndexEntry, words: String) -> RecordFinding {
    let record = Some((NAME.to_owned(), entry.offset));
    RecordFinding { kind, function: entry.start, wrong: entry.start..entry.start.offset(1), record, words }
}

/// The index as a reader searches it: entries ascending by start, with the FDEs that they lead to.
struct Search<'s> {
    entries: Vec<(&'s IndexEntry, &'s Fde)>,
    /// The addresses of entries that lead elsewhere. The FDE that such an entry should lead to is no fault of its own.
    astray: HashSet<Address>,
}

impl<'s> Search<'s> {
    /// Follows every entry to its FDE, and reports entries that lead to no FDE, or to an FDE with another start.
    fn new(
        index: &'s FdeIndex,
        section: &CallFrameSection<'_>,
        fdes: &'s [Fde],
        found: &mut Vec<RecordFinding>,
    ) -> Self {
        let mut by_offset: Vec<&Fde> = fdes.iter().collect();
        by_offset.sort_unstable_by_key(|fde| fde.offset);
        let (mut entries, mut astray) = (Vec::with_capacity(index.entries.len()), HashSet::new());
        for entry in &index.entries {
            let offset = entry.fde.0.wrapping_sub(section.section.address.0);
            let is_excluded =
                section.excluded.binary_search_by_key(&offset, |excluded| excluded.fde.0.to_u64()).is_ok();
            let fde =
                by_offset.binary_search_by_key(&offset, |fde| fde.offset).ok().map(|place| by_offset[place]);
            let leads = match fde {
                Some(fde) if fde.start == entry.start => {
                    entries.push((entry, fde));
                    continue;
                }
                None if is_excluded => continue,
                Some(fde) => format!("to the FDE for {}", fde.start),
                None => "to no FDE".to_owned(),
            };
            let words = format!("it is for {}, and leads {leads}", entry.start);
            found.push(fault(RecordKind::IndexEntry, entry, words));
            astray.insert(entry.start);
        }
        entries.sort_by_key(|(entry, _)| entry.start);
        Self { entries, astray }
    }

    /// Returns the fault by which a search for a PC of an FDE ends at another FDE, or at none.
    fn fault(&self, fde: &Fde, section: &str) -> Option<RecordFinding> {
        let first = self.entries.partition_point(|(entry, _)| entry.start < fde.start);
        let rest = &self.entries[first..];
        let (here, after) = rest.split_at(rest.partition_point(|(entry, _)| entry.start == fde.start));
        let hidden = |entry: &IndexEntry, wrong: Range<Address>, leads: &Fde| {
            let what = if leads.is_empty() { "an empty FDE" } else { "a shorter FDE" };
            let bytes = wrong.end.0 - wrong.start.0;
            let words =
                format!("it leads to {what}: a search finds no row for {bytes:#x} bytes of code after it");
            let record = Some((NAME.to_owned(), entry.offset));
            RecordFinding { kind: RecordKind::HiddenFde, function: fde.start, wrong, record, words }
        };
        let Some(&(entry, found)) = here.last() else {
            if self.astray.contains(&fde.start) {
                return None;
            }
            let words = "the index has no entry for this FDE, so that no search finds it".to_owned();
            let record = Some((section.to_owned(), fde.offset));
            let (kind, wrong) = (RecordKind::IndexMissing, fde.start..fde.end);
            return Some(RecordFinding { kind, function: fde.start, wrong, record, words });
        };
        if found.end < fde.end {
            return Some(hidden(entry, found.end..fde.end, found));
        }
        // An empty FDE in the middle of the code gets the search for the code after it.
        let inside = after.iter().take_while(|(entry, _)| entry.start < fde.end).enumerate();
        inside.filter(|(_, (_, found))| found.is_empty()).find_map(|(place, &(entry, found))| {
            let end = after.get(place + 1).map_or(fde.end, |(next, _)| next.start.min(fde.end));
            (entry.start < end).then(|| hidden(entry, entry.start..end, found))
        })
    }
}
