//! Other readers read our tables. readelf 2.47 must print what we print, and llvm-readobj 23, for version 2, must print
//! the values that we read.

use cfipack_container::File;
use cfipack_decoder::sframe::{Function, Section};
use cfipack_encoder::sframe::Options;
use cfipack_format::sframe::Version;
use cfipack_format::{Address, Arch, Cfa, Endian, Row, Rule};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::convert::{Converted, all_options, cfi_of, convert};
use cfipack_tests::directives::{self, Mode, TARGETS};
use cfipack_tests::machine::toolchain_library;
use cfipack_tests::reference::Tools;

/// The table's address. A section that is added to an object has address 0.
const ADDRESS: Address = Address(0);

/// Assembles a few hundred random functions for each target, and calls `check` with each object.
fn each_object(tools: &Tools, what: &str, mut check: impl FnMut(Arch, &File<'_>)) {
    let (seed, count) = cases(what, 2);
    let mut random = Random::new(seed);
    for target in TARGETS {
        for _ in 0..count {
            tools.write("f.s", directives::File::random(&mut random, target, Mode::Wild, 200).text());
            let arches: &[_] = match target.arch {
                Arch::Aarch64 => &[Arch::Aarch64, Arch::Aarch64Be],
                ref arch => std::slice::from_ref(arch),
            };
            for &arch in arches {
                tools.run_well(&[target.assembler, width_and_order(arch), "f.s", "-o", "f.o"]);
                let bytes = tools.read("f.o");
                check(arch, &File::parse(&bytes).unwrap());
            }
        }
    }
}

/// Returns the assembler's option for an architecture.
fn width_and_order(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "--64",
        Arch::S390x => "-m64",
        Arch::Aarch64Be => "-EB",
        _ => "-EL",
    }
}

/// Makes an object whose only section is the table.
fn object_with_table(tools: &Tools, arch: Arch, table: &[u8]) {
    let (assembler, objcopy) = match arch {
        Arch::Amd64 => ("as", "objcopy"),
        Arch::S390x => ("s390x-linux-gnu-as", "s390x-linux-gnu-objcopy"),
        _ => ("aarch64-linux-gnu-as", "aarch64-linux-gnu-objcopy"),
    };
    tools.write("table", table);
    tools.write("empty.s", "");
    tools.run_well(&[assembler, width_and_order(arch), "empty.s", "-o", "empty.o"]);
    let flags = "--set-section-flags=.sframe=alloc,readonly";
    tools.run_well(&[objcopy, "--add-section=.sframe=table", flags, "empty.o", "table.o"]);
}

fn readelf_agrees(tools: &Tools, arch: Arch, converted: &Converted, what: &str) {
    object_with_table(tools, arch, &converted.bytes);
    let theirs = tools.run_well(&["readelf", "--sframe", "table.o"]);
    let mut ours = String::new();
    converted.table().dump(&mut ours, ".sframe").unwrap();
    for (number, (our, their)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(our, their, "{what}: line {}", number + 1);
    }
    assert!(ours == theirs, "{what}: one text is longer");
}

#[test]
#[ignore = "needs the reference tools"]
fn readelf_prints_what_we_print() {
    let tools = Tools::find();
    each_object(&tools, "readelf on our tables", |arch, file| {
        let sections = file.call_frame_sections().unwrap();
        for mut options in all_options() {
            // For the other byte order, libsframe converts each function's FREs in place. It cannot read functions that
            // share FREs.
            options.share = arch.endian() == Endian::Little;
            let converted = convert(&cfi_of(&sections), arch, ADDRESS, options);
            readelf_agrees(&tools, arch, &converted, &format!("{arch:?} {options:?}"));
        }
    });
}

