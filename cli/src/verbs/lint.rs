//! `lint`: compares the CFI of whole files with their code.

use std::collections::HashSet;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use cfipack_container::{CallFrameSection, File, Placement};
use cfipack_format::Address;
use cfipack_format::widen::ToU64;
use cfipack_lint::records::RecordKind;
use cfipack_lint::records::readers::{self, Readers};
use cfipack_lint::{Lint, source_lines};
use indicatif::{ProgressBar, ProgressStyle};

use crate::edit::{Found as FoundFile, find};
use crate::instructions::with_target;
use crate::io::debug_file::{DebugFile, DebugFileOption};
use crate::io::each::{self, Outcome};
use crate::io::input::{self, CALL_FRAMES, Demand, Object, Parts};
use crate::io::output::{self, Standard};
use crate::io::values;
use crate::report::count::{Counts, Number};
use crate::report::escaped::Escaped;
use crate::report::excluded::{self, Unplaced};
use crate::report::lint::known::{Baseline, Ignored};
use crate::report::lint::sarif::Log;
use crate::report::lint::{LintFinding, LintReport, kinds};
use crate::report::place::Places;
use crate::report::status::{self, Status};
use crate::report::symbol::Names;

/// Compares call frame information with the code that it describes
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Follows every function's instructions from its entry. At each instruction, compares the places of
the CFA, the return address and the callee-saved registers with the row of the CFI. If not every
instruction of a function can be followed, it is counted with the reason, never as clean.
Also checks the records themselves, and their index in .eh_frame_hdr.
x86-64 and AArch64; i386 in Mach-O.

Examples:
  cfi2sframe lint libfoo.so                       what is wrong in a library
  cfi2sframe lint -r --jobs 4 build-root          in all files of a tree
  cfi2sframe lint --kind no-row libfoo.so         one kind of fault only
  cfi2sframe lint --json libfoo.so > known.json   what is known ...
  cfi2sframe lint --baseline known.json libfoo.so ... and what is new since
  cfi2sframe lint --ignore known.txt libfoo.so    ... or what a list of KIND SYMBOL names
  cfi2sframe lint --sarif libfoo.so > lint.sarif  for code hosts
  cfi2sframe lint --readers=gdb,ld.lld libfoo.so  what gdb or lld does not read")]
pub struct Arguments {
    /// Objects, linked files, archives; directories with -r
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the files in directories; symbolic links there are not followed
    #[arg(short, long)]
    recursive: bool,
    /// Number of threads; the report does not depend on it
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = values::number_in(1..=256_u16))]
    jobs: u16,
    /// Report these kinds only
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<&'static str>,
    /// Report only functions whose symbol is NAME, mangled or as the source has it
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,
    /// Report only findings that the JSON report in this file does not have
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Omit findings that match a line of this file: KIND SYMBOL, * for any text
    #[arg(long, value_name = "FILE")]
    ignore: Option<PathBuf>,
    /// Report only CFI that these readers do not read as it is meant, or any reader without NAME; the
    /// code is not followed
    #[arg(long, value_name = "NAME", num_args = 0.., require_equals = true, value_delimiter = ',', conflicts_with = "calls_only")]
    readers: Option<Vec<String>>,
    /// Judge only the rows at calls
    #[arg(long)]
    calls_only: bool,
    /// Exit with status 1 if a function is not decided
    #[arg(long)]
    fail_undecided: bool,
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

fn kind(text: &str) -> Result<&'static str, String> {
    let found = kinds().map(|(name, _)| name).find(|name| *name == text);
    let names = || kinds().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("not a kind: {}", names()))
}

/// The state of a run: findings that are not reported, the log in SARIF, and the names of `--function` that no file had
/// so far.
struct Session<'a> {
    baseline: Baseline,
    ignored: Ignored,
    sarif: Option<Log<BufWriter<Standard>>>,
    readers: Option<Readers>,
    missing: Vec<&'a String>,
}

