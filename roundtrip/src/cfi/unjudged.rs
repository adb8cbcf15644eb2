//! The FDEs that cannot be judged.

use cfipack_format::SectionOffset;
use cfipack_format::cfi::Section;

use super::evaluate::Evaluator;
use super::functions::Functions;
use super::unevaluated::Unevaluated;

/// An FDE that cannot be judged. A table with rows for it is never proven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unjudged {
    /// The index of the section.
    pub section: usize,
    /// The offset of the FDE.
    pub fde: SectionOffset,
    /// The reason.
    pub reason: Unevaluated,
}

/// Returns the FDEs that gimli cannot read or evaluate to their end, and FDEs that disagree with another FDE of the same
/// start. They are in ascending order of section and offset.
///
/// Call this if a [report](crate::Report::has_unproven_rows) says that the table has rows for such functions. A table
/// without them can be proven. All functions are evaluated, so this takes as long as a verification.
pub fn unjudged(sections: &[Section<'_>]) -> Vec<Unjudged> {
    let functions = Functions::find(sections);
    let mut evaluator = Evaluator::new(&functions);
    let mut found: Vec<_> = functions
        .unreadable()
        .iter()
        .map(|it| Unjudged { section: it.section, fde: it.offset, reason: it.error.into() })
        .collect();
    for function in functions.as_slice() {
        let reason = if evaluator.has_disputed_rows(&functions, function, true) {
            Err(Unevaluated::Disputed)
        } else {
            evaluator.evaluate(&functions.with_tails(function), |_, _, _| {})
        };
        let Err(reason) = reason else { continue };
        let others = functions.duplicates_of(function).iter().chain([function]);
        found.extend(others.map(|fde| Unjudged { section: fde.section, fde: fde.fde, reason }));
    }
    found.sort_by_key(|it| (it.section, it.fde));
    found
}
