//! Functions without a verdict: the table lacks some of their rows, or gimli cannot judge their CFI.

use cfipack_format::{Unsupported, cfi};

use crate::cfi::{Function, Unevaluated, Unreadable};
use crate::sframe::missing::{MissingFunction, Reasons};
use crate::sframe::report::{Report, Unverified};

/// A function without a verdict.
#[derive(Debug)]
pub(super) struct WithoutVerdict {
    /// The function, or `None` if its record cannot be read.
    pub function: Option<Function>,
    pub cause: Cause,
}

/// The reason why a function has no verdict.
#[derive(Debug)]
pub(super) enum Cause {
    /// The table has no row for a PC of the function.
    Missing,
    Unevaluated(Unevaluated),
    Unreadable(Unreadable),
}

/// Counts functions without a verdict by reason, and describes the first `limit` of them. `reasons` is `None` if the
/// caller knows no reasons.
pub(super) fn describe<'a>(
    functions: &[WithoutVerdict],
    cfi: &[cfi::Section<'a>],
    mut reasons: Option<Reasons<'_, 'a>>,
    limit: usize,
    report: &mut Report,
) {
    let is_known = reasons.is_some();
    for WithoutVerdict { function, cause } in functions {
        let mut unsupported = None;
        if let Cause::Missing = cause {
            if let Some(reason) = &mut reasons
                && let Some(missing) = missing(*function, cfi)
            {
                unsupported = reason(&missing);
            }
            report.missing += 1;
            report.unexplained += u64::from(unsupported.is_none());
        } else {
            report.unjudged += 1;
        }
        if report.unverified.len() < limit {
            report.unverified.push(Unverified {
                function: function.map(|function| function.start),
                pc: unsupported.map(|unsupported| unsupported.pc()),
                missing: matches!(cause, Cause::Missing),
                words: words(cause, unsupported, is_known, cfi),
            });
        } else {
            report.more_unverified += 1;
        }
        *report.reasons.entry(name(cause, unsupported)).or_default() += 1;
    }
}

/// Builds the question to the caller about a missing function.
fn missing<'a>(function: Option<Function>, cfi: &[cfi::Section<'a>]) -> Option<MissingFunction<'a>> {
    let Function { start, section, fde, .. } = function?;
    cfi.get(section).map(|&section| MissingFunction { section, fde, start })
}

/// Returns the name under which functions with this cause are counted.
fn name(cause: &Cause, unsupported: Option<Unsupported>) -> String {
    match cause {
        Cause::Missing => {
            unsupported.map_or("not-in-the-table", |unsupported| unsupported.reason.name()).into()
        }
        Cause::Unevaluated(error) => error.to_string(),
        Cause::Unreadable(unreadable) => Unevaluated::from(unreadable.error).to_string(),
    }
}

fn words(
    cause: &Cause,
    unsupported: Option<Unsupported>,
    is_known: bool,
    cfi: &[cfi::Section<'_>],
) -> String {
    match (cause, unsupported) {
        (Cause::Missing, Some(unsupported)) => unsupported.reason.to_string(),
        (Cause::Missing, None) if is_known => "the function could be in the table and is not".to_owned(),
        (Cause::Missing, None) => "the function is not in the table".to_owned(),
        (Cause::Unreadable(unreadable), _) => unreadable.words(cfi[unreadable.section].kind.name()),
        (Cause::Unevaluated(_), _) => name(cause, None),
    }
}