/// Lints every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let (files, failed) = files(arguments);
    if files.is_empty() && !failed {
        bail!("no file to read");
    }
    arguments.debug_file.check(&files)?;
    let unread = RecordKind::Unread.name();
    if let Some(kind) = arguments.kind.iter().find(|kind| (**kind == unread) != arguments.readers.is_some()) {
        bail!("--kind {kind}: --readers reports {unread}, and no other kind");
    }
    let mut session = Session {
        baseline: read(arguments.baseline.as_deref(), Baseline::parse)?,
        ignored: read(arguments.ignore.as_deref(), Ignored::parse)?,
        sarif: None,
        readers: arguments.readers.as_deref().map(readers).transpose()?,
        missing: arguments.function.iter().collect(),
    };
    if arguments.sarif {
        session.sarif = Some(Log::start(output::standard())?);
    }
    let parts = Parts::from((&arguments.slice, &arguments.debug_file));
    let parts = parts.demand(Demand::fail_if(arguments.fail_undecided));
    let result = each::for_each(&files, parts, Placement::Apart, |object, _| {
        lint_object(object, arguments, &mut session)
    });
    if let Some(log) = session.sarif {
        status::judged(Status::Done, log.finish())?;
    }
    if let Some(path) = &arguments.ignore {
        for (number, line) in session.ignored.unused() {
            status::warn(&format_args!("{}: line {number}: {line}: matches no finding", path.display()));
        }
    }
    for name in &session.missing {
        status::warn(&format_args!("no function with CFI is named {name}"));
    }
    let missing = Status::differs_if(!session.missing.is_empty());
    Ok(result?.max(missing).max(if failed { Status::Failed } else { Status::Done }))
}

/// Takes the readers with these names from the table of readers.
fn readers(names: &[String]) -> anyhow::Result<Readers> {
    let unknown = |all: Vec<_>| {
        anyhow!("--readers={}: unknown name; the readers are: {}", names.join(","), all.join(", "))
    };
    Readers::named(names).map_err(unknown)
}

/// Reads a file of known findings, or returns an empty value without a file.
fn read<T: Default>(path: Option<&Path>, parse: impl Fn(&str) -> anyhow::Result<T>) -> anyhow::Result<T> {
    let Some(path) = path else { return Ok(T::default()) };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
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
    session: &mut Session<'_>,
) -> anyhow::Result<Outcome> {
    let file = object.file()?;
    let sections = file.call_frame_sections()?;
    if !input::describe_functions(&sections) {
        return without_cfi(object, &sections, arguments);
    }
    let places = Places::new(file).with_names(arguments.names);
    let selected: Vec<Address> =
        arguments.function.iter().flat_map(|name| places.symbols_named(name)).collect();
    let wanted = |start: Address| arguments.function.is_empty() || selected.contains(&start);
    let lint = match &session.readers {
        Some(readers) => readers::check(file, &sections, readers, &wanted),
        None => follow(object, &sections, arguments, &wanted)?,
    };
    let has_no_ends = lint.has_no_ends;
    let mut report = report(object, lint, arguments, session, &places);
    if report.decided + report.undecided != 0 {
        session.missing.retain(|name| places.symbols_named(name).is_empty());
    }
    report.excluded = excluded::count(&sections);
    report.debug_file = object.debug_file.map(DebugFile::json);
    add_sources(&mut report.findings, file, object);
    let undecided = arguments.fail_undecided && report.undecided != 0;
    let status = Status::differs_if(undecided || !report.findings.is_empty());
    let written = match &mut session.sarif {
        Some(log) => log.add(object.name.path(), object.name.member.as_deref(), &report.findings),
        None if arguments.json => output::print_json(&report),
        None if arguments.readers.is_some() => print_readers(&report, object),
        None => print(&report, has_no_ends, object, &Unplaced::of(file, &sections)),
    };
    status::judged(status, written).map(Outcome::Done)
}

