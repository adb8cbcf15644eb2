//! Finds FDEs that contradict each other, and FDEs that describe no code.

use std::collections::HashMap;

use cfipack_code::{Finding, Kind, Text};
use cfipack_container::CallFrameSection;
use cfipack_format::Address;
use cfipack_format::cfi::{Excluded, Exclusion};
use cfipack_roundtrip::cfi::{Evaluator, Function, Functions};

use super::Found;

/// Finds FDEs that start at one address and disagree. Returns a finding for each address.
///
/// An FDE of `.debug_frame` counts here even if an FDE of `.eh_frame` supersedes it: gdb and lldb prefer it.
pub fn disputed(sections: &[CallFrameSection<'_>]) -> HashMap<Address, Found> {
    let excluded: Vec<Vec<Excluded>> = sections.iter().map(not_superseded).collect();
    let cfi: Vec<_> = sections
        .iter()
        .zip(&excluded)
        .map(|(section, excluded)| section.cfi().with_excluded(excluded))
        .collect();
    let functions = Functions::find(&cfi);
    let mut evaluator = Evaluator::new(&functions);
    let disputed = functions.as_slice().iter().filter(|function| evaluator.is_disputed(&functions, function));
    let found = disputed.map(|function| {
        let others = functions.duplicates_of(function).iter().map(|other| place(sections, other));
        let others = others.collect::<Vec<_>>().join(", ");
        let words = format!("not all FDEs that start here say the same: {others} and this");
        (function.start, found(sections, function, Kind::Disputed, words))
    });
    found.collect()
}

/// Returns the finding that an FDE describes no code.
pub fn no_code(sections: &[CallFrameSection<'_>], function: &Function) -> Found {
    let words = format!("no section is at {:#x}, where the FDE's code starts", function.start.0);
    found(sections, function, Kind::NoCode, words)
}

/// Returns the FDEs of a section that do not count for other reasons than an FDE of `.eh_frame`.
fn not_superseded(section: &CallFrameSection<'_>) -> Vec<Excluded> {
    section.excluded.iter().filter(|excluded| excluded.reason != Exclusion::Superseded).copied().collect()
}

fn found(sections: &[CallFrameSection<'_>], function: &Function, kind: Kind, words: String) -> Found {
    let size = u32::try_from(function.end.0 - function.start.0).unwrap_or(u32::MAX);
    Found {
        pc: function.start,
        text: Text::Plain(place(sections, function)),
        cfa: String::new(),
        finding: Finding::of_function(kind, size, words),
    }
}

/// Returns the place of a function's FDE.
fn place(sections: &[CallFrameSection<'_>], function: &Function) -> String {
    let name = sections.get(function.section).map_or("", |section| &*section.section.name);
    format!("FDE at {name}+{}", function.fde)
}
