//! The report of `lint` in JSON and SARIF, and baselines.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::Context as _;
use cfipack_code::Kind;
use cfipack_format::Address;
use cfipack_lint::Found;
use serde::Serialize;
use serde_json::{Value, json};

use crate::io::debug_file::DebugFileJson;
use crate::report::excluded::Excluded;
use crate::report::place::Places;
use crate::report::symbol::SymbolName;

/// The report about an object, as `cfipack/lint/1`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LintReport {
    pub schema: &'static str,
    pub file: String,
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
    /// The number of findings that the baseline has. They are not listed.
    pub known: u64,
    /// The number of FDEs that describe no function of their own, by reason. They are not compared.
    pub excluded: Excluded,
    /// The separate debug file that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_file: Option<DebugFileJson>,
    pub findings: Vec<LintFinding>,
}

/// A place where a row of the CFI contradicts the code.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LintFinding {
    /// The address of the instruction, or in an object the section and the offset in it.
    pc: String,
    #[serde(flatten)]
    symbol: SymbolName,
    /// The start of the function.
    function: String,
    kind: &'static str,
    instruction: String,
    /// The rule of the row for the CFA.
    row: String,
    words: String,
    /// The first PC of the range for which the row is wrong.
    wrong_start: String,
    /// The end of the range: the first PC that is not in it.
    wrong_end: String,
    /// The fingerprint is the same for the same finding in another build, if the function's code is the same.
    fingerprint: String,
    #[serde(skip)]
    address: u64,
}

impl LintFinding {
    /// Describes a finding in the function at `start` of the file `name`. `instruction` is the instruction's text.
    pub fn new(
        name: &str,
        start: Address,
        found: &Found,
        instruction: String,
        places: &Places<'_, '_>,
    ) -> Self {
        let finding = &found.finding;
        let function = places.symbol_at(start);
        let kind = finding.kind.name();
        let file = Path::new(name).file_name().map(|name| name.to_string_lossy().into_owned());
        let own = function.linkage().map_or_else(|| places.location(start), str::to_owned);
        let mnemonic = instruction.split_whitespace().next().unwrap_or_default();
        let parts = [file.as_deref().unwrap_or(name), &own, kind, mnemonic, &finding.words];
        Self {
            pc: places.location(found.pc),
            symbol: places.symbol(found.pc),
            function: places.location(start),
            kind,
            row: found.cfa.clone(),
            words: finding.words.clone(),
            wrong_start: places.location(start.offset(finding.wrong.0.into())),
            wrong_end: places.location(start.offset(finding.wrong.1.into())),
            fingerprint: fingerprint(&parts),
            address: found.pc.0,
            instruction,
        }
    }

    /// Returns the place and the kind.
    pub fn heading(&self) -> String {
        format!("{}{}: {}", self.pc, self.symbol.in_angles(), self.kind)
    }

    /// Returns the text of the instruction.
    pub fn instruction(&self) -> &str {
        &self.instruction
    }

    /// Returns the description: the CFA of the row, and the effect of the code.
    pub fn words(&self) -> &str {
        &self.words
    }
}

/// Returns the FNV-1a hash of texts, as 16 digits.
fn fingerprint(parts: &[&str]) -> String {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Known findings: the number of findings with each fingerprint.
#[derive(Debug, Default)]
pub struct Baseline(HashMap<String, u64>);

impl Baseline {
    /// Reads reports of `lint --json`, one on each line.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut known = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let report: Value = serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
            let findings = report["findings"].as_array();
            let findings =
                findings.with_context(|| format!("line {}: no report of lint --json", number + 1))?;
            for finding in findings {
                let fingerprint = finding["fingerprint"].as_str().unwrap_or_default();
                *known.entry(fingerprint.to_owned()).or_default() += 1;
            }
        }
        Ok(Self(known))
    }

    /// Returns whether a finding is known, and removes it once from the baseline.
    pub fn takes(&mut self, finding: &LintFinding) -> bool {
        match self.0.get_mut(&finding.fingerprint) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

/// A log in the Static Analysis Results Interchange Format, version 2.1.0 (OASIS).
#[derive(Debug, Default)]
pub struct Sarif {
    results: Vec<Value>,
}

impl Sarif {
    /// Adds the findings of a file.
    pub fn add(&mut self, file: &str, findings: &[LintFinding]) {
        self.results.extend(findings.iter().map(|finding| {
            let name = finding.symbol.linkage().unwrap_or(&finding.pc);
            json!({
                "ruleId": finding.kind,
                "level": "warning",
                "message": { "text": format!("{}: {}", finding.instruction, finding.words) },
                "locations": [{
                    "physicalLocation": {
                        "artifactLocation": { "uri": file },
                        "address": { "absoluteAddress": finding.address, "fullyQualifiedName": name },
                    },
                    "logicalLocations": [{ "fullyQualifiedName": name, "kind": "function" }],
                }],
                "partialFingerprints": { "cfipack/1": finding.fingerprint },
            })
        }));
    }

    /// Returns the log in SARIF 2.1.0.
    pub fn log(self) -> Value {
        let rules = Kind::ALL
            .map(|kind| json!({ "id": kind.name(), "shortDescription": { "text": kind.sentence() } }));
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "cfi2sframe lint",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                } },
                "results": self.results,
            }],
        })
    }
}
