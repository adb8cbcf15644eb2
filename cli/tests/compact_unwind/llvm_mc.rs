//! Compares the rows of changed objects with llvm-mc's `-emit-compact-unwind-non-canonical`. That option lifts
//! llvm-mc's restriction to two personalities.

use std::collections::BTreeMap;

use cfipack_container::{CompactUnwind, File};
use cfipack_format::compact_unwind::{Entry, Flags, Mode};
use cfipack_format::{Address, Arch, SectionOffset};
use cfipack_testkit::random::{Random, assert_enough, cases};
use cfipack_tests::encoding_by_cfi::Judge;
use cfipack_tests::reference::Tools;

use super::edited::edited;
use super::programs::Program;

/// Returns the name of the symbol that a row's personality refers to.
fn personality(compact: &CompactUnwind<'_>, row: SectionOffset) -> Option<String> {
    let field = SectionOffset(row.0 + Entry::personality_at(8));
    compact.referent(field).map(|referent| referent.name.clone().into_owned())
}

/// Returns rows by address: encoding without flags, personality and LSDA.
fn rows(file: &File<'_>) -> BTreeMap<Address, (u32, Option<String>, Option<Address>)> {
    let compact = file.as_macho().unwrap().compact_unwind().unwrap();
    let compact = compact.iter();
    let rows = compact.flat_map(|compact| compact.rows.iter().map(move |row| (compact, row)));
    let row = |(compact, row): (&CompactUnwind<'_>, &cfipack_container::CompactUnwindRow)| {
        let encoding = row.encoding.with_flags(Flags::empty());
        let meaning = match encoding.mode(file.arch()) {
            Some(Mode::Dwarf) => return None,
            _ => (encoding.0, personality(compact, row.offset), row.lsda),
        };
        Some((row.function, meaning))
    };
    rows.filter_map(row).collect()
}

#[test]
#[ignore = "needs the reference tools"]
fn rows_of_changed_objects_are_those_of_llvm_mc() {
    let what = "compact-unwind: rows of changed objects, against llvm-mc 23";
    let tools = Tools::find();
    let (seed, count) = cases(what, 8);
    let mut random = Random::new(seed);
    // Counts rows that are equal, rows where llvm-mc is wrong, and rows that only we have.
    let [mut equal, mut wrong, mut more] = [0; 3];
    for number in 0..count {
        let arch = [Arch::Amd64, Arch::Aarch64][number % 2];
        let program = Program::compile(&tools, &mut random, arch, Some("_my_personality"));
        let objects = program.assemble(&tools, &[], ".o");
        let others = program.assemble(&tools, &["-emit-compact-unwind-non-canonical"], "-other.o");
        for (object, other) in objects.iter().zip(&others) {
            let case = format!("program {number}: {arch} {:?} {object}", program.options);
            let (ours, _) = edited(&tools.path(object));
            let theirs = tools.read(other);
            let (ours, theirs) = (File::parse(&ours).unwrap(), File::parse(&theirs).unwrap());
            let sections = ours.call_frame_sections().unwrap();
            // Every function has a row.
            let Some(section) = sections.first() else { continue };
            let eh_frame = &section.section;
            let mut judge = Judge::new(&eh_frame.bytes, eh_frame.address, arch);
            let reader = section.cfi();
            let fdes: BTreeMap<_, _> = cfipack_cfi::Functions::new(&reader)
                .map(|function| function.unwrap())
                .map(|function| (function.key.address(), (function.fde.0, function.size)))
                .collect();
            let (our_rows, mut their_rows) = (rows(&ours), rows(&theirs));
            let code = ours.code_sections().unwrap();
            for (address, row) in our_rows {
                match their_rows.remove(&address) {
                    None => more += 1,
                    Some(their) if their == row => equal += 1,
                    Some(their) => panic!("{case}: {address}: {row:x?}, llvm-mc {their:x?}"),
                }
            }
            for (address, (encoding, ..)) in their_rows {
                let section = code.iter().find(|section| {
                    (section.address.0..section.address.0 + section.bytes.len() as u64).contains(&address.0)
                });
                let section = section.unwrap();
                let (fde, size) = fdes[&address];
                let start = (address.0 - section.address.0) as usize;
                let code = &section.bytes[start..start + size as usize];
                let encoding = cfipack_format::compact_unwind::Encoding(encoding);
                assert!(
                    judge.judge(encoding, fde, code).is_err(),
                    "{case}: {address}: llvm-mc has {encoding}"
                );
                wrong += 1;
            }
        }
    }
    println!("{what}: {equal} equal, {wrong} of llvm-mc are wrong, {more} more");
    assert_enough(equal > 0, equal);
}
