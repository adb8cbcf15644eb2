//! `lint`: compares the CFI of whole files with their code.

use std::cell::RefCell;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use cfipack_code::Kind;
use cfipack_container::Placement;
use cfipack_format::Address;
use cfipack_lint::Lint;
use indicatif::{ProgressBar, ProgressStyle};

use crate::edit::{Found as FoundFile, find};
use crate::instructions::with_target;
use crate::io::debug_file::{DebugFile, DebugFileOption};
use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Object};
use crate::io::output;
use crate::report::count::{Counts, Number};
use crate::report::escaped::Escaped;
use crate::report::excluded::{self, Excluded, Unplaced};
use crate::report::lint::{Baseline, LintFinding, LintReport, Sarif};
use crate::report::place::Places;
use crate::report::status::{self, Status};
use crate::report::symbol::Names;

/// Compares call frame information with the code that it describes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Follows every function's instructions from its entry. At each instruction, compares the places of
the CFA, the return address and the callee-saved registers with the row of the CFI. If not every
instruction of a function can be followed, it is counted with the reason, never as clean.
x86-64, i386 and AArch64.
Exit status 1: something differs that the baseline does not have.

Examples:
  cfi2sframe lint libfoo.so                       what is wrong in a library
  cfi2sframe lint -r --jobs 4 build-root          in all files of a tree
  cfi2sframe lint --kind no-row libfoo.so         one kind of fault only
  cfi2sframe lint --json libfoo.so > known.json   what is known ...
  cfi2sframe lint --baseline known.json libfoo.so ... and what is new since
  cfi2sframe lint --sarif libfoo.so > lint.sarif  for code hosts")]
pub struct Arguments {
    /// Objects, linked files, archives; directories with -r
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files in directories; symbolic links there are not followed
    #[arg(short, long)]
    recursive: bool,
    /// Number of threads; the report does not depend on it
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = input::number_in(1..=256_u16))]
    jobs: u16,
    /// Report these kinds only
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<Kind>,
    /// Report only functions whose symbol is NAME, mangled or as the source has it
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,
    /// Report only findings that the JSON report in this file does not have
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    json: bool,
    /// Print one SARIF 2.1.0 log of all files
    #[arg(long, conflicts_with = "json")]
    sarif: bool,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    debug_file: DebugFileOption,
    #[command(flatten)]
    slice: input::Slice,
}

fn kind(text: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == text);
    found.ok_or_else(|| format!("not a kind: {}", Kind::ALL.map(Kind::name).join(", ")))
}

/// Lints every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let baseline = arguments.baseline.as_deref().map(read_baseline).transpose()?;
    let baseline = RefCell::new(baseline.unwrap_or_default());
    let (files, failed) = files(arguments);
    if files.is_empty() && !failed {
        bail!("no file to read");
    }
    let sarif = RefCell::new(Sarif::default());
    arguments.debug_file.check(&files)?;
    let parts = (&arguments.slice, &arguments.debug_file);
    let result = each::for_each(&files, parts, Placement::Apart, |object, _| {
        lint_object(object, arguments, &mut baseline.borrow_mut(), &mut sarif.borrow_mut())
    });
    if arguments.sarif {
        output::print_json(&sarif.into_inner().log())?;
    }
    Ok(result?.max(if failed { Status::Failed } else { Status::Done }))
}

fn read_baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Baseline::parse(&text).with_context(|| path.display().to_string())
}

/// Returns the files to read, and true if some files cannot be read.
fn files(arguments: &Arguments) -> (Vec<PathBuf>, bool) {
    if !arguments.recursive {
        return (arguments.files.clone(), false);
    }
    let mut failed = false;
    let mut files = Vec::new();
    for found in find(&arguments.files, true).into_iter().flatten() {
        match found {
            FoundFile::File(target) => files.push(target.name),
            FoundFile::Skipped { .. } => {}
            FoundFile::Failed { name, error } => {
                status::report_error(&format_args!("{}: {error:#}", name.display()));
                failed = true;
            }
        }
    }
    (files, failed)
}

