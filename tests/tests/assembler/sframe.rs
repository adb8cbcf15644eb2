//! Compares `.sframe` in layout `gnu` with gas 2.47's, byte for byte and relocations included.

use std::collections::BTreeMap;
use std::path::Path;

use cfipack_assembler::Dialect;
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Rule};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::assembled::{Object, Reference, corpus};
use cfipack_tests::directives::{File, Mode, TARGETS};
use cfipack_tests::reference::Tools;

const NOT_CARRIED: &str = "What `.eh_frame` does not carry";
const FUNCTIONS_PER_FILE: usize = 200;

/// Compares the table of an object with ours.
pub fn compare(object: &Object) -> Result<(), String> {
    let (assembly, errors) = object.assembly(Dialect::Gas);
    if let Some((function, error)) = errors.first() {
        return Err(format!("function {function}: {error}"));
    }
    let (theirs, relocations) = object.section(".sframe");
    let options = Options::new().with_layout(Layout::Gnu);
    let sframe = assembly.sframe(options).map_err(|error| error.to_string())?;
    if assembly.is_empty() && theirs.is_empty() {
        return Ok(());
    }
    let mut ours = vec![0; sframe.section.relocatable_len()];
    sframe.section.write_relocatable(&mut ours).map_err(|error| error.to_string())?;
    if ours != theirs {
        let at = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
        let omitted: Vec<_> = sframe.omitted.iter().map(ToString::to_string).collect();
        return Err(format!(
            "{} bytes, theirs {}; they differ at {at:x?}; omitted: {omitted:?}\nours   {ours:02x?}\ntheirs {theirs:02x?}",
            ours.len(),
            theirs.len()
        ));
    }
    let kind = match object.arch {
        Arch::Amd64 => 24,                      // R_X86_64_PC64
        Arch::Aarch64 | Arch::Aarch64Be => 260, // R_AARCH64_PREL64
        _ => 23,                                // R_390_PC64
    };
    let ours: Vec<Reference> = sframe
        .section
        .start_fields()
        .map(|start| {
            let (section, offset) = object.start(start.function);
            (start.field.0 as u64, kind, section, offset + start.offset as i64)
        })
        .collect();
    if ours == relocations { Ok(()) } else { Err(format!("relocations {ours:?}, theirs {relocations:?}")) }
}

/// Random functions for which gas's table is right.
#[test]
#[ignore = "needs the reference tools"]
fn random_functions_are_what_gas_writes() {
    random_functions(".sframe of directives against gas", Mode::Clean);
}

/// The same, with directives that have no counterpart in `.eh_frame`.
#[test]
#[ignore = "needs the reference tools"]
fn what_the_cfi_does_not_carry_is_what_gas_writes() {
    random_functions(".sframe of alignments, escapes and labels against gas", Mode::Directives);
}

