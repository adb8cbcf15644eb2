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
    let kernel = arguments.profile.map(|Profile::Kernel| KernelReport::new(file, &tables, options.limit));
    let mut code = None;
    if arguments.lint {
        let lint = cfipack_lint::lint(file, &sections, arguments.threads.into(), &|_| true, &|_, _| {})?;
        code = Some(AgainstCode::new(&lint));
    }
    let is_bare = elsewhere.is_some_and(Object::is_bare_sframe) && !report.is_faultless();
    let address = arguments.address.unwrap_or_default();
    let verified = Verified {
        object,
        names,
        places: Places::new(file).with_names(arguments.names),
        displaced: is_bare.then(|| Displaced::find(&sections, &tables, address)).flatten(),
        report,
        hidden,
        excluded: excluded::count(&sections),
        unplaced: Unplaced::of(file, &sections),
        kernel: kernel.transpose()?,
        code,
    };
    let written = if arguments.json { output::print_json(&verified.json()) } else { verified.print() };
    if is_omitted {
        let status = status::judged(Status::differs_if(arguments.strict), written)?;
        return Ok(Outcome::AllOmitted(SFRAME_TABLE, status));
    }
    let status = Status::differs_if(!verified.passes(arguments.strict));
    status::judged(status, written).map(Outcome::Done)
}

/// Returns whether a file has CFI for a function with code. Functions without code need no table.
fn has_code(file: &File<'_>) -> anyhow::Result<bool> {
    let functions = coverage::of_cfi(&file.call_frame_sections()?);
    Ok(functions.map_or(true, |functions| functions.iter().any(|range| !range.is_empty())))
}

/// The tables of an object after their comparison with its CFI.
struct Verified<'v, 'a> {
    object: &'v Object<'a>,
    report: Report,
    names: TableNames,
    places: Places<'v, 'a>,
    displaced: Option<Displaced>,
    hidden: Option<HiddenTables>,
    excluded: Excluded,
    unplaced: Vec<Unplaced>,
    kernel: Option<KernelReport>,
    code: Option<AgainstCode>,
}

impl Verified<'_, '_> {
    fn passes(&self, strict: bool) -> bool {
        verification::passes(&self.report, strict)
            && (!strict || self.unplaced.is_empty())
            && self.kernel.as_ref().is_none_or(KernelReport::is_accepted)
            && self.code.is_none_or(|code| code.wrong == 0)
            && self.hidden.is_none()
    }

    fn json(&self) -> VerifyJson<'_> {
        let kernel = self.kernel.as_ref();
        VerifyJson {
            schema: "cfipack/verify/1",
            file: self.object.name.plain(),
            report: ReportJson::new(&self.report, &self.names, &self.places),
            violations: kernel.map(|kernel| kernel.violations(&self.places)).unwrap_or_default(),
            more_violations: kernel.map_or(0, KernelReport::more),
            fallback: kernel.and_then(|kernel| kernel.fallback),
            excluded: &self.excluded,
            hidden_tables: self.hidden,
            debug_file: self.object.debug_file.map(DebugFile::json),
            cfi_against_code: self.code,
            displaced: self.displaced.as_ref(),
        }
    }

    /// Writes the report, and the report of a profile.
    fn print(&self) -> anyhow::Result<()> {
        let Self { object, report, names, places, .. } = self;
        let mut out = output::standard();
        writeln!(out, "{}: {}", object.name, Number(report.functions, "function"))?;
        if let Some(displaced) = &self.displaced {
            writeln!(out, "  {}", displaced.words())?;
        }
        if let Some(hidden) = self.hidden {
            writeln!(out, "  {hidden}")?;
        }
        verdict::print(&mut out, report, names, places)?;
        unverified::print(&mut out, &report.unverified, report.more_unverified, places)?;
        if let Some(line) = excluded::line(&self.excluded) {
            writeln!(out, "{line}")?;
        }
        for unplaced in &self.unplaced {
            writeln!(out, "  {unplaced}")?;
        }
        object.print_debug_file(&mut out)?;
        if report.pcs_extra != 0 && object.debug_file.is_none() {
            let hint = debug_file::hint(object.file()?, CALL_FRAMES);
            writeln!(
                out,
                "  rows outside of the functions of the CFI: the CFI may lie in another file{hint}"
            )?;
        }
        writeln!(out, "  {}", verdict::against_code(self.code))?;
        if let Some(kernel) = &self.kernel {
            kernel.print(&mut out, places)?;
        }
        Ok(out.flush()?)
    }
}