/// More than a hundred thousand functions with a million rows.
#[test]
#[ignore = "needs the reference tools"]
fn readelf_prints_a_large_library_as_we_do() {
    let what = "readelf on the table of librustc_driver";
    let tools = Tools::find();
    let bytes = std::fs::read(toolchain_library("librustc_driver").unwrap()).unwrap();
    let file = File::parse(&bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let converted = convert(&cfi_of(&sections), file.arch(), ADDRESS, Options::default());
    readelf_agrees(&tools, file.arch(), &converted, what);
}

#[test]
#[ignore = "needs the reference tools"]
fn llvm_reads_what_we_read() {
    let tools = Tools::find();
    each_object(&tools, "llvm-readobj on our tables", |arch, file| {
        if arch == Arch::S390x {
            return; // llvm-readobj does not know its scaled offsets
        }
        let sections = file.call_frame_sections().unwrap();
        for options in all_options().filter(|options| options.version == Version::V2) {
            let converted = convert(&cfi_of(&sections), arch, ADDRESS, options);
            object_with_table(&tools, arch, &converted.bytes);
            let text = tools.run_well(&["llvm-readobj-23", "--sframe", "table.o"]);
            let theirs = functions_of(&text);
            let table: Section<'_> = converted.table();
            assert_eq!(theirs.len(), table.num_functions(), "{arch:?} {options:?}");
            for (function, their) in table.functions().zip(theirs) {
                assert_eq!(values(arch, &function.unwrap()), their, "{arch:?} {options:?}");
            }
        }
    });
}

/// The values of a function that both readers have: start, size, key B, and for each row start, base and offsets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Values {
    start: u64,
    size: u64,
    rows: Vec<RowValues>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct RowValues {
    start: u64,
    signed: bool,
    on_sp: bool,
    cfa: i64,
    ra: Option<i64>,
    fp: Option<i64>,
}

fn values(arch: Arch, function: &Function<'_>) -> Values {
    let offset = |rule: Rule| match rule {
        Rule::Cfa(offset) => Some(offset),
        Rule::SameValue => None,
        rule => panic!("{rule:?} is not a rule of version 2"),
    };
    let fixed = if arch == Arch::Amd64 { Some(-8) } else { None };
    let rows = function.rows().map(|row| {
        let row: Row = row.unwrap();
        if row.return_address == Rule::Undefined {
            // An erratum of version 2 allows an FRE without words. llvm-readobj does not know it.
            return RowValues { start: row.start.0.into(), ra: fixed, ..RowValues::default() };
        }
        let Cfa::Register { register, offset: cfa } = row.cfa else { panic!("{row:?} is not of version 2") };
        RowValues {
            start: row.start.0.into(),
            signed: row.signed,
            on_sp: register == arch.stack_pointer(),
            cfa,
            ra: offset(row.return_address),
            fp: offset(row.frame_pointer),
        }
    });
    Values { start: function.start().0, size: function.size().into(), rows: rows.collect() }
}

/// Parses llvm-readobj's output, function by function.
fn functions_of(text: &str) -> Vec<Values> {
    let (mut functions, mut in_rows) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("FuncDescEntry") {
            functions.push(Values::default());
            in_rows = false;
        }
        let Some(function) = functions.last_mut() else { continue };
        if line.starts_with("Frame Row Entry") {
            in_rows = true;
            function.rows.push(RowValues::default());
        }
        let Some((key, value)) = line.split_once(": ") else { continue };
        match (function.rows.last_mut().filter(|_| in_rows), key) {
            (None, "Start Address" | "PC") => function.start = number(value) as u64,
            (None, "Size") => function.size = number(value) as u64,
            // llvm-readobj prints this start as an address.
            (Some(row), "Start Address") => row.start = (number(value) as u64).wrapping_sub(function.start),
            (Some(row), "Return Address Signed") => row.signed = value == "Yes",
            (Some(row), "Base Register") => row.on_sp = value.starts_with("SP"),
            (Some(row), "CFA Offset") => row.cfa = number(value),
            (Some(row), "RA Offset") => row.ra = Some(number(value)),
            (Some(row), "FP Offset") => row.fp = Some(number(value)),
            _ => {}
        }
    }
    functions
}

fn number(text: &str) -> i64 {
    let text = text.split_whitespace().next().unwrap_or_default();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(|number| number as i64),
        None => text.parse(),
    }
    .unwrap_or_else(|error| panic!("{text}: {error}"))
}