/// Compares with gas 2.44, which writes version 2. Index and rows must be the same bytes. The header lacks a flag, because
/// gas 2.44's starts count from the section. Left out are functions that gas or cfipack omits, and functions with rows that
/// gas 2.44 gets wrong: one remembered state, undefined return addresses, frame pointers with the same value.
#[test]
#[ignore = "needs the reference tools"]
fn random_functions_have_the_rows_of_gas_2_44_in_version_2() {
    const FUNCTIONS: usize = 60;
    const FLAGS: usize = 3;
    /// gas 2.44 makes no row for `.cfi_offset` of the return address on x86-64.
    const DIFFERENT: [&str; 5] =
        [".cfi_restore", ".cfi_escape", ".cfi_undefined", ".cfi_same_value", ".cfi_offset 16,"];
    let what = ".sframe 2 of directives against gas 2.44";
    let tools = Tools::find();
    let tools = tools.older();
    let (seed, count) = cases(what, 2);
    let mut random = Random::new(seed);
    let options = Options::new().with_layout(Layout::Gnu).with_version(Version::V2);
    let mut compared = 0;
    for target in TARGETS.into_iter().filter(|target| target.arch != Arch::S390x) {
        for _ in 0..count {
            for function in File::random(&mut random, target, Mode::Clean, FUNCTIONS).functions {
                let text = File { functions: vec![function] }.text();
                if DIFFERENT.iter().any(|name| text.contains(name)) {
                    continue;
                }
                let command = [target.assembler, "--gsframe"];
                let Ok(object) = Object::assemble(&tools, &text, target.arch, &command) else { continue };
                let (theirs, _) = object.section(".sframe");
                if theirs.get(8..12).is_none_or(|functions| functions == [0; 4]) {
                    continue;
                }
                let sframe = object.assembly(Dialect::Gas).0.sframe(options).unwrap();
                if !sframe.omitted.is_empty() {
                    continue;
                }
                let mut ours = vec![0; sframe.section.relocatable_len()];
                sframe.section.write_relocatable(&mut ours).unwrap();
                ours[FLAGS] = 0;
                if has_least_offset(&ours) {
                    continue;
                }
                assert_eq!(ours, theirs, "{:?}\n{text}", target.arch);
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared}");
}

/// Returns whether a row has the least offset that fits a word's size: gas 2.44 then takes wider words. One directive
/// can name that offset, or several directives can add up to it.
fn has_least_offset(table: &[u8]) -> bool {
    let table = Section::parse(table, Address(0)).unwrap();
    let mut rows = table.functions().flat_map(|function| function.unwrap().rows()).map(Result::unwrap);
    rows.any(|row| {
        let base = match row.cfa {
            Cfa::Register { offset, .. } => Some(offset),
            _ => None,
        };
        let stored = [row.return_address, row.frame_pointer].map(|rule| match rule {
            Rule::Cfa(offset) => Some(offset),
            _ => None,
        });
        stored.into_iter().chain([base]).flatten().any(|offset| [-128, -32768].contains(&offset))
    })
}

fn random_functions(what: &str, mode: Mode) {
    let tools = Tools::find();
    let (seed, count) = cases(what, 5);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for number in 0..count {
            let file = File::random(&mut random, target, mode, FUNCTIONS_PER_FILE);
            let compare = |file: &File| {
                let command = [target.assembler, "--gsframe"];
                compare(&Object::assemble(&tools, &file.text(), target.arch, &command).unwrap())
            };
            let Err(why) = compare(&file) else { continue };
            for function in file.functions {
                let alone = File { functions: vec![function] };
                if let Err(why) = compare(&alone) {
                    panic!("{:?}, file {number}: {why}\n{}", target.arch, alone.text());
                }
            }
            panic!("{:?}, file {number}, in no function alone: {why}", target.arch);
        }
    }
}

/// Layout `gnu` differs from gas exactly in the cases that docs/gnu-exceptions.md lists. Cases that differ only because
/// `.eh_frame` loses something are no exceptions here: directives keep it.
#[test]
#[ignore = "needs the reference tools"]
fn goldens_are_what_gas_writes() {
    let tools = Tools::find();
    let mut different = BTreeMap::new();
    for case in corpus() {
        // `.cfi_val_encoded_addr` is not among our directives.
        if case.name == "x86_64/x_val_encoded" {
            continue;
        }
        let command: Vec<_> = case.command.iter().map(String::as_str).collect();
        let object = Object::assemble(&tools, &case.text, case.arch, &command).expect(&case.name);
        if let Err(why) = compare(&object) {
            different.insert(case.name, why);
        }
    }
    let names: Vec<_> = different.keys().map(String::as_str).collect();
    assert_eq!(names, exceptions(), "{different:#?}");
}

fn exceptions() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/gnu-exceptions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let sections = text.split("\n## ").filter(|section| !section.starts_with(NOT_CARRIED));
    let names = sections
        .flat_map(str::lines)
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()));
    // In this case gas's table has more than the `.debug_frame` beside it.
    let mut names: Vec<_> = names.filter(|name| name != "aarch64/a_key_b_debug_frame").collect();
    names.sort();
    names
}
