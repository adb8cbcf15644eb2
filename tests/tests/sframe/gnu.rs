//! Compares layout `gnu` with gas 2.47's objects: section bytes and relocations.
//!
//! `docs/gnu-exceptions.md` lists the goldens that differ, with reasons. The list is exact: a listed golden that
//! matches fails the test, and an unlisted one that differs fails it too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cfipack_testkit::gas_errors;
use cfipack_tests::corpora;
use cfipack_tests::gnu::GasObject;

const NOT_CARRIED: &str = "## What `.eh_frame` does not carry";
const WRONG: &str = "## Where gas's row is wrong";
const UNDEFINED: &str = "## Where the CFI has no meaning";

#[test]
fn goldens_are_what_gas_wrote() {
    let (mut different, mut explanations) = (BTreeMap::new(), String::new());
    let goldens = corpora::sframe("gas247");
    for golden in &goldens {
        let object = GasObject::parse(&golden.object).unwrap();
        let Err(why) = object.compare() else { continue };
        explanations += &format!("{}: {why}\n", golden.name);
        // Without CFI there is nothing that gas's table could contradict.
        let report = object.verify_gas();
        let kind = match &report {
            _ if object.call_frames.is_empty() => NOT_CARRIED,
            report if !report.is_true() => WRONG,
            report if report.unjudged_in_table != 0 => UNDEFINED,
            _ => NOT_CARRIED,
        };
        different.insert(golden.name.clone(), kind);
    }
    println!("{} of {} goldens are as gas wrote them", goldens.len() - different.len(), goldens.len());
    println!("{explanations}");
    assert_eq!(different, exceptions(), "left: what differs; right: what docs/gnu-exceptions.md lists");
}

/// The document names exactly the goldens in which gas is wrong. A golden without CFI cannot contradict it.
#[test]
fn errors_of_gas_are_documented() {
    let documented = exceptions();
    let headings: BTreeMap<_, _> = documented
        .iter()
        .map(|(name, &heading)| (name.split_once('/').expect("DIRECTORY/CASE").1, heading))
        .collect();
    let documented: BTreeSet<_> =
        headings.iter().filter(|&(_, &heading)| heading == WRONG).map(|(&name, _)| name).collect();
    let without_cfi = |name: &str| headings.get(name) == Some(&NOT_CARRIED);
    let known = gas_errors::WRONG.iter().map(|&(name, ..)| name).filter(|&name| !without_cfi(name));
    assert_eq!(documented, known.collect(), "left: docs/gnu-exceptions.md; right: testkit/src/gas_errors.rs");
}

/// Returns the goldens in the first column of the document's tables, each with its heading.
fn exceptions() -> BTreeMap<String, &'static str> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gnu-exceptions.md");
    let (mut heading, mut exceptions) = ("", BTreeMap::new());
    for line in std::fs::read_to_string(path).unwrap().lines() {
        heading =
            [NOT_CARRIED, WRONG, UNDEFINED].into_iter().find(|&heading| heading == line).unwrap_or(heading);
        if let Some((name, _)) = line.strip_prefix("| `").and_then(|line| line.split_once('`')) {
            exceptions.insert(name.to_string(), heading);
        }
    }
    exceptions
}
