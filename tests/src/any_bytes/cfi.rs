//! Reads any bytes as CFI. There is no panic, converted tables can be read back, and wherever gimli can evaluate the
//! CFI, the table has the same rows.

use cfipack_cfi::{self as cfi, SectionKind};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Builder, Layout, Options, Parallel};
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Key};
use cfipack_roundtrip::{Table, verify};

use crate::ARCHES;

const ADDRESS: Address = Address(0x1_0000);

/// Converts the input, whose first byte selects options, by every function of the library that accepts CFI.
pub fn cfi(input: &[u8]) {
    let Some((&choice, bytes)) = input.split_first() else { return };
    let arch = ARCHES[usize::from(choice & 3)];
    let kind = if choice & 4 == 0 { SectionKind::EhFrame } else { SectionKind::DebugFrame };
    let options = Options::new()
        .with_layout(if choice & 8 == 0 { Layout::Small } else { Layout::Gnu })
        .with_version(if choice & 16 == 0 { Version::V3 } else { Version::V2 })
        .with_share(choice & 32 == 0)
        .with_merge_functions(if choice & 64 == 0 { 0 } else { 16 });
    let threads = if choice & 128 == 0 { 1 } else { 3 };
    let cfi = cfi::Section::new(kind, bytes, ADDRESS, arch);
    let mut at_once = Builder::new(arch, options).unwrap();
    at_once.push_all(Parallel::new(&cfi, &Threads(threads)), |_| ());
    let mut one_by_one = Builder::new(arch, options).unwrap();
    for function in cfipack_cfi::Functions::new(&cfi) {
        match function {
            Ok(function) => drop(one_by_one.push(&function)),
            Err(_) => one_by_one.note_unread(),
        }
    }
    let [table, again] = [at_once, one_by_one].map(|builder| {
        let section = builder.finish();
        let mut table = vec![0; section.len()];
        section.write(&mut table, ADDRESS, Key::address).map(|written| (table, written.conflicts))
    });
    assert_eq!(table, again, "two ways to convert the same CFI give different tables");
    let Ok((table, _)) = table else { return }; // version 2, and a function too far away
    let table = Section::parse(&table, ADDRESS).expect("what was written can be read");
    table.validate().expect("what was written is valid");
    // Between merged functions the padding has their rows too.
    let padding = if options.merge_functions == 0 { 0 } else { 15 };
    let compare = cfipack_roundtrip::Options::new().with_padding(padding);
    let report = verify(&[cfi], &Table::new(&[table]), &compare);
    // If gimli cannot read an FDE, its PCs are unknown.
    let judged = report.unverified.iter().all(|function| function.function.is_some());
    if judged && !overlap(&cfi) {
        assert_eq!(report.pcs_different, 0, "{:?}", report.differences.first());
    }
}

/// Returns whether two functions overlap. Then readers disagree about which of the two answers.
fn overlap(cfi: &cfi::Section<'_>) -> bool {
    let functions = cfipack_cfi::Functions::new(cfi).flatten();
    let mut ranges: Vec<_> = functions.map(|f| (f.key.0, f.key.0.checked_add(f.size))).collect();
    ranges.sort_unstable();
    ranges.iter().any(|range| range.1.is_none())
        || ranges
            .windows(2)
            .any(|pair| pair[0].1.is_some_and(|end| end > pair[1].0) || pair[0].0 == pair[1].0)
}
