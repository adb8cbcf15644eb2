//! Sums counts over the files of an architecture.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use cfipack_cfi as cfi;
use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_format::Address;
use cfipack_format::sframe::Abi;
use cfipack_roundtrip::cfi::{Evaluator, Functions, Unevaluated};
use cfipack_tests::convert::{Converted, cfi_of, convert};
use cfipack_tests::figures;

#[derive(Default)]
pub struct Totals {
    files: u64,
    without_cfi: u64,
    without_format: u64,
    unreadable: u64,
    cfi_bytes: u64,
    table_bytes: u64,
    functions: u64,
    converted: u64,
    malformed: u64,
    omitted: BTreeMap<&'static str, u64>,
    /// Functions whose CFI DWARF does not define. The second number counts those in the table.
    undefined: u64,
    undefined_converted: u64,
    /// Functions that gimli does not evaluate for another reason, by its error, and the number of them in the table.
    unevaluated: BTreeMap<String, u64>,
    unevaluated_converted: u64,
    /// Functions with several FDEs that disagree, and records that gimli cannot read.
    disputed: u64,
    pcs: u64,
    pcs_equal: u64,
    pcs_different: u64,
    pcs_missing: u64,
    pcs_unjudged: u64,
    /// Functions that a table lacks although the conversion reported no reason.
    unexplained: u64,
}

/// The functions of a file that gimli does not evaluate.
#[derive(Default)]
struct Refused {
    functions: u64,
    converted: Vec<Address>,
}

/// Returns whether gimli's error is about CFI that DWARF does not define: a changed register or offset of a CFA that is
/// an expression, a restored state that was not remembered, or an instruction that is not in the standard.
fn is_undefined(error: Unevaluated) -> bool {
    use gimli::Error::{CfiInstructionInInvalidContext, PopWithEmptyStack, UnknownCallFrameInstruction};
    matches!(
        error,
        Unevaluated::Gimli(
            CfiInstructionInInvalidContext | PopWithEmptyStack | UnknownCallFrameInstruction(_)
        )
    )
}

impl Totals {
    /// Converts a file, verifies the table, and counts.
    pub fn file(&mut self, path: &Path, file: &File<'_>) -> Result<(), String> {
        let sections = file.call_frame_sections().map_err(|error| error.to_string())?;
        self.files += 1;
        if Abi::for_arch(file.arch()).is_none() {
            self.without_format += 1;
            return Ok(());
        }
        let cfi = cfi_of(&sections);
        if cfi.iter().all(|section| section.bytes.is_empty()) {
            self.without_cfi += 1;
            return Ok(());
        }
        let converted = convert(&cfi, file.arch(), Address(0), Options::default());
        let report = converted.verify(&cfi);
        if let Some(difference) = report.differences.first() {
            println!("{}: {} PCs differ: {difference}", path.display(), report.pcs_different);
        }
        if converted.malformed.is_empty() && report.unexplained != 0 {
            println!("{}: {} functions missing without a reason", path.display(), report.unexplained);
            self.unexplained += report.unexplained;
        }
        if report.unjudged != 0 {
            let not_evaluated = self.unjudged(path, &cfi, &converted);
            self.disputed += report.unjudged - not_evaluated;
        }
        self.cfi_bytes += cfi.iter().map(|section| section.bytes.len() as u64).sum::<u64>();
        self.table_bytes += converted.bytes.len() as u64;
        self.functions += converted.functions as u64;
        let omitted = converted.omitted.len() + converted.malformed.len();
        self.converted += (converted.functions - omitted) as u64;
        self.malformed += converted.malformed.len() as u64;
        for omitted in &converted.omitted {
            *self.omitted.entry(omitted.reason.name()).or_default() += 1;
        }
        self.pcs += report.pcs;
        self.pcs_equal += report.pcs_equal;
        self.pcs_different += report.pcs_different;
        self.pcs_missing += report.pcs_missing;
        self.pcs_unjudged += report.pcs_unjudged;
        Ok(())
    }

