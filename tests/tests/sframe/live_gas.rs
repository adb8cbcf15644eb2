//! Compares tables of gas 2.47 with cfipack's, for random directives.

use std::collections::{BTreeMap, BTreeSet};

use cfipack_format::Address;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::convert::{all_options, cfi_of, convert};
use cfipack_tests::directives::{File, Mode, TARGETS, Target};
use cfipack_tests::gnu::{self, GasObject};
use cfipack_tests::reference::Tools;

const FUNCTIONS_PER_FILE: usize = 200;

fn each_object(what: &str, mode: Mode, mut check: impl FnMut(Target, &File, &GasObject<'_>)) {
    let tools = Tools::find();
    let (seed, count) = cases(what, 12);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for number in 0..count {
            let file = File::random(&mut random, target, mode, FUNCTIONS_PER_FILE);
            tools.write("f.s", file.text());
            tools.run_well(&[target.assembler, "--gsframe", "f.s", "-o", "f.o"]);
            let bytes = tools.read("f.o");
            println!("{:?}, file {number}", target.arch);
            check(target, &file, &GasObject::parse(&bytes).unwrap());
        }
        println!("{:?}: {} functions", target.arch, count * FUNCTIONS_PER_FILE);
    }
}

/// Where gas is right, layout `gnu` gives gas's section, bytes and relocations.
#[test]
#[ignore = "needs the reference tools"]
fn clean_functions_are_what_gas_writes() {
    each_object("layout gnu against gas, clean functions", Mode::Clean, |_, file, object| {
        if let Err(why) = object.compare() {
            let differing = functions_that_differ(object, &BTreeSet::new());
            let names: Vec<_> = differing.iter().map(|&start| function_at(object, file, start)).collect();
            panic!("{why}\n{}", names.concat());
        }
        let report = object.verify_gas();
        assert!(report.is_true(), "gas is wrong in a clean function: {}", report.differences[0]);
    });
}

/// Here gas may be wrong. Functions with right rows in gas's table are the same in layout `gnu`. Functions that gas
/// omits are omitted there too.
#[test]
#[ignore = "needs the reference tools"]
fn wild_functions_are_what_gas_writes_where_gas_is_right() {
    let (mut right, mut wrong) = (0, 0);
    each_object("layout gnu against gas, wild functions", Mode::Wild, |_, file, object| {
        let report = object.verify_gas();
        let gas_wrong: BTreeSet<_> =
            report.differences.iter().filter_map(|difference| difference.function).collect();
        let differing = functions_that_differ(object, &gas_wrong);
        let texts = differing.iter().map(|&start| function_at(object, file, start));
        let texts: Vec<_> = texts.filter(|text| !right_by_chance(text)).collect();
        assert!(
            texts.is_empty(),
            "{} functions differ though gas is right:\n{}",
            texts.len(),
            texts.concat()
        );
        wrong += gas_wrong.len();
        right += file.functions.len() - gas_wrong.len();
    });
    println!("gas is wrong about {wrong} functions, and right about {right} or leaves them out");
}

/// gas ignores `.cfi_restore 16` on x86-64. It also writes rows with too narrow words, and cuts the return address's
/// offset to -8. Then the row is right by chance.
fn right_by_chance(function: &str) -> bool {
    let offset = |line: &str| line.strip_prefix("\t.cfi_offset 16,")?.parse::<i64>().ok();
    let mut offsets = function.lines().filter_map(offset);
    function.contains(".cfi_restore 16\n") && offsets.any(|offset| offset != -8 && offset as i8 == -8)
}

/// In both layouts and versions, every table has the rows of the CFI.
#[test]
#[ignore = "needs the reference tools"]
fn tables_of_wild_functions_are_true() {
    each_object("tables of gas's CFI", Mode::Wild, |target, file, object| {
        let cfi = cfi_of(&object.call_frames);
        for options in all_options() {
            let converted = convert(&cfi, target.arch, Address(0x100_0000), options);
            assert!(converted.malformed.is_empty());
            let report = converted.verify(&cfi);
            if let Some(difference) = report.differences.first() {
                let text = function_at(object, file, difference.function.unwrap_or(difference.start));
                panic!("{options:?}: {difference}\n{text}");
            }
            assert!(report.is_true(), "{options:?}: {report:?}");
            // Every missing function was reported as unsupported.
            assert_eq!(report.unexplained, 0, "{options:?}: {:?}", report.unverified);
        }
    });
}

/// Returns functions with another attribute or other FREs than gas's, except those in `except`.
fn functions_that_differ(object: &GasObject<'_>, except: &BTreeSet<Address>) -> Vec<Address> {
    let theirs = object.table.as_ref().expect("gas wrote a table");
    let ours = convert(&cfi_of(&object.call_frames), object.file.arch(), theirs.address, gnu::OPTIONS);
    let ours = blocks(&ours.bytes, theirs.address);
    let theirs = blocks(&theirs.bytes, theirs.address);
    let starts: BTreeSet<_> = ours.keys().chain(theirs.keys()).copied().collect();
    let differ = |start: &Address| !except.contains(start) && ours.get(start) != theirs.get(start);
    let differing: Vec<_> = starts.into_iter().filter(differ).collect();
    for start in differing.iter().take(3) {
        println!("{start}: ours {:x?}\n  gas's {:x?}", ours.get(start), theirs.get(start));
    }
    differing.into_iter().take(3).collect()
}

/// Returns size, attribute and FREs of functions, by their starts.
fn blocks(table: &[u8], address: Address) -> BTreeMap<Address, Vec<(u32, &[u8])>> {
    let mut blocks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let section = cfipack_decoder::sframe::Section::parse(table, address).unwrap();
    for function in section.functions() {
        let function = function.unwrap();
        blocks.entry(function.start()).or_default().push((function.size(), function.fre_bytes().unwrap()));
    }
    // gas keeps the source's order, linked tables are sorted. Functions of size 0 have equal starts.
    blocks.values_mut().for_each(|list| list.sort());
    blocks
}

/// Returns the text of the function at an address.
fn function_at(object: &GasObject<'_>, file: &File, start: Address) -> String {
    let symbols = object.file.symbols().unwrap();
    let name = symbols.lookup(start).map_or("(no symbol)".into(), |symbol| format!("{}", symbol.name));
    let text = file.functions.iter().find(|text| text.contains(&format!("\n{name}:\n")));
    text.cloned().unwrap_or(name)
}
