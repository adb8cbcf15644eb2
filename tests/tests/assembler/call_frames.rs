//! Compares `.eh_frame` and `.debug_frame` with gas 2.47's and llvm-mc 23's, byte for byte and relocations included.

use std::collections::BTreeMap;

use cfipack_assembler::Dialect;
use cfipack_format::Arch;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::assembled::{Object, corpus};
use cfipack_tests::directives::{File, Mode, TARGETS};
use cfipack_tests::reference::Tools;

const FUNCTIONS_PER_FILE: usize = 200;

/// Compares both sections of an object with ours.
fn compare(object: &Object, dialect: Dialect) -> Result<(), String> {
    let (assembly, errors) = object.assembly(dialect);
    if let Some((function, error)) = errors.first() {
        return Err(format!("function {function}: {error}"));
    }
    let sections = object.source.sections.as_deref().unwrap_or(".eh_frame");
    for name in [".eh_frame", ".debug_frame"] {
        if sections.contains(name) {
            let ours = if name == ".eh_frame" { assembly.eh_frame() } else { assembly.debug_frame() };
            object.compare(name, &ours.map_err(|error| error.to_string())?)?;
        }
    }
    Ok(())
}

fn random_programs(what: &str, dialect: Dialect, command: impl Fn(Arch, &'static str) -> Vec<&'static str>) {
    let tools = Tools::find();
    let (seed, count) = cases(what, 5);
    let mut random = Random::new(seed);
    let mut omitted = 0;
    for target in TARGETS {
        for number in 0..count {
            let mut file = File::random(&mut random, target, Mode::Wild, FUNCTIONS_PER_FILE);
            let command = command(target.arch, target.assembler);
            let mut object = assemble(&tools, &file, target.arch, &command);
            let (_, errors) = object.assembly(dialect);
            if !errors.is_empty() {
                // Functions that we refuse have no expected bytes, so they are removed from the text.
                let refused: Vec<_> = errors.iter().map(|&(function, _)| function).collect();
                let mut number = 0..;
                file.functions.retain(|_| !refused.contains(&number.next().unwrap()));
                omitted += refused.len();
                object = assemble(&tools, &file, target.arch, &command);
            }
            if let Err(why) = compare(&object, dialect) {
                panic!("{:?}, file {number}: {why}\n{}", target.arch, file.text());
            }
        }
    }
    println!("{omitted} functions refused");
    // After a restored state, LLVM forgets the offset that relative offsets count from, and cuts the results.
    assert!(omitted * 100 <= if dialect == Dialect::Llvm { 600 * count } else { 0 });
}

fn assemble(tools: &Tools, file: &File, arch: Arch, command: &[&str]) -> Object {
    let text = format!("\t.cfi_sections .eh_frame, .debug_frame\n{}", file.text());
    Object::assemble(tools, &text, arch, command).unwrap()
}

#[test]
#[ignore = "needs the reference tools"]
fn random_functions_are_what_gas_writes() {
    random_programs("CFI of directives against gas", Dialect::Gas, |_, assembler| vec![assembler]);
}

#[test]
#[ignore = "needs the reference tools"]
fn random_functions_are_what_llvm_mc_writes() {
    random_programs("CFI of directives against llvm-mc", Dialect::Llvm, |arch, _| {
        vec!["llvm-mc-23", "-filetype=obj", triple(arch)]
    });
}

fn triple(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "-triple=x86_64-linux-gnu",
        Arch::Aarch64 => "-triple=aarch64-linux-gnu",
        Arch::Aarch64Be => "-triple=aarch64_be-linux-gnu",
        _ => "-triple=s390x-linux-gnu",
    }
}

/// Offsets that are no multiple of a unit of CFI. No CFI can represent them, and assemblers cut them.
const CUT: [&str; 2] = ["aarch64/a_unaligned", "x86_64/x_cfa_m3"];
/// Data in `.eh_frame` is no directive. `.cfi_val_encoded_addr` is not among our directives, and no compiler writes it.
const UNKNOWN: [&str; 2] = ["x86_64/x_eh_frame_by_hand", "x86_64/x_val_encoded"];

#[test]
#[ignore = "needs the reference tools"]
fn goldens_are_what_gas_writes() {
    let tools = Tools::find();
    let mut different = BTreeMap::new();
    for case in corpus().into_iter().filter(|case| !UNKNOWN.contains(&&*case.name)) {
        let command: Vec<_> = case.command.iter().map(String::as_str).collect();
        let object = Object::assemble(&tools, &case.text, case.arch, &command).expect(&case.name);
        if let Err(why) = compare(&object, Dialect::Gas) {
            different.insert(case.name, why);
        }
    }
    let names: Vec<_> = different.keys().map(String::as_str).collect();
    assert_eq!(names, CUT, "{different:#?}");
}

/// The same for objects of llvm-mc.
#[test]
#[ignore = "needs the reference tools"]
fn goldens_are_what_llvm_mc_writes() {
    let tools = Tools::find();
    let (mut different, mut same) = (BTreeMap::new(), 0);
    for case in corpus().into_iter().filter(|case| !UNKNOWN.contains(&&*case.name)) {
        // Only gas has this operand.
        if case.text.contains(".cfi_sections .sframe") {
            continue;
        }
        let command = ["llvm-mc-23", "-filetype=obj", triple(case.arch)];
        let Ok(object) = Object::assemble(&tools, &case.text, case.arch, &command) else { continue };
        match compare(&object, Dialect::Llvm) {
            Ok(()) => same += 1,
            Err(why) => _ = different.insert(case.name, why),
        }
    }
    println!("{same} goldens are what llvm-mc writes");
    let names: Vec<_> = different.keys().map(String::as_str).collect();
    assert_eq!(names, CUT, "{different:#?}");
    assert!(same > 200);
}
