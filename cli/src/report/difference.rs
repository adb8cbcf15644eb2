//! Describes differences at a range of PCs, as text and JSON. All verbs use the same form.

use std::fmt::Display;
use std::ops::Range;

use cfipack_format::Address;
use cfipack_roundtrip::ListedDifference;

use crate::report::escaped::Escaped;
use crate::report::place::Places;

/// Returns a difference with the names that the file has for its places.
pub fn listed(places: &Places<'_, '_>, difference: ListedDifference) -> ListedDifference<String> {
    let ListedDifference { start, end, function, .. } = difference;
    let function = function.map(|function| places.location(function));
    difference.named(places.location(start), places.end(&(start..end)), function)
}

/// Returns the PCs, their function and a description, as text.
pub fn words(
    places: &Places<'_, '_>,
    pcs: Range<Address>,
    function: Option<Address>,
    what: &impl Display,
) -> String {
    let pcs = places.range(pcs);
    match function {
        Some(function) => format!("{pcs} in the function at {}: {what}", Escaped(places.location(function))),
        None => format!("{pcs}: {what}"),
    }
}
