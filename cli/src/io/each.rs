//! Applies a verb to every object in every file.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cfipack_container::Placement;

use crate::edit::Skip;
use crate::io::absent;
use crate::io::input::{Demand, Input, Object, Parts};
use crate::io::output;
use crate::report::status::{self, Status};

/// The result of a verb for an object.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// The verb ran.
    Done(Status),
    /// The object has nothing of this kind. It is an error if no object of the file has it.
    Absent(&'static str),
    /// The object has CFI and no table of this kind. This is reported if other members of the archive have a table.
    MissingTable(&'static str),
    /// The object has no table of this kind, and no function that could be in one. Its report is written. It is an error
    /// if no object of the file has a table.
    AllOmitted(&'static str, Status),
}

/// Applies `each` to every object in every file. After a failure, the failure is reported, and the next object is
/// processed.
///
/// The second argument of `each` is true if there may be several objects. Then the output needs headings.
pub fn for_each<'s>(
    paths: &[PathBuf],
    parts: impl Into<Parts<'s>>,
    placement: Placement,
    mut each: impl FnMut(&Object<'_>, bool) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Status> {
    let (mut worst, parts) = (Status::Done, parts.into());
    for path in paths {
        let result = for_each_in(path, parts, placement, |object| {
            let several = paths.len() > 1 || object.name.member.is_some();
            each(object, several)
        });
        worst = worst.max(reported(result).unwrap_or(Status::Done));
    }
    Ok(worst)
}

/// Applies `each` to a file that must be a single object, or to each object of a fat file. If there are several objects,
/// prints the name of each object before its output, except before JSON.
pub fn for_each_slice<'s>(
    path: &Path,
    parts: impl Into<Parts<'s>>,
    json: bool,
    mut each: impl FnMut(&Object<'_>) -> anyhow::Result<Status>,
) -> anyhow::Result<Status> {
    let input = Input::open(path, parts)?;
    let slices = input.slices(Placement::Apart)?;
    let has_headings = slices.len() > 1 && !json;
    let mut worst = Status::Done;
    for object in &slices {
        let mut print = || {
            if has_headings {
                writeln!(output::standard(), "{}:", object.name)?;
            }
            each(object)
        };
        let Some(status) = reported(print().with_context(|| object.name.to_string())) else { break };
        worst = worst.max(status);
    }
    Ok(worst)
}

/// Applies `each` to every object in a file.
fn for_each_in(
    path: &Path,
    parts: Parts<'_>,
    placement: Placement,
    mut each: impl FnMut(&Object<'_>) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Status> {
    let input = Input::open(path, parts)?;
    let (mut worst, mut is_done) = (None, false);
    let (mut absent, mut missed, mut omitted) = (None, Vec::new(), Status::Done);
    let is_missed = |object: &Object<'_>| absent::missed_cfi(object, parts.cfi? == Demand::Fail);
    for object in input.objects(placement)? {
        let outcome = object.and_then(|object| {
            let outcome = each(&object).with_context(|| object.name.to_string())?;
            if let Outcome::Absent(what) | Outcome::MissingTable(what) | Outcome::AllOmitted(what, _) =
                outcome
            {
                absent.get_or_insert_with(|| absent::from_object(&object, what));
            }
            match outcome {
                Outcome::Done(status) => {
                    is_done = true;
                    return Ok(Some(status));
                }
                Outcome::Absent(_) => {
                    missed.extend(is_missed(&object).map(|skip| (object.name, Missed::Cfi(skip))));
                }
                Outcome::MissingTable(what) => missed.push((object.name, Missed::Table(what))),
                Outcome::AllOmitted(_, status) => omitted = omitted.max(status),
            }
            Ok(None)
        });
        let Some(result) = outcome.transpose() else { continue };
        match reported(result) {
            Some(status) => worst = worst.max(Some(status)),
            None => return Ok(worst.unwrap_or(Status::Done)),
        }
    }
    let Some(worst) = worst else {
        let error = absent.unwrap_or_else(|| input.without_object());
        return Err(error).with_context(|| path.display().to_string());
    };
    if !is_done {
        return Ok(worst);
    }
    if parts.cfi.is_some() {
        missed.extend(input.bitcode().map(|name| (name, Missed::Cfi(Skip::Bitcode))));
    }
    let mut worst = worst.max(omitted);
    for (name, missed) in missed {
        status::warn(&format_args!("{name}: {missed}"));
        let is_table = matches!(missed, Missed::Table(_));
        worst = worst.max(Status::differs_if(is_table || parts.cfi == Some(Demand::Fail)));
    }
    Ok(worst)
}

/// Something that a member of an archive does not have, although other members have it.
enum Missed {
    /// A table for its CFI.
    Table(&'static str),
    /// CFI that can be used, for this reason.
    Cfi(Skip),
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(what) => write!(f, "has call frame information, but no {what}"),
            Self::Cfi(skip) => skip.fmt(f),
        }
    }
}

/// Reports the error of a result, and returns its status. Returns `None` if standard output has no reader any more.
fn reported(result: anyhow::Result<Status>) -> Option<Status> {
    match result {
        Ok(status) => Some(status),
        Err(error) if status::is_broken_pipe(&error) => None,
        Err(error) => {
            status::report_error(&format_args!("{error:#}"));
            Some(Status::Failed)
        }
    }
}
