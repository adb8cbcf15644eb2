//! `verify`: a table against the CFI it is for.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Placement};
use cfipack_decoder::sframe;
use cfipack_format::Address;
use cfipack_roundtrip::{Options, Report, Table, Violation, kernel_violations, verify};
use serde::Serialize;

use crate::count::{Counts, Number};
use crate::difference::{self, DifferenceJson};
use crate::each::{self, Outcome};
use crate::input::{self, Input, Object};
use crate::output;
use crate::place::Places;
use crate::status::{self, Status};
use crate::unwind_info;

/// Holds a table against the CFI of its file
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Every row is compared at every PC of every function, both ways. The CFI is evaluated
by gimli, not by the code that converts.
Of Mach-O files, compact entries are compared with the CFI of functions that have both:
exact in the body and at every call; and the table is held against what its readers rely on.
Exit status 1: a PC differs, is missing in the table, or could not be judged; or the profile's
rules are broken; or a member of an archive has CFI and no table, where others have one.

Examples:
  cfi2sframe verify a.out                           the table in a.out against its .eh_frame
  cfi2sframe verify libfoo.so --sframe table        a table that --section wrote
  cfi2sframe verify --json a.out | jq .reasons
  cfi2sframe verify libfoo.dylib                    its __unwind_info")]
pub struct Arguments {
    /// Objects, linked files or archives with CFI
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Take the table from this file, or this bare section
    #[arg(long, value_name = "F")]
    sframe: Option<PathBuf>,
    /// Mach-O: take the table from this file, or this bare section
    #[arg(long, value_name = "F", conflicts_with = "sframe")]
    unwind_info: Option<PathBuf>,
    /// Where a bare .sframe section lies in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    /// Also check the rules of a strict reader
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
    /// Bytes between functions that a table may merge
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = input::number_in(0..=u64::MAX))]
    padding: u64,
    /// One JSON object for each file, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    slice: input::Slice,
}

/// A reader that takes less than the format allows.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Profile {
    // The Linux kernel's unwinder.
    Kernel,
}

/// Verifies every file.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { files, slice, .. } = arguments;
    let table = arguments.sframe.as_deref().or(arguments.unwind_info.as_deref());
    let table = table.map(|path| Input::open(path, slice)).transpose()?;
    let table = table.as_ref().map(|input| input.object(Placement::Apart)).transpose()?;
    if let Some(table) = &table {
        let [file] = &files[..] else { bail!("{}: one table, but {} files", table.name, files.len()) };
        // It must be one object too.
        Input::open(file, slice)?.object(Placement::Apart)?;
        check_table(table, arguments).with_context(|| table.name.to_string())?;
    }
    each::for_each(files, slice, Placement::Apart, |object, _| {
        let file = object.file()?;
        if object.is_compact() && arguments.sframe.is_some() {
            bail!("--sframe: a Mach-O file has no .sframe: --unwind-info gives its table");
        }
        if !object.is_compact() && arguments.unwind_info.is_some() {
            bail!("--unwind-info: an ELF file has no __unwind_info: --sframe gives its table");
        }
        object.check_address(arguments.address.filter(|_| table.is_none()))?;
        if object.is_compact() {
            if arguments.profile.is_some() {
                bail!("--profile kernel: the kernel reads .sframe only");
            }
            return unwind_info::verify::check(object, table.as_ref(), arguments.json);
        }
        if table.is_some() && file.kind() == Kind::Relocatable {
            bail!("a table for a relocatable object is verified in place, or by cfi2sframe --verify");
        }
        check(object, file, table.as_ref().unwrap_or(object), arguments)
    })
}

/// Whether the table that is not the file's own can be read: otherwise it is at fault, not the file.
fn check_table(table: &Object<'_>, arguments: &Arguments) -> anyhow::Result<()> {
    table.check_address(arguments.address)?;
    if table.is_compact() {
        return unwind_info::source::Source::with_table(table)?.parse().map(|_| ());
    }
    if arguments.unwind_info.is_some() {
        bail!("there is no __unwind_info in it");
    }
    let sections = table.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables: Vec<_> = sections.iter().map(input::tables).collect::<Result<_, _>>()?;
    if tables.concat().is_empty() {
        bail!("there is no .sframe table in it");
    }
    Ok(())
}

fn check(
    object: &Object<'_>,
    file: &File<'_>,
    table: &Object<'_>,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let sections = table.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = table.tables(&sections)?;
    if tables.is_empty() {
        let has_cfi = !file.call_frame_sections()?.is_empty();
        let table = ".sframe table";
        return Ok(if has_cfi { Outcome::Lacking(table) } else { Outcome::Absent(table) });
    }
    let report = against(&input::call_frame_sections(file)?, &tables, arguments.padding);
    let violations: Vec<_> = match arguments.profile {
        Some(Profile::Kernel) => tables.iter().flat_map(|table| kernel_violations(table, None)).collect(),
        None => Vec::new(),
    };
    let places = Places::new(file);
    let written = match arguments.json {
        true => print_json(&VerifyJson::new(&object.name.plain(), &report, &violations, &places)),
        false => print_all(object, &report, arguments.profile.map(|_| &violations[..]), &places),
    };
    let status = Status::differs_if(!report.is_complete() || !violations.is_empty());
    status::judged(status, written).map(Outcome::Done)
}

fn print_json(report: &VerifyJson<'_>) -> anyhow::Result<()> {
    let mut out = output::standard();
    output::json(&mut out, report)?;
    Ok(out.flush()?)
}

