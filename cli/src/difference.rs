//! PCs at which two things differ, in JSON: the same for every verb.

use std::fmt::Display;
use std::ops::Range;

use serde::Serialize;

/// Some PCs that differ.
#[derive(Serialize)]
pub struct DifferenceJson {
    start: String,
    end: String,
    function: Option<String>,
    words: String,
}

impl DifferenceJson {
    /// The PCs, the function that has them if one does, and what there is to say of them.
    pub fn new<A: Display>(pcs: Range<A>, function: Option<A>, words: &impl Display) -> Self {
        Self {
            start: pcs.start.to_string(),
            end: pcs.end.to_string(),
            function: function.map(|function| function.to_string()),
            words: words.to_string(),
        }
    }
}
