//! Runs an edit over files, and reports about each file and about all files. The report is lines on standard error or
//! JSON on standard output. A terminal also shows a progress bar.

mod json;

#[cfg(test)]
pub use json::FileJson;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

use cfipack_format::widen::ToU64;
use cfipack_lint::coverage::CodeBytes;
use indicatif::{ProgressBar, ProgressStyle};

use crate::edit::{
    self, Edit, FileReport, Found, MissedMember, Origin, Outcome, Place, Problem, Skip, apply,
};
use crate::io::original::Policy;
use crate::report::count::{Counts, Number};
use crate::report::escaped::Escaped;
use crate::report::limits::Remark;
use crate::report::status::{self, Status};
use crate::synthesized::SynthesizedCounts;

/// Warnings name at most this many members of an archive, because each name can have thousands of bytes.
const NAMED_MEMBERS: usize = 16;

/// A run of an edit over files.
#[derive(Clone, Debug)]
pub struct Run {
    /// The place of changed files.
    pub place: Place,
    /// How the files are replaced.
    pub policy: Policy,
    /// The number of files that are processed at the same time.
    pub jobs: usize,
    /// True if the report has a line for each file.
    pub verbose: bool,
    /// True if the report has only warnings and errors.
    pub quiet: bool,
    /// True if the report is JSON.
    pub json: bool,
    /// True if warnings about files that stay as they are have exit status 1.
    pub strict: bool,
}

/// The report of an edit about its results.
pub trait Reported: Edit {
    /// The verb, as JSON names it.
    const VERB: &'static str;

    /// Returns a line about a file.
    fn line(&self, file: &FileReport<Self::Report>) -> String;

    /// Adds a file to the summary's totals, and returns remarks about its result.
    fn add(&self, file: &FileReport<Self::Report>, totals: &mut Totals) -> Vec<Remark>;

    /// Returns the lines of the summary.
    fn summary(&self, totals: &Totals) -> Vec<String>;
}

/// Sums over files.
#[derive(Debug, Default)]
pub struct Totals {
    /// Tables made or removed.
    pub tables: u64,
    /// Functions of the CFI.
    pub functions: u64,
    /// Functions in tables.
    pub converted: u64,
    /// The code of the tables, if it was counted for them.
    pub code: CodeBytes,
    /// True if the code of a table was not counted.
    pub has_uncounted_code: bool,
    /// Rows of outermost frames.
    pub outermost: u64,
    /// Omitted functions by reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// Functions that no CFI covers, if their rows are to be made from code.
    pub synthesized: Option<SynthesizedCounts>,
    /// Functions that no CFI covers, and whose rows are from an old table.
    pub kept: u64,
    /// Bytes of tables.
    pub sframe: u64,
    /// Bytes of CFI.
    pub cfi: u64,
}

/// Runs an edit over the files that a search found. Thin archives come last, because they repeat the sizes of their
/// members.
pub fn run<E: Reported>(edit: &E, found: &[Vec<Found>; 2], run: &Run) -> anyhow::Result<Status> {
    let started = Instant::now();
    let num_files = found.iter().map(Vec::len).sum();
    let mut report = RunReport::new(edit, run, num_files);
    for found in found {
        edit::for_each(
            found,
            run.jobs,
            |found| apply(edit, found, &run.place, run.policy),
            |file| report.file(&file),
        );
    }
    report.progress.finish_and_clear();
    report.finish(started)
}

/// The report so far.
struct RunReport<'e, E> {
    edit: &'e E,
    run: &'e Run,
    num_files: usize,
    progress: ProgressBar,
    status: Status,
    /// The number of files for each result.
    counts: [u64; 5],
    /// True if an object was changed, or already is as the edit would make it. Thin archives have no objects.
    has_objects: bool,
    skipped: BTreeMap<Skip, u64>,
    bytes: (u64, u64),
    totals: Totals,
    /// The first error of standard output. The run changes the other files all the same.
    written: anyhow::Result<()>,
}

