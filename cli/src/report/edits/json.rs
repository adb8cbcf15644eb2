//! Outcomes of files, in JSON on standard output.

use serde::Serialize;

use crate::edit::{Change, FileReport, MissedMember, Outcome, Part, Place, Problem};
use crate::io::output;
use crate::report::escaped::FileName;

/// A file in JSON, as `cfipack/embed/1` and `cfipack/strip/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileJson<'r, R> {
    schema: String,
    file: FileName,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<FileName>,
    result: &'static str,
    reason: Option<String>,
    /// The report about the file, unless it is an archive.
    #[serde(flatten)]
    object: Option<&'r R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberJson<'r, R>>>,
    /// The members of an archive that stay as they are, although a user may expect a change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missed: Vec<MissedJson<'r>>,
    old_bytes: Option<u64>,
    new_bytes: Option<u64>,
    links: Vec<FileName>,
    changes: &'r [Change],
    warnings: &'r [String],
}

/// A member of an archive.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MemberJson<'r, R> {
    member: &'r str,
    #[serde(flatten)]
    object: &'r R,
}

/// A member of an archive that stays as it is.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MissedJson<'r> {
    member: &'r str,
    /// The name of the reason, as for a file that stays as it is.
    reason: &'static str,
    /// The reason.
    words: String,
}

/// Prints the result for a file. `result` is the result's name.
pub fn print<R: Serialize>(
    verb: &str,
    result: &'static str,
    file: &FileReport<R>,
    place: &Place,
) -> anyhow::Result<()> {
    let reason = match &file.outcome {
        Outcome::Kept(problem @ (Problem::Skip(_) | Problem::WrongInput(_))) => {
            problem.skip().map(|skip| skip.name().to_owned())
        }
        Outcome::Kept(Problem::Refused(reason)) => Some(reason.clone()),
        Outcome::Kept(Problem::Failed(error)) => Some(format!("{error:#}")),
        Outcome::Changed | Outcome::Unchanged => None,
    };
    let (object, members) = match &file.parts[..] {
        [Part { member: None, report, .. }] => (Some(report), None),
        [] => (None, None),
        parts => {
            let members = parts.iter().map(|Part { member, report, .. }| MemberJson {
                member: member.as_deref().unwrap_or_default(),
                object: report,
            });
            (None, Some(members.collect()))
        }
    };
    let missed = file.missed.iter().map(|MissedMember { member, skip, .. }| MissedJson {
        member,
        reason: skip.name(),
        words: skip.to_string(),
    });
    output::print_json(&FileJson {
        schema: format!("cfipack/{verb}/1"),
        file: FileName::of_path(&file.name),
        output: match place {
            Place::Other(path) => Some(FileName::of_path(path)),
            Place::Own { .. } => None,
        },
        result,
        reason,
        object,
        members,
        missed: missed.collect(),
        old_bytes: file.bytes.map(|(old, _)| old),
        new_bytes: file.bytes.map(|(_, new)| new),
        links: file.others.iter().map(|path| FileName::of_path(path)).collect(),
        changes: &file.changes,
        warnings: &file.warnings,
    })
}
