//! `verify`: compares a table with the CFI that it represents.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use cfipack_container::{CallFrameSection, File, Kind, Placement};
use cfipack_decoder::sframe;
use cfipack_format::Address;
use cfipack_format::Unsupported;
use cfipack_format::pool::Threads;
use cfipack_roundtrip::{
    KernelViolations, MissingFunction, Options, Report, Table, kernel_violations, verify_with_reasons_on,
};

use crate::report::count::Number;

use crate::absent::{self, SFRAME_TABLE};
use crate::io::each::{self, Outcome};
use crate::io::input::{self, Contents, Input, Object};
use crate::io::output;
use crate::missing::AnyTableReasons;
use crate::report::excluded::{self, Excluded};
use crate::report::fault::TableNames;
use crate::report::place::Places;
use crate::report::status::{self, Status};
use crate::report::symbol::Names;
use crate::report::verdict::{self, VerifyJson};
use crate::verbs::unwind_info;

/// Verifies a table against the CFI of its file
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compares the rows of the table and of the CFI at every PC of every function, in both
directions. gimli evaluates the CFI, not the code that converts it.
For Mach-O files, compares compact entries with the CFI of functions that have both: they
must be equal in the body and at every call; and checks the rules that the table's readers
rely on.
Exit status 1: a PC differs or is missing in the table; or the table has a row for a PC that
gimli cannot judge; or an FDE cannot be read; or a rule of the profile is broken; or a member
of an archive has CFI and no table, and another member has one. Functions that gimli cannot
evaluate and that the table omits are counted and are no fault.

Examples:
  cfi2sframe verify a.out                           the table in a.out against its .eh_frame
  cfi2sframe verify libfoo.so --sframe table        a table that --section wrote
  cfi2sframe verify --json a.out | jq .reasons
  cfi2sframe verify libfoo.dylib                    the __unwind_info in libfoo.dylib")]
pub struct Arguments {
    /// Objects, linked files or archives with CFI
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Read the table from this file or bare section
    #[arg(long, value_name = "F")]
    sframe: Option<PathBuf>,
    /// Mach-O: read the table from this file or bare section
    #[arg(long, value_name = "F", conflicts_with = "sframe")]
    unwind_info: Option<PathBuf>,
    /// Address of a bare .sframe section in memory [default: 0]
    #[arg(long, value_name = "ADDR", value_parser = input::parse_address)]
    address: Option<Address>,
    /// Also check the rules of a strict reader
    #[arg(long, value_name = "NAME")]
    profile: Option<Profile>,
    /// Largest gap between merged functions that a table may cover, in bytes
    #[arg(long, value_name = "BYTES", default_value = "0", value_parser = input::number_in(0..=u64::MAX))]
    padding: u64,
    /// Print one JSON object for each file, one per line
    #[arg(long)]
    json: bool,
    /// Number of threads; the report does not depend on it
    #[arg(long, value_name = "N", default_value = "1", value_parser = input::number_in(1..=256_u16))]
    threads: u16,
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    slice: input::Slice,
}

/// A reader that accepts less than the format allows.
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
        // The file must be one object too.
        let input = Input::open(file, slice)?;
        let object = input.object(Placement::Apart)?;
        check_table(table, &object, arguments).with_context(|| table.name.to_string())?;
    }
    each::for_each(files, slice, Placement::Apart, |object, _| {
        let file = object.file()?;
        if object.is_compact() && arguments.sframe.is_some() {
            bail!("--sframe: a Mach-O file has no .sframe; use --unwind-info for its table");
        }
        if !object.is_compact() && arguments.unwind_info.is_some() {
            bail!("--unwind-info: an ELF file has no __unwind_info; use --sframe for its table");
        }
        object.check_address(arguments.address.filter(|_| table.is_none()))?;
        if object.is_compact() {
            if arguments.profile.is_some() {
                bail!("--profile kernel: the kernel reads only .sframe");
            }
            return unwind_info::verify::check(object, table.as_ref(), arguments.names, arguments.json);
        }
        if table.is_some() && file.kind() == Kind::Relocatable {
            bail!("--sframe: not for a relocatable object: verify the table in it, or convert with --verify");
        }
        check(object, file, table.as_ref().unwrap_or(object), arguments)
    })
}