/// Writes the report, and the rules of a profile that are broken.
fn print_all(
    object: &Object<'_>,
    report: &Report,
    violations: Option<&[Violation]>,
    places: &Places<'_, '_>,
) -> anyhow::Result<()> {
    let mut out = output::standard();
    writeln!(out, "{}: {}", object.name, Number(report.functions, "function"))?;
    print(&mut out, report, places)?;
    for violation in violations.unwrap_or_default() {
        let words = violation.words(|address| places.location(address));
        writeln!(out, "  kernel profile: {words}")?;
    }
    if violations.is_some_and(<[_]>::is_empty) {
        writeln!(out, "  kernel profile: no rule broken")?;
    }
    Ok(out.flush()?)
}

/// Holds tables against the CFI of a file.
pub fn against(sections: &[CallFrameSection<'_>], tables: &[sframe::Section<'_>], padding: u64) -> Report {
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    let options = Options { padding, ..Options::default() };
    verify(&cfi, &Table::new(tables), &options)
}

/// Writes the report as text, below a line that says what it is about.
pub fn print(out: &mut impl Write, report: &Report, places: &Places<'_, '_>) -> anyhow::Result<()> {
    let Report { equal, different, missing, unjudged, .. } = report;
    write!(out, "  functions: {equal} equal, {different} different, {missing} missing")?;
    writeln!(out, "{}", Counts(&[("unjudged", *unjudged), ("only in the table", report.extra)]))?;
    let Report { pcs, pcs_equal, pcs_different, pcs_missing, .. } = report;
    write!(out, "  pcs: {pcs}: {pcs_equal} equal, {pcs_different} different, {pcs_missing} missing")?;
    let rest = [
        ("unjudged", report.pcs_unjudged),
        ("padding between functions", report.pcs_padding),
        ("hidden by functions inside others", report.pcs_hidden),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    let reasons = report.reasons_by_count();
    if !reasons.is_empty() {
        writeln!(out, "  missing: {}", Counts(&reasons).list())?;
    }
    if report.malformed != 0 {
        writeln!(out, "  {} of the table cannot be read", Number(report.malformed, "function"))?;
    }
    for difference in &report.differences {
        let words = difference::words(
            places,
            difference.start..difference.end,
            difference.function,
            &difference.words(),
        );
        writeln!(out, "  {}: {words}", places.name(difference.start))?;
    }
    if report.more_differences != 0 {
        writeln!(out, "  and {} more", report.more_differences)?;
    }
    Ok(())
}

/// What [`print()`] prints, as `cfipack/verify/1`.
#[derive(Serialize)]
pub struct VerifyJson<'r> {
    schema: &'static str,
    file: &'r str,
    #[serde(flatten)]
    report: ReportJson<'r>,
    violations: Vec<String>,
}

impl<'r> VerifyJson<'r> {
    fn new(file: &'r str, report: &'r Report, violations: &[Violation], places: &Places<'_, '_>) -> Self {
        let words = |violation: &Violation| violation.words(|address| places.location(address));
        let violations = violations.iter().map(words).collect();
        Self { schema: "cfipack/verify/1", file, report: ReportJson::new(report, places), violations }
    }
}

/// A report: counts of functions and PCs, and the first differences.
#[derive(Serialize)]
pub struct ReportJson<'r> {
    functions: u64,
    equal: u64,
    different: u64,
    missing: u64,
    unjudged: u64,
    duplicates: u64,
    extra: u64,
    malformed: u64,
    pcs: u64,
    pcs_equal: u64,
    pcs_different: u64,
    pcs_missing: u64,
    pcs_unjudged: u64,
    pcs_extra: u64,
    pcs_padding: u64,
    pcs_hidden: u64,
    reasons: &'r std::collections::BTreeMap<String, u64>,
    differences: Vec<DifferenceJson>,
    more_differences: u64,
    left_out: Vec<LeftOutJson<'r>>,
}

#[derive(Serialize)]
struct LeftOutJson<'r> {
    function: Option<String>,
    pc: Option<String>,
    why: &'r str,
}

impl<'r> ReportJson<'r> {
    /// The report in JSON, about a file.
    pub fn new(report: &'r Report, places: &Places<'_, '_>) -> Self {
        let differences = report.differences.iter().map(|difference| {
            let pcs = difference.start..difference.end;
            DifferenceJson::at(places, pcs, difference.function, &difference.words())
        });
        let left_out = report.left_out.iter().map(|left_out| LeftOutJson {
            function: left_out.function.map(|function| places.location(function)),
            pc: left_out.pc.map(|pc| places.location(pc)),
            why: &left_out.why,
        });
        Self {
            functions: report.functions,
            equal: report.equal,
            different: report.different,
            missing: report.missing,
            unjudged: report.unjudged,
            duplicates: report.duplicates,
            extra: report.extra,
            malformed: report.malformed,
            pcs: report.pcs,
            pcs_equal: report.pcs_equal,
            pcs_different: report.pcs_different,
            pcs_missing: report.pcs_missing,
            pcs_unjudged: report.pcs_unjudged,
            pcs_extra: report.pcs_extra,
            pcs_padding: report.pcs_padding,
            pcs_hidden: report.pcs_hidden,
            reasons: &report.reasons,
            differences: differences.collect(),
            more_differences: report.more_differences,
            left_out: left_out.collect(),
        }
    }
}