fn lint_object(
    object: &Object<'_>,
    arguments: &Arguments,
    baseline: &mut Baseline,
    sarif: &mut Sarif,
) -> anyhow::Result<Outcome> {
    let file = object.file()?;
    let sections = file.call_frame_sections()?;
    if !input::describe_functions(&sections) {
        // With `-r`, most files have no CFI. Skip them silently.
        return Ok(if arguments.recursive {
            Outcome::Done(Status::Done)
        } else {
            Outcome::Absent(CALL_FRAMES)
        });
    }
    let places = Places::new(file).with_names(arguments.names);
    let selected: Vec<Address> =
        arguments.function.iter().flat_map(|name| places.symbols_named(name)).collect();
    let wanted = |start: Address| arguments.function.is_empty() || selected.contains(&start);
    let bar = progress(object);
    let advance = |done: u64, all: u64| {
        if let Ok(bar) = bar.lock() {
            bar.set_length(all);
            bar.set_position(done);
        }
    };
    let result = cfipack_lint::lint(file, &sections, arguments.jobs.into(), &wanted, &advance);
    if let Ok(bar) = bar.lock() {
        bar.finish_and_clear();
    }
    let mut report = report(object, result?, arguments, baseline, &places);
    report.excluded = excluded::count(&sections);
    report.debug_file = object.debug_file.map(DebugFile::json);
    let status = Status::differs_if(!report.findings.is_empty());
    let written = if arguments.sarif {
        sarif.add(&report.file, &report.findings);
        Ok(())
    } else if arguments.json {
        output::print_json(&report)
    } else {
        print(&report, object, &Unplaced::of(file, &sections))
    };
    status::judged(status, written).map(Outcome::Done)
}

/// Creates a progress bar. It is only shown on a terminal, and only for a file with many functions.
fn progress(object: &Object<'_>) -> Mutex<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return Mutex::new(ProgressBar::hidden());
    }
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{msg}: {pos} of {len} functions") {
        bar.set_style(style);
    }
    bar.set_message(object.name.to_string());
    Mutex::new(bar)
}

/// Describes the result for an object, without the findings of the baseline.
fn report(
    object: &Object<'_>,
    lint: Lint,
    arguments: &Arguments,
    baseline: &mut Baseline,
    places: &Places<'_, '_>,
) -> LintReport {
    let file = object.name.plain();
    let (mut findings, mut known, mut wrong) = (Vec::new(), 0, 0);
    for function in &lint.functions {
        let (before, start) = (findings.len(), function.start);
        for found in &function.findings {
            let kind = found.finding.kind;
            if !arguments.kind.is_empty() && !arguments.kind.contains(&kind) {
                continue;
            }
            let text = with_target(found.text.clone(), places);
            let finding = LintFinding::new(&file, start, found, text, places);
            if baseline.takes(&finding) {
                known += 1;
            } else {
                findings.push(finding);
            }
        }
        wrong += u64::from(before != findings.len());
    }
    let examples = lint.examples.iter();
    let examples = examples.map(|(reason, start)| format!("{reason}: {}", places.name(*start))).collect();
    LintReport {
        schema: "cfipack/lint/1",
        file,
        decided: lint.decided,
        undecided: lint.undecided.values().sum(),
        wrong,
        instructions: lint.instructions,
        reasons: lint.undecided,
        examples,
        known,
        excluded: Excluded::new(),
        debug_file: None,
        findings,
    }
}

fn print(report: &LintReport, object: &Object<'_>, unplaced: &[Unplaced]) -> anyhow::Result<()> {
    let mut out = output::standard();
    write!(out, "{}: {} decided, ", object.name, Number(report.decided, "function"))?;
    write!(out, "{} not; {} with wrong CFI", report.undecided, report.wrong)?;
    writeln!(out, "{}", Counts(&[("known findings", report.known)]))?;
    for finding in &report.findings {
        writeln!(out, "  {}: {}", finding.heading(), Escaped(finding.instruction()))?;
        writeln!(out, "    {}", Escaped(finding.words()))?;
    }
    if report.undecided != 0 {
        let reasons: Vec<_> = report.reasons.iter().map(|(reason, count)| (*reason, *count)).collect();
        writeln!(out, "  not decided: {}", Counts(&reasons).list())?;
    }
    for unplaced in unplaced {
        writeln!(out, "  {unplaced}")?;
    }
    object.print_debug_file(&mut out)?;
    Ok(out.flush()?)
}