impl<'e, E: Reported> RunReport<'e, E> {
    fn new(edit: &'e E, run: &'e Run, num_files: usize) -> Self {
        let progress = match num_files {
            0 | 1 => ProgressBar::hidden(),
            _ if run.quiet => ProgressBar::hidden(),
            _ => ProgressBar::new(num_files.to_u64()).with_style(style()),
        };
        Self {
            edit,
            run,
            num_files,
            progress,
            status: Status::Done,
            counts: [0; 5],
            has_objects: false,
            skipped: BTreeMap::new(),
            bytes: (0, 0),
            totals: Totals::default(),
            written: Ok(()),
        }
    }

    fn file(&mut self, file: &FileReport<E::Report>) {
        self.progress.inc(1);
        let kind = Kind::of_outcome(&file.outcome);
        self.counts[kind as usize] += 1;
        let mut lines = Lines::default();
        for warning in &file.warnings {
            lines.warn(&file.name, warning);
        }
        let status = match &file.outcome {
            Outcome::Changed | Outcome::Unchanged => {
                let (old, new) = file.bytes.unwrap_or_default();
                self.bytes = (self.bytes.0 + old, self.bytes.1 + new);
                self.has_objects |= !file.parts.is_empty();
                self.missed(file, &mut lines);
                let remarks = self.edit.add(file, &mut self.totals);
                remarks.iter().for_each(|remark| lines.warn(&file.name, &remark.words));
                let lacks_members =
                    self.run.strict && file.origin == Origin::Named && !file.missed.is_empty();
                Status::differs_if(lacks_members || remarks.iter().any(|remark| remark.fails))
            }
            Outcome::Kept(problem) => self.kept(file, problem, &mut lines),
        };
        self.status = self.status.max(status);
        // List members of thin archives, because the user neither names them nor sees them in a directory.
        let is_listed = self.run.verbose || self.num_files == 1 || file.origin == Origin::Member;
        if !self.run.json && !self.run.quiet && is_listed {
            self.line(file, kind, &mut lines);
        }
        if !lines.0.is_empty() {
            // A failure of standard error cannot be reported; the exit status remains.
            let _ = self.progress.suspend(|| io::stderr().write_all(lines.0.as_bytes()));
        }
        if self.run.json && self.written.is_ok() {
            self.written = json::print(E::VERB, kind.name(), file, &self.run.place);
        }
    }

    /// Warns of members that a user may miss. Members without any CFI are usual, and named only where they fail the run.
    fn missed(&self, file: &FileReport<E::Report>, lines: &mut Lines) {
        let is_named = file.origin == Origin::Named;
        let is_reported =
            |skip: Skip| skip.is_of_other_kind() || is_named && (self.run.strict || skip.is_unusable());
        let missed: Vec<_> = file.missed.iter().filter(|missed| is_reported(missed.skip)).collect();
        for MissedMember { member, skip, .. } in missed.iter().take(NAMED_MEMBERS) {
            lines.warn(&file.name, &format_args!("member {member} stays as it is: {skip}"));
        }
        let mut more = BTreeMap::<_, u64>::new();
        for missed in missed.iter().skip(NAMED_MEMBERS) {
            *more.entry(missed.skip.without_figures()).or_default() += 1;
        }
        for (skip, count) in more {
            lines.warn(&file.name, &format_args!("{count} more of its members stay as they are: {skip}"));
        }
    }

    /// Counts a file that is left as it is, and names the file if the user does not expect this.
    fn kept(&mut self, file: &FileReport<E::Report>, problem: &Problem, lines: &mut Lines) -> Status {
        let is_output = matches!(self.run.place, Place::Other(_));
        if let Some(skip) = problem.skip() {
            *self.skipped.entry(skip.without_figures()).or_default() += 1;
            let is_named = file.origin == Origin::Named;
            if is_output || is_named && skip.is_wrong_input() {
                match problem {
                    Problem::WrongInput(error) => lines.error(&file.name, error),
                    _ => lines.error(&file.name, &skip),
                }
                return Status::Failed;
            }
            let is_remarkable = skip.is_unexpected() || self.run.strict && is_named && skip.is_missed();
            if is_remarkable {
                lines.warn(&file.name, &format_args!("not changed: {skip}"));
            }
            return Status::differs_if(is_remarkable && self.run.strict);
        }
        match problem {
            Problem::Skip(_) | Problem::WrongInput(_) => Status::Done,
            Problem::Refused(reason) if is_output => {
                lines.error(&file.name, reason);
                Status::Failed
            }
            Problem::Refused(reason) => {
                lines.warn(&file.name, &format_args!("not changed: {reason}"));
                Status::Differs
            }
            Problem::Failed(error) => {
                lines.error(&file.name, &format_args!("{error:#}"));
                Status::Failed
            }
        }
    }

