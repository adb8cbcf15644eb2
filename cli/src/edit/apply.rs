//! Applies an edit to a file, checks the result as it is on the disk, and replaces the file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use cfipack_container::raw::elf::Headers;
use cfipack_container::{Member, members};
use cfipack_edit::{Rewrite, rewrite_members};
use cfipack_format::widen::ToU64;
use cfipack_lint::coverage::CodeBytes;
use cfipack_roundtrip::structure::{Version, check_structure};

use super::change::{Change, changes};
use super::find::{Found, Origin, Target};
use super::problem::{Problem, Skip};
use super::{Edit, thin};
use crate::io::original::{CHANGED, Original, Policy};
use crate::report::name_room::NameRoom;

/// The place for a changed file.
#[derive(Clone, Debug)]
pub enum Place {
    /// In place of the old file.
    Own {
        /// True if a file is changed even if it has other names (hard links) that are not given. Those names keep the
        /// old bytes.
        break_links: bool,
    },
    /// To this path.
    Other(PathBuf),
}

/// The outcome for a file.
#[derive(Debug)]
pub enum Outcome {
    /// The changed file is in its place.
    Changed,
    /// The file already is as the edit would make it. An output is a copy of it.
    Unchanged,
    /// The file stays as it is, for this reason.
    Kept(Problem),
}

/// A verb's report about an object.
#[derive(Debug)]
pub struct Part<P> {
    /// The index of the archive's member, from 0.
    pub index: usize,
    /// The member's name for a report, or `None` if the object is a file.
    pub member: Option<String>,
    pub report: P,
}

/// A member of an archive that stays as it is, although a user may expect a change.
#[derive(Debug)]
pub struct MissedMember {
    /// The member's name for a report.
    pub member: String,
    /// The reason.
    pub skip: Skip,
    /// The member's code. It gets no rows.
    pub code: CodeBytes,
}

/// The outcome for a file, in detail.
#[derive(Debug)]
pub struct FileReport<P> {
    pub name: PathBuf,
    /// How the file was found.
    pub origin: Origin,
    pub outcome: Outcome,
    /// The verb's reports: about the file, or the members of an archive that it applies to.
    pub parts: Vec<Part<P>>,
    /// Bytes of the old and the new file, if it was read.
    pub bytes: Option<(u64, u64)>,
    /// The differences between the old and the new file.
    pub changes: Vec<Change>,
    /// The other names (hard links) that now lead to the new file too.
    pub others: Vec<PathBuf>,
    /// Warnings about attributes that could not be kept.
    pub warnings: Vec<String>,
    /// The members of an archive that a user may miss in `parts`.
    pub missed: Vec<MissedMember>,
}

impl<P> FileReport<P> {
    fn new(name: &Path, origin: Origin) -> Self {
        Self {
            name: name.to_path_buf(),
            origin,
            outcome: Outcome::Unchanged,
            parts: Vec::new(),
            bytes: None,
            changes: Vec::new(),
            others: Vec::new(),
            warnings: Vec::new(),
            missed: Vec::new(),
        }
    }
}

/// Applies an edit to a file that a search found.
pub fn apply<E: Edit>(edit: &E, found: &Found, place: &Place, policy: Policy) -> FileReport<E::Report> {
    match found {
        Found::File(target) => {
            let mut report = FileReport::new(&target.name, target.origin);
            report.outcome = change(edit, target, place, policy, &mut report).unwrap_or_else(Outcome::Kept);
            let is_refused = matches!(report.outcome, Outcome::Kept(Problem::Refused(_)));
            match report.parts.iter().find_map(|part| edit.retry(&part.report)) {
                Some(other) if is_refused => apply(&other, found, place, policy),
                _ => report,
            }
        }
        Found::Skipped { name, skip } => {
            let mut report = FileReport::new(name, Origin::Directory);
            report.outcome = Outcome::Kept(Problem::Skip(*skip));
            report
        }
        Found::Failed { name, error } => {
            let mut report = FileReport::new(name, Origin::Named);
            report.outcome = Outcome::Kept(Problem::Failed(anyhow!("{error:#}")));
            report
        }
    }
}

fn change<E: Edit>(
    edit: &E,
    target: &Target,
    place: &Place,
    policy: Policy,
    report: &mut FileReport<E::Report>,
) -> Result<Outcome, Problem> {
    let original = target.location.entry().and_then(Original::open).map_err(anyhow::Error::from)?;
    if original.identity() != target.identity {
        return Err(anyhow!(CHANGED).into());
    }
    let old = original.bytes();
    // The output is one file.
    if matches!(place, Place::Other(_)) && (target.origin == Origin::Member || target.members.is_some()) {
        let reason = "a thin archive, whose members are files of their own: use --in-place";
        return Err(anyhow!(reason).into());
    }
    let new = match thin::resized(&target.location, target.members.as_ref(), old)? {
        Some(archive) => archive,
        None => edited(edit, old, report)?,
    };
    report.bytes = Some((old.len().to_u64(), new.len().to_u64()));
    if new.is_unchanged(old) && matches!(place, Place::Own { .. }) {
        // An existing table is judged like a new table.
        judge(edit, old, old, &mut report.parts)?;
        return Ok(Outcome::Unchanged);
    }
    report.changes = changes(&new);
    let parts = &mut report.parts;
    let accept = |bytes: &[u8]| judge(edit, old, bytes, parts);
    match place {
        Place::Own { break_links } => {
            if !break_links {
                check_links(target, &original)?;
            }
            let replaced = original.replace(&new, policy, accept)?;
            report.warnings.extend(replaced.warnings);
            for other in &target.others {
                let name = || other.path().display().to_string();
                let entry = other.entry().with_context(name)?;
                original.link(&entry, replaced.identity).with_context(name)?;
                report.others.push(other.path().to_path_buf());
            }
        }
        Place::Other(path) => report.warnings.extend(original.write_to(path, &new, policy, accept)?),
    }
    Ok(if new.is_unchanged(old) { Outcome::Unchanged } else { Outcome::Changed })
}

