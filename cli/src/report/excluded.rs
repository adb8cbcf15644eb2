//! FDEs that describe no function of their own, counted by reason.

use std::collections::BTreeMap;

use cfipack_container::CallFrameSection;
use cfipack_roundtrip::most_frequent_first;

use crate::report::count::{Counts, Number};

/// The number of excluded FDEs by the reason's name.
pub type Excluded = BTreeMap<&'static str, u64>;

/// Counts the excluded FDEs of sections.
pub fn count(sections: &[CallFrameSection<'_>]) -> Excluded {
    let mut counts = Excluded::new();
    for excluded in sections.iter().flat_map(|section| &section.excluded) {
        *counts.entry(excluded.reason.name()).or_default() += 1;
    }
    counts
}

/// Returns the line of a report about excluded FDEs, if there are any.
pub fn line(excluded: &Excluded) -> Option<String> {
    let all = excluded.values().sum();
    let counts = most_frequent_first(excluded);
    (all != 0).then(|| format!("  excluded: {}: {}", Number(all, "FDE"), Counts(&counts).list()))
}
