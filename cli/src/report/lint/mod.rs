//! The report of `lint` in JSON.
//!
//! - `known` has findings that are not reported: baselines, and files of findings to ignore.
//! - `sarif` writes findings for code hosts.

pub mod known;
pub mod sarif;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use cfipack_code::Kind;
use cfipack_format::Address;
use cfipack_lint::records::{RecordFinding, RecordKind};
use cfipack_lint::{Found, SourceLine};
use serde::Serialize;

use crate::io::debug_file::DebugFileJson;
use crate::report::escaped::{Escaped, FileName};
use crate::report::excluded::Excluded;
use crate::report::place::Places;
use crate::report::symbol::SymbolName;

/// The report about an object, as `cfipack/lint/1`.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LintReport {
    pub schema: &'static str,
    pub file: FileName,
    /// The number of functions of which every instruction was compared.
    pub decided: u64,
    /// The number of functions of which some instructions could not be compared.
    pub undecided: u64,
    /// The number of functions with findings.
    pub wrong: u64,
    /// The number of instructions whose row is right.
    pub instructions: u64,
    /// The number of undecided functions for each reason.
    pub reasons: BTreeMap<&'static str, u64>,
    /// The first undecided functions of each reason.
    pub examples: Vec<String>,
    /// True if only the rows at calls were judged. This is so with `--calls-only`, and for a file with CFI that is exact
    /// at calls only.
    pub calls_only: bool,
    /// False if the file has no CFI.
    pub has_cfi: bool,
    /// The number of findings that the baseline has. They are not listed.
    pub known: u64,
    /// The number of findings that a line of `--ignore` matches. They are not listed.
    pub ignored: u64,
    /// The number of FDEs that describe no function of their own, by reason. They are not compared.
    pub excluded: Excluded,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_file: Option<DebugFileJson>,
    pub findings: Vec<LintFinding>,
}

/// A place where the CFI contradicts the code, or where its records are wrong.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LintFinding {
    /// The address of the instruction, or in an object the section and the offset in it.
    pc: String,
    #[serde(flatten)]
    symbol: SymbolName,
    /// The start of the function.
    function: String,
    kind: &'static str,
    /// The text of the instruction. Null for a finding about a record.
    instruction: Option<String>,
    /// The rule of the row for the CFA. Null for a finding about a record.
    row: Option<String>,
    /// The section of the record and the offset in it. Null for a finding about an instruction, and if the record is
    /// missing.
    record: Option<String>,
    words: String,
    /// The first PC of the range for which the row is wrong.
    wrong_start: String,
    /// The end of the range: the first PC that is not in it.
    wrong_end: String,
    /// The line of the source. Null if the file has no line table.
    source: Option<Source>,
    /// The fingerprint is the same for the same finding in another build, if the function's code is the same.
    fingerprint: String,
    #[serde(skip)]
    address: Address,
    /// The symbol of the function's start.
    #[serde(skip)]
    name: SymbolName,
}

/// A line of a source file.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Source {
    /// The path, as the line table has it.
    file: String,
    /// The number of the line, from 1.
    line: u64,
}

impl LintFinding {
    /// Describes a finding in the function at `start` of the file `name`. `instruction` is the instruction's text.
    pub fn new(
        name: &FileName,
        start: Address,
        found: &Found,
        instruction: String,
        places: &Places<'_, '_>,
    ) -> Self {
        let Found { pc, ref cfa, ref finding, .. } = *found;
        let wrong = start.offset(finding.wrong.0.into())..start.offset(finding.wrong.1.into());
        let mnemonic = instruction.split_whitespace().next().unwrap_or_default().to_owned();
        let mut new = Self::at(places, start, pc, wrong, finding.kind.name(), finding.words.clone());
        new.fingerprint = new.fingerprint_in(name, start, &mnemonic, places);
        Self { instruction: Some(instruction), row: Some(cfa.clone()), ..new }
    }

    /// Describes a fault in the records of the file `name`.
    pub fn of_record(name: &FileName, found: &RecordFinding, places: &Places<'_, '_>) -> Self {
        let RecordFinding { kind, function, wrong, record, words, .. } = found;
        let mut new = Self::at(places, *function, wrong.start, wrong.clone(), kind.name(), words.clone());
        new.fingerprint = new.fingerprint_in(name, *function, "", places);
        new.record = record.as_ref().map(|(section, offset)| format!("{section}+{offset:#x}"));
        new
    }

    fn at(
        places: &Places<'_, '_>,
        start: Address,
        pc: Address,
        wrong: Range<Address>,
        kind: &'static str,
        words: String,
    ) -> Self {
        Self {
            pc: places.location(pc),
            symbol: places.symbol(pc),
            function: places.location(start),
            kind,
            words,
            wrong_start: places.location(wrong.start),
            wrong_end: places.location(wrong.end),
            address: pc,
            name: places.symbol_at(start),
            ..Self::default()
        }
    }

    fn fingerprint_in(
        &self,
        name: &FileName,
        start: Address,
        mnemonic: &str,
        places: &Places<'_, '_>,
    ) -> String {
        let name = name.as_is();
        let file = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
        let own = self.name.linkage().map_or_else(|| places.location(start), str::to_owned);
        fingerprint(&[file.as_deref().unwrap_or(name), &own, self.kind, mnemonic, &self.words])
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Adds the line of the source.
    pub fn set_source(&mut self, source: Option<SourceLine>) {
        self.source = source.map(|SourceLine { path: file, line }| Source { file, line });
    }

    /// Returns the place and the kind.
    pub fn heading(&self) -> String {
        let source = self.source.as_ref();
        let source = source.map(|source| format!(" at {}:{}", Escaped(&source.file), source.line));
        format!(
            "{}{}{}: {}",
            Escaped(&self.pc),
            self.symbol.in_angles(),
            source.unwrap_or_default(),
            self.kind
        )
    }

    /// Returns the text of the instruction, or the place of the record.
    pub fn subject(&self) -> &str {
        self.instruction.as_deref().or(self.record.as_deref()).unwrap_or("no record")
    }

    /// Returns the description: the CFA of the row, and the effect of the code.
    pub fn words(&self) -> &str {
        &self.words
    }
}

/// Returns the name of every kind of finding, and a sentence that describes the kind.
pub fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_code = Kind::ALL.into_iter().map(|kind| (kind.name(), kind.sentence()));
    of_code.chain(RecordKind::ALL.into_iter().map(|kind| (kind.name(), kind.sentence())))
}

/// Returns the FNV-1a hash of texts, as 16 digits.
fn fingerprint(parts: &[&str]) -> String {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
