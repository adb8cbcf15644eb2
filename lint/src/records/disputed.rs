//! Finds FDEs that start at one address and disagree.

use std::collections::HashSet;

use cfipack_container::CallFrameSection;
use cfipack_format::cfi::{Excluded, Exclusion};
use cfipack_format::widen::ToU64;
use cfipack_roundtrip::cfi::{Evaluator, Function, Functions};

use super::{RecordFinding, RecordKind};

/// Finds FDEs that start at one address and disagree. Those that are found to overlap are skipped.
///
/// An FDE of `.debug_frame` counts here even if an FDE of `.eh_frame` supersedes it: gdb and lldb prefer it.
pub(super) fn check(sections: &[CallFrameSection<'_>], found: &mut Vec<RecordFinding>) {
    let excluded: Vec<Vec<Excluded>> = sections.iter().map(not_superseded).collect();
    let cfi: Vec<_> = sections
        .iter()
        .zip(&excluded)
        .map(|(section, excluded)| section.cfi().with_excluded(excluded))
        .collect();
    let functions = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&functions);
    let overlaps = found.iter().filter(|finding| finding.kind == RecordKind::Overlap);
    let overlaps: HashSet<_> = overlaps.map(|finding| finding.function).collect();
    let all = functions.as_slice().iter().filter(|function| !overlaps.contains(&function.start));
    let disputed = all.filter(|function| evaluator.is_disputed(&functions, function));
    found.extend(disputed.map(|function| {
        let others = functions.duplicates_of(function).iter().map(|other| {
            let (section, offset) = place(sections, other);
            format!("{section}+{offset:#x}")
        });
        let others = others.collect::<Vec<_>>().join(", ");
        RecordFinding {
            kind: RecordKind::Disputed,
            function: function.start,
            wrong: function.start..function.end,
            record: Some(place(sections, function)),
            words: format!("not all FDEs that start here say the same: {others} and this"),
        }
    }));
}

/// Returns the FDEs of a section that do not count for other reasons than an FDE of `.eh_frame`.
fn not_superseded(section: &CallFrameSection<'_>) -> Vec<Excluded> {
    section.excluded.iter().filter(|excluded| excluded.reason != Exclusion::Superseded).copied().collect()
}

/// Returns the name of the section that has a function's FDE, and the offset in it.
fn place(sections: &[CallFrameSection<'_>], function: &Function) -> (String, u64) {
    let name = sections.get(function.section).map_or("", |section| &*section.section.name);
    (name.to_owned(), function.fde.0.to_u64())
}