/// Checks a table from another file, so that an error names that file.
fn check_table(table: &Object<'_>, object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<()> {
    table.check_address(arguments.address)?;
    if table.is_compact() {
        return unwind_info::source::Source::with_table(table)?.parse().map(|_| ());
    }
    if arguments.unwind_info.is_some() {
        bail!("the file has no __unwind_info");
    }
    let sections = table.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables: Vec<_> = sections.iter().map(input::tables).collect::<Result<_, _>>()?;
    let tables = tables.concat();
    if tables.is_empty() {
        return Err(absent::from_object(table, SFRAME_TABLE));
    }
    match &object.contents {
        Contents::File(file) if file.as_macho().is_none() => {
            TableNames::of(&tables, &sections).require_arch(&tables, file.arch(), &object.name)
        }
        _ => Ok(()),
    }
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
        let has_cfi = input::describe_functions(&file.call_frame_sections()?);
        let missing = if has_cfi { Outcome::MissingTable } else { Outcome::Absent };
        return Ok(missing(SFRAME_TABLE));
    }
    let names = TableNames::of(&tables, &sections);
    names.require_arch(&tables, file.arch(), &"the file")?;
    let options = Options::new().with_padding(arguments.padding);
    let sections = input::call_frame_sections(file)?;
    let report = against_any(&sections, &tables, &options, arguments.threads.into());
    let excluded = excluded::count(&sections);
    let violations: Vec<_> = match arguments.profile {
        Some(Profile::Kernel) => {
            let text = text(file)?;
            let limit = options.limit;
            tables.iter().map(|table| kernel_violations(table, text.clone(), limit)).collect()
        }
        None => Vec::new(),
    };
    let places = Places::new(file).with_names(arguments.names);
    let written = match arguments.json {
        true => print_json(&VerifyJson::new(
            &object.name.plain(),
            &report,
            &violations,
            &excluded,
            &names,
            &places,
        )),
        false => {
            let violations = arguments.profile.map(|_| &violations[..]);
            print_all(object, &report, violations, &excluded, &names, &places)
        }
    };
    let keeps_rules = violations.iter().all(KernelViolations::is_empty);
    let status = Status::differs_if(!report.is_faultless() || !keeps_rules);
    status::judged(status, written).map(Outcome::Done)
}

/// The range of the code of a linked file.
pub fn text(file: &File<'_>) -> anyhow::Result<Option<Range<Address>>> {
    if file.kind() == Kind::Relocatable {
        return Ok(None);
    }
    let code = file.code_sections()?;
    let start = code.iter().map(|section| section.address).min();
    let end = code.iter().map(|section| section.address.offset(section.bytes.len() as i64)).max();
    Ok(start.zip(end).map(|(start, end)| start..end))
}

fn print_json(report: &VerifyJson<'_>) -> anyhow::Result<()> {
    let mut out = output::standard();
    output::json(&mut out, report)?;
    Ok(out.flush()?)
}

/// Writes the report, and the broken rules of a profile.
fn print_all(
    object: &Object<'_>,
    report: &Report,
    violations: Option<&[KernelViolations]>,
    excluded: &Excluded,
    names: &TableNames,
    places: &Places<'_, '_>,
) -> anyhow::Result<()> {
    let mut out = output::standard();
    writeln!(out, "{}: {}", object.name, Number(report.functions, "function"))?;
    verdict::print(&mut out, report, names, places)?;
    if let Some(line) = excluded::line(excluded) {
        writeln!(out, "{line}")?;
    }
    for table in violations.unwrap_or_default() {
        for violation in &table.first {
            let words = violation.words(|address| places.location(address));
            writeln!(out, "  kernel profile: {words}")?;
        }
        if table.more != 0 {
            writeln!(out, "  kernel profile: and {} more", table.more)?;
        }
    }
    if violations.is_some_and(|tables| tables.iter().all(KernelViolations::is_empty)) {
        writeln!(out, "  kernel profile: no rule is broken")?;
    }
    Ok(out.flush()?)
}

/// Verifies tables of any origin against the CFI of their file, on so many threads.
pub fn against_any(
    sections: &[CallFrameSection<'_>],
    tables: &[sframe::Section<'_>],
    options: &Options,
    threads: usize,
) -> Report {
    let mut reasons = AnyTableReasons::new(tables);
    against(sections, tables, options, threads, |missing| reasons.reason(missing))
}

/// Verifies tables against the CFI of a file, on so many threads; `reason` returns why a function is missing.
pub fn against<'s>(
    sections: &'s [CallFrameSection<'_>],
    tables: &[sframe::Section<'_>],
    options: &Options,
    threads: usize,
    reason: impl FnMut(&MissingFunction<'s>) -> Option<Unsupported>,
) -> Report {
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    verify_with_reasons_on(&Threads(threads), &cfi, &Table::new(tables), options, reason)
}
