//! Compares `__unwind_info` and `__compact_unwind` with the CFI and with the rules of their readers, and prints the
//! verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use cfipack_container::{File, Kind};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};
use cfipack_roundtrip::Options;
use cfipack_roundtrip::unwind_info::{
    Code, Entry, Image, Report, Rows, Table, Violation, verify, violations,
};
use serde::{Serialize, Serializer};

use crate::compact::personalities::faults_of_pointers;
use crate::compact::source::{self, function_starts};
use crate::report::count::{Counts, Number};
use crate::report::place::Places;
use crate::report::reasons;
use crate::report::unverified;
use crate::report::verdict::DUPLICATES;

/// How many violations of each rule are described. All violations are counted.
const DESCRIBED: usize = 100;

/// The name of a fault: the entry names an FDE after the function's own FDE, which only a scan of the section finds.
const SCANNED: &str = "whose FDE is found by a scan only";

/// Verifies a table against the CFI of a file. The file may have no CFI.
pub fn of_file(file: &File<'_>, table: &Table<'_>) -> anyhow::Result<Report> {
    let sections = file.call_frame_sections()?;
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    Ok(verify(&cfi, table, &Options::default()))
}

/// Verifies an `__unwind_info` against the CFI of a file and against the rules that its readers rely on.
pub fn of_table(
    file: &File<'_>,
    base: Address,
    code: Code<'_>,
    section: &cfipack_decoder::unwind_info::Section<'_>,
) -> anyhow::Result<Verdict> {
    let sections = file.call_frame_sections()?;
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    let function_starts = function_starts(file)?;
    // Sections of pointers that the loader fills in, as lld, ld-prime, and ld64 with and without i386 name them.
    let names = ["__got", "__auth_got", "__nl_symbol_ptr", "__pointers"];
    // An object has no slots yet, and an ELF file has them anywhere.
    let is_anywhere = file.kind() == Kind::Relocatable || file.as_macho().is_none();
    let is_slot =
        |address| is_anywhere || file.locate(address).is_some_and(|place| names.contains(&&*place.name));
    let arch = file.arch();
    let image =
        Image::new(arch, base, &code, &cfi).with_function_starts(&function_starts).with_slots(&is_slot);
    let broken = violations(section, &image);
    let table = Table::of_image(arch, base, section, code);
    // A table for an object has slots, but a linker will put them elsewhere.
    let table = if file.kind() == Kind::Relocatable { table.without_slots() } else { table };
    Ok(Verdict { report: verify(&cfi, &table, &Options::default()), broken })
}

/// Verifies the rows of an object against its CFI and against the rules that linkers rely on. Functions without a row are
/// in DWARF mode.
pub fn of_rows(file: &File<'_>, rows: &[(SectionOffset, Entry)]) -> anyhow::Result<Verdict> {
    let code = file.code_sections()?;
    let code = Code::new(code.iter().map(|section| (section.address, &section.bytes[..])));
    let entries = rows.iter().map(|row| row.1).collect();
    let sections = file.call_frame_sections()?;
    let cfi: Vec<_> = sections.iter().map(|section| section.cfi()).collect();
    let table = Table::of_object(file.arch(), entries, code.clone());
    let report = verify(&cfi, &table, &Options::default());
    let labels = file.as_macho().map(|macho| macho.labels());
    let symbols = |start, end| labels.as_ref().map_or_else(Vec::new, |labels| labels.within(start, end));
    let faults = source::rows(file)?.map(|compact| faults_of_pointers(file, &compact)).transpose()?;
    let rows = Rows::new(file.arch(), rows, &code).with_cfi(&cfi).with_symbols(&symbols);
    let rows = rows.with_pointer_faults(faults.as_deref().unwrap_or_default());
    Ok(Verdict { report, broken: rows.violations() })
}

/// The verdict on a table: it is compared with the CFI, and its readers' rules are checked.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The comparison with the CFI.
    #[serde(flatten)]
    pub report: Report,
    /// The violations of its readers' rules.
    #[serde(flatten, serialize_with = "rules")]
    #[cfg_attr(test, schemars(with = "Rules"))]
    pub broken: Vec<Violation>,
}

impl Verdict {
    /// Returns whether everything is judged and correct, and no rule is broken that a reader relies on.
    pub fn is_good(&self) -> bool {
        self.report.is_complete() && self.broken.iter().all(Violation::is_warning)
    }

    /// Returns whether the table is good, and was compared with the CFI, if there is any. Linkers remove the FDEs of
    /// functions with compact entries, so a file may have none. The rules are checked all the same.
    pub fn passes(&self) -> bool {
        self.is_good() && (self.report.pcs_compared() != 0 || self.report.functions == 0)
    }

    /// Returns the functions that the table does not describe as their CFI does, and the functions of rows that break a
    /// rule.
    pub fn faulty(&self) -> BTreeSet<Address> {
        let of_rules = self.broken.iter().filter(|violation| !violation.is_warning());
        let of_rules = of_rules.filter_map(Violation::function_of_row).map(|at| Address(at.0.into()));
        self.report.contradicted.iter().copied().chain(of_rules).collect()
    }
}

