//! `verify` of `.sframe`.

use std::io::Write;

use anyhow::bail;
use cfipack_container::{File, Kind};
use cfipack_lint::coverage;
use cfipack_roundtrip::{Options, Report};

use super::{Arguments, Profile};
use crate::io::absent::{self, SFRAME_TABLE};
use crate::io::debug_file::{self, DebugFile};
use crate::io::each::Outcome;
use crate::io::found::HiddenTables;
use crate::io::input::{self, CALL_FRAMES, Contents, Object};
use crate::io::output;
use crate::report::count::Number;
use crate::report::displaced::Displaced;
use crate::report::excluded::{self, Excluded, Unplaced};
use crate::report::fault::TableNames;
use crate::report::kernel::KernelReport;
use crate::report::place::Places;
use crate::report::status::{self, Status};
use crate::report::unverified;
use crate::report::verdict::{self, AgainstCode, ReportJson, VerifyJson};
use crate::report::verification;

/// Checks tables for the code of another object.
pub fn check_for(table: &Object<'_>, object: &Object<'_>, arguments: &Arguments) -> anyhow::Result<()> {
    table.check_address(arguments.address)?;
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
            TableNames::from_sections(&tables, &sections).require_arch(&tables, file.arch(), &object.name)
        }
        _ => Ok(()),
    }
}

/// Verifies the tables of an object, or the tables in `elsewhere`, against its CFI.
pub fn verify(
    object: &Object<'_>,
    elsewhere: Option<&Object<'_>>,
    arguments: &Arguments,
) -> anyhow::Result<Outcome> {
    let file = object.file()?;
    if elsewhere.is_some() && file.kind() == Kind::Relocatable {
        bail!("--sframe: not for a relocatable object: verify the table in it, or convert with --verify");
    }
    let table = elsewhere.unwrap_or(object);
    let sections = table.sframe_sections(arguments.address.unwrap_or_default())?;
    let tables = table.tables(&sections)?;
    let is_omitted = tables.is_empty();
    if is_omitted && !has_code(file)? {
        return Ok(Outcome::Absent(SFRAME_TABLE));
    }
    let names = TableNames::from_sections(&tables, &sections);
    names.require_arch(&tables, file.arch(), &"the file")?;
    let (_, hidden) = table.found(&sections, tables.clone());
    let options = Options::new().with_padding(arguments.padding);
    let sections = file.call_frame_sections()?;
    if !input::describe_functions(&sections) {
        if is_omitted {
            return Ok(Outcome::Absent(SFRAME_TABLE));
        }
        let reason = absent::from_file(file, CALL_FRAMES);
        status::warn(&format_args!("{}: nothing was compared: {reason}", object.name));
        return Ok(Outcome::Done(Status::Differs));
    }
    let report = verification::against_any(file, &sections, &tables, &options, arguments.threads.into())?;
    // All functions of an archive's member may be omitted for a reason.
    let has_reasons = object.name.member.is_some() && report.is_proven() && report.unreadable == 0;
    if is_omitted && !has_reasons {
        return Ok(Outcome::MissingTable(SFRAME_TABLE));
    }
    let excluded = excluded::count(&sections);
    let unplaced = Unplaced::of(file, &sections);
    let kernel = arguments.profile.map(|Profile::Kernel| KernelReport::new(file, &tables, options.limit));
    let kernel = kernel.transpose()?;
    let places = Places::new(file).with_names(arguments.names);
    let mut code = None;
    if arguments.lint {
        let lint = cfipack_lint::lint(file, &sections, arguments.threads.into(), &|_| true, &|_, _| {})?;
        code = Some(AgainstCode::new(&lint));
    }
    let is_bare = elsewhere.is_some_and(Object::is_bare_sframe) && !report.is_faultless();
    let address = arguments.address.unwrap_or_default();
    let displaced = is_bare.then(|| Displaced::find(&sections, &tables, address)).flatten();
    let (kernel, displaced) = (kernel.as_ref(), displaced.as_ref());
    let written = if arguments.json {
        let violations = kernel.map(|kernel| kernel.violations(&places)).unwrap_or_default();
        output::print_json(&VerifyJson {
            schema: "cfipack/verify/1",
            file: object.name.plain(),
            report: ReportJson::new(&report, &names, &places),
            violations,
            more_violations: kernel.map_or(0, KernelReport::more),
            fallback: kernel.and_then(|kernel| kernel.fallback),
            excluded: &excluded,
            hidden_tables: hidden,
            debug_file: object.debug_file.map(DebugFile::json),
            cfi_against_code: code,
            displaced,
        })
    } else {
        print_all(object, (&report, displaced, hidden), kernel, (&excluded, &unplaced), &names, &places, code)
    };
    let keeps_rules = kernel.is_none_or(|kernel| kernel.is_accepted());
    let wrong_cfi = code.is_some_and(|code| code.wrong != 0);
    if is_omitted {
        let status = status::judged(Status::differs_if(arguments.strict), written)?;
        return Ok(Outcome::AllOmitted(SFRAME_TABLE, status));
    }
    let unplaced = arguments.strict && !unplaced.is_empty();
    let passes = verification::passes(&report, arguments.strict) && !unplaced;
    let status = Status::differs_if(!passes || !keeps_rules || wrong_cfi || hidden.is_some());
    status::judged(status, written).map(Outcome::Done)
}

/// Returns whether a file has CFI for a function with code. Functions without code need no table.
fn has_code(file: &File<'_>) -> anyhow::Result<bool> {
    let functions = coverage::of_cfi(&file.call_frame_sections()?);
    Ok(functions.map_or(true, |functions| functions.iter().any(|range| !range.is_empty())))
}

/// Writes the report, and the report of a profile.
fn print_all(
    object: &Object<'_>,
    (report, displaced, hidden): (&Report, Option<&Displaced>, Option<HiddenTables>),
    kernel: Option<&KernelReport>,
    (excluded, unplaced): (&Excluded, &[Unplaced]),
    names: &TableNames,
    places: &Places<'_, '_>,
    code: Option<AgainstCode>,
) -> anyhow::Result<()> {
    let mut out = output::standard();
    writeln!(out, "{}: {}", object.name, Number(report.functions, "function"))?;
    if let Some(displaced) = displaced {
        writeln!(out, "  {}", displaced.words())?;
    }
    if let Some(hidden) = hidden {
        writeln!(out, "  {hidden}")?;
    }
    verdict::print(&mut out, report, names, places)?;
    unverified::print(&mut out, &report.unverified, report.more_unverified, places)?;
    if let Some(line) = excluded::line(excluded) {
        writeln!(out, "{line}")?;
    }
    for unplaced in unplaced {
        writeln!(out, "  {unplaced}")?;
    }
    object.print_debug_file(&mut out)?;
    if report.pcs_extra != 0 && object.debug_file.is_none() {
        let hint = debug_file::hint(object.file()?, CALL_FRAMES);
        writeln!(out, "  rows outside of the functions of the CFI: the CFI may lie in another file{hint}")?;
    }
    writeln!(out, "  {}", verdict::against_code(code))?;
    if let Some(kernel) = kernel {
        kernel.print(&mut out, places)?;
    }
    Ok(out.flush()?)
}
