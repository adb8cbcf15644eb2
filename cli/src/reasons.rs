//! Why functions are left out, or kept in DWARF mode, by name.

use std::collections::BTreeMap;

use cfipack_encoder::Unsupported;

/// The reason of an FDE that cannot be read.
pub const MALFORMED: &str = "malformed-record";

/// The reasons of functions, with that of so many FDEs that cannot be read, and how many there are of each.
pub fn count(unsupported: &[Unsupported], malformed: usize) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for unsupported in unsupported {
        *reasons.entry(unsupported.reason.name()).or_default() += 1;
    }
    if malformed != 0 {
        reasons.insert(MALFORMED, malformed as u64);
    }
    reasons
}