/// Edits each object of a file. If the verb has nothing to do for a member of an archive, the member stays as it is.
fn edited<'a, E: Edit>(
    edit: &E,
    old: &'a [u8],
    report: &mut FileReport<E::Report>,
) -> Result<Rewrite<'a>, Problem> {
    let FileReport { parts, missed, .. } = report;
    let (mut skipped, mut next) = (None, 0);
    let names = NameRoom::of_file(old.len());
    let new = rewrite_members(old, |member: &Member<'a>| {
        let index = next;
        next += 1;
        match edit.edit(member.bytes) {
            Ok((new, report)) => {
                let member = member.name.as_deref().map(|name| names.bounded(name).into_owned());
                parts.push(Part { index, member, report });
                Ok(new)
            }
            Err(problem) => match (problem.skip(), &member.name) {
                (Some(skip), Some(name)) => {
                    // Later variants of `Skip` say more about an archive, so keep the last variant.
                    skipped = skipped.max(Some(skip));
                    if let Some(code) = edit.misses(member.bytes, skip) {
                        let member = names.bounded(name.as_ref()).into_owned();
                        missed.push(MissedMember { member, skip, code });
                    }
                    Ok(None)
                }
                _ => Err(in_member(problem, member.name.as_deref())),
            },
        }
    })?;
    match skipped {
        Some(skip) if parts.is_empty() => {
            // Without an edited member, the reason is reported for the whole file.
            missed.clear();
            Err(Problem::Skip(if skip == Skip::NotElf { Skip::NoObjects } else { skip }))
        }
        _ => Ok(new),
    }
}

/// Adds a member's name to its problem.
fn in_member(problem: Problem, name: Option<&str>) -> Problem {
    match (problem, name) {
        (Problem::Refused(reason), Some(name)) => Problem::Refused(format!("member {name}: {reason}")),
        (Problem::Failed(error), Some(name)) => Problem::Failed(error.context(format!("member {name}"))),
        (problem, _) => problem,
    }
}

/// Judges the objects of the new file that have a report. The reports are in the order of the objects. All other
/// objects must have their old bytes.
fn judge<E: Edit>(edit: &E, old: &[u8], new: &[u8], parts: &mut [Part<E::Report>]) -> Result<(), Problem> {
    if parts.is_empty() {
        // This is a thin archive. Its members are judged as files.
        return Ok(());
    }
    let mut left = parts.iter_mut().peekable();
    let (mut old_members, mut new_members) = (members(old)?, members(new)?);
    for index in 0.. {
        let (old, new) = match (old_members.next().transpose()?, new_members.next().transpose()?) {
            (Some(old), Some(new)) if old.name == new.name => (old, new),
            (None, None) if left.peek().is_none() => break,
            _ => return Err(Problem::Refused("the new archive has other members than the old one".into())),
        };
        let judged = match left.next_if(|part| part.index == index) {
            Some(part) => judge_object(edit, old.bytes, new.bytes, &mut part.report),
            None if old.bytes == new.bytes => Ok(()),
            None => Err(Problem::Refused("its bytes differ from those of the old one".into())),
        };
        judged.map_err(|problem| in_member(problem, old.name.as_deref()))?;
    }
    Ok(())
}

/// Judges a changed object: its structure, and the promises of the verb.
fn judge_object<E: Edit>(edit: &E, old: &[u8], new: &[u8], report: &mut E::Report) -> Result<(), Problem> {
    if let Err(error) = check_structure(old, new) {
        let name = error.section().map(|(version, index)| {
            let headers = Headers::parse(if version == Version::Old { old } else { new });
            headers.map_or_else(|_| String::new(), |headers| headers.name_for_error(index).to_string())
        });
        let name = match name.as_deref() {
            Some("") => " (a section without a name)".to_string(),
            Some(name) => format!(" ({name})"),
            None => String::new(),
        };
        let words =
            format!("the structure of the new file is not the old one's: {error}{name}; {}", E::WAY_OUT);
        return Err(Problem::Refused(words));
    }
    edit.judge(new, report)
}

/// Refuses to replace a file if it has names (hard links) that are not among the given files.
fn check_links(target: &Target, original: &Original) -> Result<(), Problem> {
    let (names, known) = (original.links(), 1 + target.others.len().to_u64());
    if names <= known {
        return Ok(());
    }
    Err(Problem::Refused(format!(
        "the file has {names} names (hard links), {known} of them given; with --break-links the others keep the old file"
    )))
}