/// Writes the report as text, after a line with its subject.
pub fn print(out: &mut impl Write, report: &Report, places: &Places<'_, '_>) -> anyhow::Result<()> {
    let Report { equal, different, missing, .. } = report;
    write!(out, "  functions: {equal} equal, {different} different, {missing} missing")?;
    let rest = [
        ("in DWARF mode", report.dwarf),
        (SCANNED, report.scanned),
        ("unjudged", report.unjudged),
        (DUPLICATES, report.duplicates),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    let Report { pcs, pcs_equal, pcs_different, pcs_missing, .. } = report;
    write!(out, "  pcs: {pcs}: {pcs_equal} equal, {pcs_different} different, {pcs_missing} missing")?;
    let rest = [
        ("not exact in prologues", report.pcs_prologue),
        ("not exact in epilogues", report.pcs_epilogue),
        ("in DWARF mode", report.pcs_dwarf),
        (SCANNED, report.pcs_scanned),
        ("unjudged", report.pcs_unjudged),
    ];
    writeln!(out, "{}", Counts(&rest))?;
    if report.pcs_compared() == 0 {
        let reason = match report.functions {
            0 => "the file has none, so the table is held against its readers' rules only",
            _ => "the table has no entry for its functions, or none can be judged",
        };
        writeln!(out, "  nothing was compared with CFI: {reason}")?;
    }
    if report.without_cfi != 0 || report.pcs_without_cfi != 0 {
        let entries = Number(report.without_cfi, "entry");
        writeln!(out, "  without CFI, not judged: {entries}, {}", Number(report.pcs_without_cfi, "pc"))?;
    }
    if report.handlers_different != 0 {
        let functions = Number(report.handlers_different, "function");
        writeln!(out, "  with a different personality or LSDA: {functions}")?;
    }
    reasons::print(out, "missing or unjudged", &report.reasons)?;
    for difference in &report.differences {
        writeln!(out, "  {}: {difference}", places.name(difference.start))?;
    }
    if report.more_differences != 0 {
        writeln!(out, "  and {} more", report.more_differences)?;
    }
    unverified::print(out, &report.unverified, report.more_unverified, places)?;
    Ok(())
}

/// Writes the violations, errors before warnings, or that no rule is broken.
pub fn print_violations(out: &mut impl Write, section: &str, violations: &[Violation]) -> anyhow::Result<()> {
    if violations.is_empty() {
        writeln!(out, "  {section}: no rule is broken")?;
    }
    let DescribedViolations { first, more } = DescribedViolations::select(violations);
    for (is_warning, kind) in [(false, ""), (true, "warning: ")] {
        for violation in first.iter().filter(|violation| violation.is_warning() == is_warning) {
            writeln!(out, "  {section}: {kind}{violation}")?;
        }
        for ((_, name), more) in more.iter().filter(|((warns, _), _)| *warns == is_warning) {
            writeln!(out, "  {section}: {kind}and {more} more {name}")?;
        }
    }
    Ok(())
}

/// The violations that a report describes.
struct DescribedViolations<'v> {
    /// The first [`DESCRIBED`] violations of each rule, with errors before warnings.
    first: Vec<&'v Violation>,
    /// The number of further violations of each rule. The key is true for warnings, and has the rule's name.
    more: BTreeMap<(bool, &'static str), usize>,
}

impl<'v> DescribedViolations<'v> {
    fn select(violations: &'v [Violation]) -> Self {
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        let mut first = Vec::new();
        for violation in violations {
            let count = counts.entry((violation.is_warning(), violation.name())).or_default();
            *count += 1;
            if *count <= DESCRIBED {
                first.push(violation);
            }
        }
        first.sort_by_key(|violation| violation.is_warning());
        let more = counts.into_iter().filter_map(|(rule, count)| {
            let more = count.checked_sub(DESCRIBED).filter(|more| *more != 0)?;
            Some((rule, more))
        });
        Self { first, more: more.collect() }
    }
}

/// The rules that a table breaks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Rules {
    /// Descriptions of the first violations of each rule.
    violations: Vec<String>,
    /// The number of violations that are not described.
    more_violations: u64,
    /// Descriptions of the first violations of each rule that is only worth a warning.
    warnings: Vec<String>,
    /// The number of warnings that are not described.
    more_warnings: u64,
    /// The number of violations and warnings by the rule's name.
    rules: BTreeMap<&'static str, u64>,
}

impl Rules {
    /// Counts the violations by rule, and describes the first of each rule.
    fn new(broken: &[Violation]) -> Self {
        let mut rules = BTreeMap::new();
        for violation in broken {
            *rules.entry(violation.name()).or_default() += 1;
        }
        let DescribedViolations { first, more } = DescribedViolations::select(broken);
        let (warnings, violations): (Vec<&Violation>, _) =
            first.into_iter().partition(|violation| violation.is_warning());
        let more = |is_warning| {
            let of_kind = more.iter().filter(|((warns, _), _)| *warns == is_warning);
            of_kind.map(|(_, more)| (*more).to_u64()).sum()
        };
        Self {
            violations: violations.into_iter().map(Violation::to_string).collect(),
            more_violations: more(false),
            warnings: warnings.into_iter().map(Violation::to_string).collect(),
            more_warnings: more(true),
            rules,
        }
    }
}

fn rules<S: Serializer>(broken: &[Violation], serializer: S) -> Result<S::Ok, S::Error> {
    Rules::new(broken).serialize(serializer)
}