    /// Adds the line about a file. A file that is left as it is gets a line only if `lines` has none about it yet.
    fn line(&self, file: &FileReport<E::Report>, kind: Kind, lines: &mut Lines) {
        match &file.outcome {
            Outcome::Changed | Outcome::Unchanged => {
                let about = self.edit.line(file);
                lines.push(&file.name, &format_args!("{}{about}", kind.name()));
            }
            Outcome::Kept(problem) => {
                if let Some(skip) = problem.skip().filter(|_| lines.0.is_empty()) {
                    lines.push(&file.name, &format_args!("skipped: {skip}"));
                }
            }
        }
    }

    fn finish(self, started: Instant) -> anyhow::Result<Status> {
        let Self { counts, .. } = &self;
        let mut text = String::new();
        if self.num_files != 1 {
            let counts: Vec<_> = Kind::ALL.iter().map(|kind| (kind.name(), counts[*kind as usize])).collect();
            let files = Number(self.num_files.to_u64(), "file");
            let _ = writeln!(text, "{files}{} in {:.1} s", Counts(&counts), started.elapsed().as_secs_f64());
            let skipped: Vec<_> =
                self.skipped.iter().map(|(skip, count)| (skip.to_string(), *count)).collect();
            let skipped: Vec<_> = skipped.iter().map(|(skip, count)| (skip.as_str(), *count)).collect();
            if !skipped.is_empty() {
                let _ = writeln!(text, "  skipped: {}", Counts(&skipped).list());
            }
        }
        if counts[Kind::Changed as usize] + counts[Kind::Unchanged as usize] != 0 {
            let summary = if self.has_objects { self.edit.summary(&self.totals) } else { Vec::new() };
            for line in summary {
                let _ = writeln!(text, "  {line}");
            }
            let _ = writeln!(text, "  files: {} bytes become {}", self.bytes.0, self.bytes.1);
        }
        if !self.run.json && !self.run.quiet {
            io::stderr().write_all(text.as_bytes())?;
        }
        status::judged(self.status, self.written)
    }
}

fn style() -> ProgressStyle {
    let template = "{bar:30} {pos}/{len} files, {eta} left";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The outcome for a file, for counts.
#[derive(Clone, Copy)]
enum Kind {
    Changed,
    Unchanged,
    Skipped,
    Refused,
    Failed,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Changed, Self::Unchanged, Self::Skipped, Self::Refused, Self::Failed];

    fn of_outcome(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Changed => Self::Changed,
            Outcome::Unchanged => Self::Unchanged,
            Outcome::Kept(Problem::Skip(_) | Problem::WrongInput(_)) => Self::Skipped,
            Outcome::Kept(Problem::Refused(_)) => Self::Refused,
            Outcome::Kept(Problem::Failed(_)) => Self::Failed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Lines for standard error, written at once.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, name: &Path, text: &dyn std::fmt::Display) {
        let _ = writeln!(self.0, "{}", Escaped(format_args!("{}: {text}", name.display())));
    }

    fn warn(&mut self, name: &Path, text: &dyn std::fmt::Display) {
        self.0 += &status::warning_line(&format_args!("{}: {text}", name.display()));
    }

    fn error(&mut self, name: &Path, text: &dyn std::fmt::Display) {
        self.0 += &status::error_line(&format_args!("{}: {text}", name.display()));
    }
}