/// Follows the code of every function that is wanted.
fn follow(
    object: &Object<'_>,
    sections: &[CallFrameSection<'_>],
    arguments: &Arguments,
    wanted: &(dyn Fn(Address) -> bool + Sync),
) -> anyhow::Result<Lint> {
    let bar = progress(object);
    let advance = |done: u64, all: u64| {
        bar.set_length(all);
        bar.set_position(done);
    };
    let result = cfipack_lint::lint(object.file()?, sections, arguments.jobs.into(), wanted, &advance);
    bar.finish_and_clear();
    Ok(if arguments.calls_only { result?.at_calls() } else { result? })
}

/// Reports an object without CFI. With `-r` only JSON has it, because most files of a tree have no CFI.
fn without_cfi(
    object: &Object<'_>,
    sections: &[CallFrameSection<'_>],
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    if arguments.json {
        output::print_json(&LintReport {
            schema: SCHEMA,
            file: object.name.plain(),
            excluded: excluded::count(sections),
            debug_file: object.debug_file.map(DebugFile::json),
            ..LintReport::default()
        })?;
    }
    Ok(if arguments.recursive { Outcome::Done(Status::Done) } else { Outcome::Absent(CALL_FRAMES) })
}

/// Adds the lines of the source to findings. The line table is in the file with the code, or in its debug file.
fn add_sources(findings: &mut [LintFinding], file: &File<'_>, object: &Object<'_>) {
    match source_lines(file, findings.iter().map(LintFinding::address)) {
        Ok(sources) => {
            findings.iter_mut().zip(sources).for_each(|(finding, source)| finding.set_source(source));
        }
        Err(error) => status::warn(&format_args!("{}: {error}: findings have no source lines", object.name)),
    }
}

/// Creates a progress bar. It is only shown on a terminal, and only for a file with many functions.
fn progress(object: &Object<'_>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{msg}: {pos} of {len} functions") {
        bar.set_style(style);
    }
    bar.set_message(object.name.to_string());
    bar
}

/// Describes the result for an object, without the findings that are known.
fn report(
    object: &Object<'_>,
    lint: Lint,
    arguments: &Arguments,
    session: &mut Session<'_>,
    places: &Places<'_, '_>,
) -> LintReport {
    let file = object.name.plain();
    let examples = lint.examples.iter();
    let examples = examples.map(|(reason, start)| format!("{reason}: {}", places.name(*start))).collect();
    let mut report = LintReport {
        schema: SCHEMA,
        decided: lint.decided,
        undecided: lint.undecided.values().sum(),
        instructions: lint.instructions,
        reasons: lint.undecided,
        examples,
        calls_only: lint.is_at_calls,
        has_cfi: true,
        ..LintReport::default()
    };
    let mut wrong = HashSet::new();
    let mut add = |start: Address, finding: LintFinding| {
        if !arguments.kind.is_empty() && !arguments.kind.contains(&finding.kind()) {
            return;
        }
        if session.ignored.takes(&finding) {
            report.ignored += 1;
        } else if session.baseline.takes(&finding) {
            report.known += 1;
        } else {
            wrong.insert(start);
            report.findings.push(finding);
        }
    };
    for function in &lint.functions {
        for found in &function.findings {
            let text = with_target(found.text.clone(), places);
            add(function.start, LintFinding::new(&file, function.start, found, text, places));
        }
    }
    for found in &lint.records {
        add(found.function, LintFinding::of_record(&file, found, places));
    }
    LintReport { file, wrong: wrong.len().to_u64(), ..report }
}

const SCHEMA: &str = "cfipack/lint/1";

fn print(
    report: &LintReport,
    has_no_ends: bool,
    object: &Object<'_>,
    unplaced: &[Unplaced],
) -> anyhow::Result<()> {
    let mut out = output::standard();
    write!(out, "{}: {} decided, ", object.name, Number(report.decided, "function"))?;
    write!(out, "{} not; {} with wrong CFI", report.undecided, report.wrong)?;
    let omitted = [("known findings", report.known), ("ignored findings", report.ignored)];
    writeln!(out, "{}", Counts(&omitted))?;
    if report.calls_only {
        writeln!(
            out,
            "  only the rows at calls are judged: the CFI has no rows for epilogues, or --calls-only"
        )?;
    }
    if has_no_ends {
        writeln!(out, "  no function has rows for its epilogue: --calls-only judges only the rows at calls")?;
    }
    print_findings(&mut out, report)?;
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

/// Prints what readers do not read.
fn print_readers(report: &LintReport, object: &Object<'_>) -> anyhow::Result<()> {
    let mut out = output::standard();
    write!(out, "{}: {} with records", object.name, Number(report.wrong, "function"))?;
    let omitted = [
        ("known findings", report.known),
        ("ignored findings", report.ignored),
        ("records that cannot be read", report.undecided),
    ];
    writeln!(out, " that some reader does not read{}", Counts(&omitted))?;
    print_findings(&mut out, report)?;
    Ok(out.flush()?)
}

fn print_findings(out: &mut impl Write, report: &LintReport) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "  {}: {}", finding.heading(), Escaped(finding.subject()))?;
        writeln!(out, "    {}", Escaped(finding.words()))?;
    }
    Ok(())
}
