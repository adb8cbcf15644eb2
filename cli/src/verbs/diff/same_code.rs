//! Checks that two objects have the same sections of code, so that their tables can be compared.

use std::collections::{HashMap, HashSet};

use anyhow::{Context as _, bail};
use cfipack_container::{File, Kind};
use cfipack_decoder::sframe;
use cfipack_format::Address;
use cfipack_format::widen::ToU64;

use crate::io::input::{Contents, Object};

/// A section of code. Two objects can be compared if their sections of code are equal.
#[derive(PartialEq, Eq)]
struct Code {
    /// The name, with the symbol at the section's start if several sections have the name.
    name: String,
    size: u64,
    /// The address by [`Placement::Apart`](cfipack_container::Placement::Apart). Equal sections have equal addresses.
    address: Address,
}

/// Refuses to compare an object with something else, or objects with sections of code that cannot be matched by name.
pub fn require(objects: [&Object<'_>; 2], tables: &[Vec<sframe::Section<'_>>]) -> anyhow::Result<()> {
    let files = objects.map(|object| match &object.contents {
        Contents::File(file) if file.kind() == Kind::Relocatable => Some(file),
        _ => None,
    });
    let [a, b] = match files {
        [None, None] => return Ok(()),
        [Some(a), Some(b)] => [a, b],
        _ => {
            let [a, b] = objects.map(|object| &object.name);
            bail!("{a} and {b}: a relocatable object can only be compared with another one");
        }
    };
    let mut all = Vec::new();
    for ((object, file), tables) in objects.into_iter().zip([a, b]).zip(tables) {
        all.push(code(file, tables).with_context(|| object.name.to_string())?);
    }
    let [in_a, in_b] = [0, 1].map(|side: usize| &all[side]);
    let differs = (0..in_a.len().max(in_b.len())).find(|&at| in_a.get(at) != in_b.get(at));
    let Some(at) = differs else { return Ok(()) };
    let words = |code: Option<&Code>| match code {
        Some(code) => format!("{} of {:#x} bytes", code.name, code.size),
        None => "none".to_string(),
    };
    let [a, b] = [words(in_a.get(at)), words(in_b.get(at))];
    let reason = if a == b { ", but aligned differently" } else { "" };
    let [name_a, name_b] = objects.map(|object| &object.name);
    bail!("{name_a} and {name_b}: their sections of code differ: {a} in A, {b} in B{reason}")
}

/// Returns the sections of code that have bytes, in the order of the file.
fn code(file: &File<'_>, tables: &[sframe::Section<'_>]) -> anyhow::Result<Vec<Code>> {
    let mut sections = file.code_sections()?;
    sections.retain(|section| !section.bytes.is_empty());
    let indices: HashSet<_> = sections.iter().filter_map(|section| section.index).collect();
    for function in tables.iter().flat_map(sframe::Section::functions).flatten() {
        if let Some(place) = file.locate(function.start())
            && function.size() != 0
            && !indices.contains(&place.section)
        {
            bail!(
                "the function at {}+{:#x} is not in a section of code, so it cannot be matched",
                place.name,
                place.offset
            );
        }
    }
    let symbols = file.symbols()?;
    let mut sharing = HashMap::new();
    sections.iter().for_each(|section| *sharing.entry(&section.name).or_insert(0) += 1);
    let (mut all, mut names) = (Vec::new(), HashSet::new());
    for section in &sections {
        let shares_name = sharing[&section.name] > 1;
        let symbol = symbols.lookup(section.address).filter(|symbol| shares_name && symbol.offset == 0);
        let name = match symbol {
            Some(symbol) => format!("{} <{}>", section.name, symbol.name),
            None => section.name.to_string(),
        };
        if !names.insert(name.clone()) {
            bail!("several sections have the name {name}, and no symbols at their starts distinguish them");
        }
        all.push(Code { name, size: section.bytes.len().to_u64(), address: section.address });
    }
    Ok(all)
}
