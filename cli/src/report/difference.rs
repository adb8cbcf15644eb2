//! Differences at a range of PCs, as text and JSON: the same for every verb.

use std::fmt::Display;
use std::ops::Range;

use cfipack_format::Address;
use serde::Serialize;

use crate::report::place::Places;

/// A range of PCs at which two descriptions differ.
#[derive(Serialize)]
pub struct DifferenceJson {
    start: String,
    end: String,
    function: Option<String>,
    words: String,
}

impl DifferenceJson {
    /// The PCs, the function that contains them if there is one, and a description.
    pub fn new<A: Display>(pcs: Range<A>, function: Option<A>, words: &impl Display) -> Self {
        Self {
            start: pcs.start.to_string(),
            end: pcs.end.to_string(),
            function: function.map(|function| function.to_string()),
            words: words.to_string(),
        }
    }

    /// The same, with each place as its file names it.
    pub fn at(
        places: &Places<'_, '_>,
        pcs: Range<Address>,
        function: Option<Address>,
        what: &impl Display,
    ) -> Self {
        Self {
            start: places.location(pcs.start),
            end: places.end(&pcs),
            function: function.map(|function| places.location(function)),
            words: words(places, pcs, function, what),
        }
    }
}

/// The PCs, their function and a description, as text.
pub fn words(
    places: &Places<'_, '_>,
    pcs: Range<Address>,
    function: Option<Address>,
    what: &impl Display,
) -> String {
    let pcs = places.range(pcs);
    match function {
        Some(function) => format!("{pcs} in the function at {}: {what}", places.location(function)),
        None => format!("{pcs}: {what}"),
    }
}