    /// Counts the functions that gimli does not evaluate, and those of them in the table. Returns how many they are.
    fn unjudged(&mut self, path: &Path, cfi: &[cfi::Section<'_>], converted: &Converted) -> u64 {
        let functions = Functions::find(cfi);
        let mut evaluator = Evaluator::new(&functions);
        let table = converted.table();
        let mut by_error: BTreeMap<String, Refused> = BTreeMap::new();
        for function in functions.as_slice() {
            let Err(error) = evaluator.evaluate(function, |_, _, _| ()) else { continue };
            let found = table.find(function.start).expect("a table that was just written");
            let is_converted = found.is_some_and(|found| found.start() == function.start);
            if is_undefined(error) {
                self.undefined += 1;
                self.undefined_converted += u64::from(is_converted);
            } else {
                *self.unevaluated.entry(error.to_string()).or_default() += 1;
                self.unevaluated_converted += u64::from(is_converted);
            }
            let refused = by_error.entry(error.to_string()).or_default();
            refused.functions += 1;
            if is_converted {
                refused.converted.push(function.start);
            }
        }
        for (error, Refused { functions, converted }) in &by_error {
            let path = path.display();
            let converted: Vec<_> = converted.iter().map(Address::to_string).collect();
            println!(
                "{path}: {functions} functions: {error}; in the table: {}{}",
                converted.len(),
                converted.iter().map(|start| format!(" {start}")).collect::<String>()
            );
        }
        by_error.values().map(|refused| refused.functions).sum()
    }

    /// Counts a file that cannot be read.
    pub fn unreadable(&mut self) {
        self.files += 1;
        self.unreadable += 1;
    }

    /// Returns whether a table differs from its CFI, or lacks a function that the conversion did not report.
    pub fn is_wrong(&self) -> bool {
        self.pcs_different != 0
            || self.undefined_converted != 0
            || self.unevaluated_converted != 0
            || self.unexplained != 0
    }

    /// Adds the counts of another thread.
    pub fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.without_cfi += other.without_cfi;
        self.without_format += other.without_format;
        self.unreadable += other.unreadable;
        self.cfi_bytes += other.cfi_bytes;
        self.table_bytes += other.table_bytes;
        self.functions += other.functions;
        self.converted += other.converted;
        self.malformed += other.malformed;
        self.undefined += other.undefined;
        self.undefined_converted += other.undefined_converted;
        self.unevaluated_converted += other.unevaluated_converted;
        self.disputed += other.disputed;
        self.pcs += other.pcs;
        self.pcs_equal += other.pcs_equal;
        self.pcs_different += other.pcs_different;
        self.pcs_missing += other.pcs_missing;
        self.pcs_unjudged += other.pcs_unjudged;
        self.unexplained += other.unexplained;
        for (&reason, count) in &other.omitted {
            *self.omitted.entry(reason).or_default() += count;
        }
        for (error, count) in &other.unevaluated {
            *self.unevaluated.entry(error.clone()).or_default() += count;
        }
    }
}

impl Totals {
    /// Records the totals for programs.
    pub fn figures(&self, arch: &str) {
        let number = |name: &str, value, unit| figures::number(arch, name, value, unit);
        number("files", self.files, "files");
        number("files without CFI", self.without_cfi, "files");
        number("files that cannot be read", self.unreadable, "files");
        if self.without_format != 0 || self.functions == 0 {
            return;
        }
        number("bytes of CFI", self.cfi_bytes, "bytes");
        number("bytes of tables", self.table_bytes, "bytes");
        number("functions", self.functions, "functions");
        number("functions in tables", self.converted, "functions");
        number("functions whose CFI is malformed", self.malformed, "functions");
        for (reason, &count) in &self.omitted {
            number(&format!("omitted: {reason}"), count, "functions");
        }
        number("functions whose CFI DWARF does not define", self.undefined, "functions");
        number("those of them in tables", self.undefined_converted, "functions");
        number("PCs compared", self.pcs, "PCs");
        number("PCs that are equal", self.pcs_equal, "PCs");
        number("PCs of omitted functions", self.pcs_missing, "PCs");
        number("PCs that gimli cannot judge", self.pcs_unjudged, "PCs");
        number("PCs that differ", self.pcs_different, "PCs");
        number("functions missing without a reason", self.unexplained, "functions");
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { without_cfi, without_format, unreadable, .. } = self;
        let mut line = |name: &str, count: u64, note: &str| writeln!(f, "{name:<26}{count:>12}  {note}");
        let aside = format!("{without_cfi} without CFI, {unreadable} unreadable");
        line("  files", self.files, &aside)?;
        if *without_format != 0 {
            return line("  not in the format", *without_format, "");
        }
        line("  CFI", self.cfi_bytes, &format!("bytes; tables {} bytes", self.table_bytes))?;
        line("  functions", self.functions, "")?;
        line("  converted", self.converted, "")?;
        line("  omitted", self.omitted.values().sum(), &format!("{} more are malformed", self.malformed))?;
        for (reason, &count) in &self.omitted {
            line("", count, reason)?;
        }
        line("  undefined by DWARF", self.undefined, &format!("{} in tables", self.undefined_converted))?;
        let unevaluated = self.unevaluated.values().sum();
        line("  not evaluated else", unevaluated, &format!("{} in tables", self.unevaluated_converted))?;
        for (error, &count) in &self.unevaluated {
            line("", count, error)?;
        }
        line("  ambiguous or unreadable", self.disputed, "")?;
        line("  PCs", self.pcs, "")?;
        line("    equal", self.pcs_equal, "")?;
        line("    different", self.pcs_different, "")?;
        line("    of omitted functions", self.pcs_missing, "")?;
        line("    unjudged", self.pcs_unjudged, "")?;
        line("  missing without reason", self.unexplained, "")
    }
}
