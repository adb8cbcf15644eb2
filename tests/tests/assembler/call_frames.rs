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
    let Some(tools) = Tools::find(what) else { return };
    let (seed, count) = cases(what, 12);
    let mut random = Random::new(seed);
    let mut left_out = 0;
    for target in TARGETS {
        for number in 0..count {
            let mut file = File::random(&mut random, target, Mode::Wild, FUNCTIONS_PER_FILE);
            let command = command(target.arch, target.assembler);
            let mut object = assemble(&tools, &file, target.arch, &command);
            let (_, errors) = object.assembly(dialect);
            if !errors.is_empty() {
                // Nothing to compare with: what is refused is left out of the text.
                let refused: Vec<_> = errors.iter().map(|&(function, _)| function).collect();
                let mut number = 0..;
                file.functions.retain(|_| !refused.contains(&number.next().unwrap()));
                left_out += refused.len();
                object = assemble(&tools, &file, target.arch, &command);
            }
            if let Err(why) = compare(&object, dialect) {
                panic!("{:?}, file {number}: {why}\n{}", target.arch, file.text());
            }
        }
    }
    println!("{left_out} functions refused");
    // LLVM forgets to restore the offset that others are relative to, and cuts what becomes of them.
    assert!(left_out * 100 <= if dialect == Dialect::Llvm { 600 * count } else { 0 });
}

fn assemble(tools: &Tools, file: &File, arch: Arch, command: &[&str]) -> Object {
    let text = format!("\t.cfi_sections .eh_frame, .debug_frame\n{}", file.text());
    Object::assemble(tools, &text, arch, command).unwrap()
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
