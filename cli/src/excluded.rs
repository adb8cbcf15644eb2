//! FDEs that describe no function of their own, counted by reason.

use std::collections::BTreeMap;

use cfipack_container::CallFrameSection;
use cfipack_roundtrip::most_frequent_first;

use crate::count::{Counts, Number};

/// How many FDEs do not count, by the reason's name.
pub type Excluded = BTreeMap<&'static str, u64>;

/// Counts those of some sections.
pub fn count(sections: &[CallFrameSection<'_>]) -> Excluded {
    let mut counts = Excluded::new();
    for excluded in sections.iter().flat_map(|section| &section.excluded) {
        *counts.entry(excluded.reason.name()).or_default() += 1;
    }
    counts
}

/// The line of a report about them, if there are any.
pub fn line(excluded: &Excluded) -> Option<String> {
    let all = excluded.values().sum();
    let counts = most_frequent_first(excluded);
    (all != 0).then(|| format!("  passed over: {}: {}", Number(all, "FDE"), Counts(&counts).list()))
}
