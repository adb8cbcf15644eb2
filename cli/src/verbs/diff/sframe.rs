//! `diff` of two `.sframe` tables.

use anyhow::Context as _;
use cfipack_roundtrip::{Fault, Options, Table, diff};

use super::{Arguments, same_code};
use crate::io::absent::{self, SFRAME_TABLE};
use crate::io::input::Object;
use crate::report::comparison;
use crate::report::fault::TableNames;
use crate::report::status::Status;

/// Compares A with B.
pub fn compare(a: &Object<'_>, b: &Object<'_>, arguments: &Arguments) -> anyhow::Result<Status> {
    let Arguments { address, address_b, .. } = *arguments;
    let addresses = [address, address_b.or(address)].map(Option::unwrap_or_default);
    let mut sections = Vec::new();
    for (object, address) in [a, b].into_iter().zip(addresses) {
        sections.push(object.sframe_sections(address).with_context(|| object.name.to_string())?);
    }
    let mut tables = Vec::new();
    for (object, sections) in [a, b].into_iter().zip(&sections) {
        let found = object.tables(sections).with_context(|| object.name.to_string())?;
        if found.is_empty() {
            return Err(absent::from_object(object, SFRAME_TABLE)).with_context(|| object.name.to_string());
        }
        tables.push(found);
    }
    same_code::require([a, b], &tables)?;
    let [of_a, of_b] = [0, 1].map(|side: usize| TableNames::from_sections(&tables[side], &sections[side]));
    let arch = tables[0][0].arch();
    of_a.require_arch(&tables[0], arch, &"the first table").with_context(|| a.name.to_string())?;
    of_b.require_arch(&tables[1], arch, &a.name).with_context(|| b.name.to_string())?;
    let diff = diff(&Table::new(&tables[0]), &Table::new(&tables[1]), &Options::default());
    let words =
        |names: &TableNames, faults: &[Fault]| faults.iter().map(|fault| names.words(fault)).collect();
    let faults = [words(&of_a, &diff.faults[0]), words(&of_b, &diff.faults[1])];
    comparison::report([a, b], &diff, &faults, (arch, "functions"), (arguments.names, arguments.json))
}
