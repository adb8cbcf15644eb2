//! Counts of the reasons why functions are omitted or in DWARF mode.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cfipack_format::Unsupported;
use cfipack_format::widen::ToU64;
use cfipack_roundtrip::most_frequent_first;

use crate::report::count::Counts;

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

/// Lists the reasons with their counts, the most frequent first, or returns `None` if there are none.
pub fn list(reasons: &BTreeMap<impl AsRef<str>, u64>) -> Option<String> {
    let reasons = most_frequent_first(reasons);
    (!reasons.is_empty()).then(|| Counts(&reasons).list())
}

/// Writes the list of reasons as a line of a report, after `heading`. Writes nothing if there are no reasons.
pub fn print(
    out: &mut impl Write,
    heading: &str,
    reasons: &BTreeMap<impl AsRef<str>, u64>,
) -> io::Result<()> {
    list(reasons).map_or(Ok(()), |reasons| writeln!(out, "  {heading}: {reasons}"))
}
