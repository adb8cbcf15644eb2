//! What compilers write, with real instructions, as gas lists it.

use std::path::Path;
use std::process::Command;

use cfipack_format::Arch;
use cfipack_testkit::needs;
use cfipack_tests::reference::Tools;

use super::{LISTING, assemble, read};

const OPTIONS: [&[&str]; 5] = [
    &["-O0"],
    &["-O2"],
    &["-O3", "-ffunction-sections", "-g"],
    &["-Os", "-fno-omit-frame-pointer"],
    &["-O2", "-fno-asynchronous-unwind-tables", "-fexceptions", "-masm=intel"],
];

fn source(name: &str) -> String {
    format!("{}/tests/assembler/text/sources/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The output of the machine's compiler.
fn compiled(compiler: &str, name: &str, options: &[&str]) -> String {
    let output = Command::new(compiler).args(options).args(["-S", "-o", "-"]).arg(source(name)).output();
    let output = output.unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(
        output.status.success(),
        "{compiler} {options:?} {name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check(tools: &Tools, what: &str, arch: Arch, text: &str, command: &[&str]) -> usize {
    let (object, listing) = assemble(tools, text, command);
    let unit = read(arch, &listing, Some(text.as_bytes())).unwrap_or_else(|why| panic!("{what}: {why}"));
    object.compare(&unit).unwrap_or_else(|why| panic!("{what}: {why}"));
    assert!(unit.functions.iter().all(|function| function.name.is_some()), "{what}: a function has no name");
    // What the machine's other options list: with page headers, or narrower, is right or an error.
    for options in [&["-al=f.lst"] as &[&str], &["-alm=f.lst", "--listing-rhs-width=60"]] {
        tools.run_well(&[command, options, &["f.s", "-o", "g.o"]].concat());
        if let Ok(unit) = read(arch, &tools.read("f.lst"), None)
            && options.len() == 1
        {
            object.compare(&unit).unwrap_or_else(|why| panic!("{what}, {options:?}: {why}"));
        }
    }
    unit.functions.len()
}

#[test]
#[ignore = "needs the reference tools and g++"]
fn listings_of_gcc_output_are_what_gas_writes() {
    needs::program("g++", "g++");
    let tools = Tools::find();
    let mut functions = 0;
    for options in OPTIONS {
        for (compiler, name) in [("gcc", "plain.c"), ("g++", "objects.cpp")] {
            let text = compiled(compiler, name, options);
            let what = format!("{compiler} {options:?} {name}");
            functions += check(&tools, &what, Arch::Amd64, &text, &["as", "--gsframe"]);
        }
    }
    println!("{functions} functions");
}

/// Directives that clang writes only for its own assembler are in none of its output for another one.
#[test]
#[ignore = "needs the reference tools"]
fn listings_of_clang_output_are_what_gas_writes() {
    let tools = Tools::find();
    tools.write("plain.c", std::fs::read(Path::new(&source("plain.c"))).unwrap());
    let targets = [
        (Arch::Amd64, "--target=x86_64-linux-gnu", "as"),
        (Arch::Aarch64, "--target=aarch64-linux-gnu", "aarch64-linux-gnu-as"),
        (Arch::S390x, "--target=s390x-linux-gnu", "s390x-linux-gnu-as"),
    ];
    for (arch, triple, assembler) in targets {
        for level in ["-O0", "-O2"] {
            let options = ["clang-23", triple, "-fno-integrated-as", level, "-S", "-o", "c.s", "plain.c"];
            tools.run_well(&options);
            let text = String::from_utf8(tools.read("c.s")).unwrap();
            check(&tools, &format!("{options:?}"), arch, &text, &[assembler, "--gsframe"]);
        }
    }
    // A compiler that is asked for the listing.
    let list = format!("-Wa,{}", LISTING.join(","));
    let clang = ["clang-23", "-fno-integrated-as", "-O2", "-c", "plain.c", "-o", "c.o", &list];
    if tools.run(&clang).status.success() {
        let unit = read(Arch::Amd64, &tools.read("f.lst"), None).unwrap();
        assert!(unit.functions.len() > 15, "{} functions", unit.functions.len());
    }
}
