//! Counts of the reasons why functions are omitted or in DWARF mode.

use std::collections::BTreeMap;

use cfipack_format::Unsupported;
use cfipack_format::widen::ToU64;

/// The reason of an FDE that cannot be read.
pub const MALFORMED: &str = "malformed-record";

/// The reason of a function that the file's own table lacks.
pub const NOT_IN_THE_TABLE: &str = "not-in-the-table";

/// The reason of a function in DWARF mode that could be encoded. Only the table's writer knows why it is not.
pub const ENCODABLE: &str = "encodable";

/// Counts functions by reason; `malformed` is the number of FDEs that cannot be read.
pub fn count(omitted: &[Unsupported], malformed: usize) -> BTreeMap<&'static str, u64> {
    let mut reasons = BTreeMap::new();
    for omitted in omitted {
        *reasons.entry(omitted.reason.name()).or_default() += 1;
    }
    if malformed != 0 {
        reasons.insert(MALFORMED, malformed.to_u64());
    }
    reasons
}
