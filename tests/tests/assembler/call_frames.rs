//! `.eh_frame` and `.debug_frame` against gas 2.47's and llvm-mc 23's, byte for byte, relocations included.

use cfipack_assembler::Dialect;
use cfipack_format::Arch;
use cfipack_tests::assembled::Object;
use cfipack_tests::directives::{File, Mode, TARGETS};
use cfipack_tests::random::{Random, cases};
use cfipack_tests::reference::Tools;

const FUNCTIONS_PER_FILE: usize = 200;

/// Compares both sections of an object with ours.
fn compare(object: &Object, dialect: Dialect) -> Result<(), String> {
    let (assembly, errors) = object.assembly(dialect);
    if let Some(error) = errors.first() {
        return Err(error.clone());
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
    let Some(tools) = Tools::find(what) else { return };
    let (seed, count) = cases(what, 12);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for number in 0..count {
            let file = File::random(&mut random, target, Mode::Wild, FUNCTIONS_PER_FILE);
            let text = format!("\t.cfi_sections .eh_frame, .debug_frame\n{}", file.text());
            let command = command(target.arch, target.assembler);
            let object = Object::assemble(&tools, &text, target.arch, &command).unwrap();
            if let Err(why) = compare(&object, dialect) {
                std::fs::write("/tmp/failed.s", &text).unwrap();
                panic!("{:?}, file {number}: {why}", target.arch);
            }
        }
    }
}

#[test]
fn random_functions_are_what_gas_writes() {
    random_programs("CFI of directives against gas", Dialect::Gas, |_, assembler| vec![assembler]);
}

#[test]
fn random_functions_are_what_llvm_mc_writes() {
    random_programs("CFI of directives against llvm-mc", Dialect::Llvm, |arch, _| {
        let triple = match arch {
            Arch::Amd64 => "-triple=x86_64-linux-gnu",
            Arch::Aarch64 => "-triple=aarch64-linux-gnu",
            _ => "-triple=s390x-linux-gnu",
        };
        vec!["llvm-mc-23", "-filetype=obj", triple]
    });
}
