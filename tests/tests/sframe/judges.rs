//! Compares our tables with the rows that `readelf -wF` and `llvm-dwarfdump --eh-frame` print for the same CFI.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cfipack_cfi as cfi;
use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch};
use cfipack_testkit::needs;
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::cfi_bytes::CfiBytes;
use cfipack_tests::convert::{cfi_of, convert};
use cfipack_tests::corpora;
use cfipack_tests::directives::TARGETS;
use cfipack_tests::judges::compare::{Compared, compare};
use cfipack_tests::judges::image::image;
use cfipack_tests::judges::{Fdes, dwarfdump, readelf};
use cfipack_tests::machine::system_library;
use cfipack_tests::reference::Tools;

const READELF: &str = "readelf";
const DWARFDUMP: &str = "llvm-dwarfdump-23";

/// Goldens for which llvm-dwarfdump prints no rows although they have a table, with the tool's reason.
const REFUSED_BY_LLVM: [(&str, &str); 5] = [
    ("x86_64/x_escape_advance8", "does not know DW_CFA_MIPS_advance_loc8"),
    ("x86_64/x_escape_negative_offset", "does not know DW_CFA_GNU_negative_offset_extended"),
    ("x86_64/x_escape_negative_offset_fp", "does not know DW_CFA_GNU_negative_offset_extended"),
    ("x86_64/x_restore_fp_start", "DW_CFA_restore in a CIE, whose rules it would restore"),
    ("x86_64/x_restore_start", "the same"),
];

/// The sections that a tool prints, with their names.
type Sections = Vec<(String, Fdes)>;

/// Builds a table of each file. Compares it with the rows that both tools print.
fn judge(tools: &Tools, files: &[Vec<u8>]) -> Vec<[Compared; 2]> {
    let names: Vec<_> = (0..files.len()).map(|number| format!("judged-{number}")).collect();
    for (name, bytes) in names.iter().zip(files) {
        tools.write(name, bytes);
    }
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let frames = tools.print(&[&[READELF, "-wF", "/dev/null"], &names[..]].concat());
    let dump = tools.print(&[&[DWARFDUMP, "--eh-frame"], &names[..]].concat());
    let frames = split(&frames, &names, |line, name| line.strip_prefix("File: ") == Some(name));
    let dump = split(&dump, &names, |line, name| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(":\tfile format"))
    });
    let printed = frames.iter().zip(&dump);
    files.iter().zip(printed).map(|(bytes, (frames, dump))| judge_one(bytes, frames, dump)).collect()
}

/// Splits a text at lines that have a file's name.
fn split(text: &str, names: &[&str], is_head: impl Fn(&str, &str) -> bool) -> Vec<String> {
    let mut parts = vec![String::new(); names.len()];
    let (mut next, mut present) = (0, None);
    for line in text.lines() {
        if let Some(at) = (next..names.len()).find(|&at| is_head(line, names[at])) {
            (next, present) = (at + 1, Some(at));
        } else if let Some(at) = present {
            parts[at] += line;
            parts[at] += "\n";
        }
    }
    parts
}

fn judge_one(bytes: &[u8], frames: &str, dump: &str) -> [Compared; 2] {
    let file = File::parse(bytes).unwrap();
    let sections = file.call_frame_sections().unwrap();
    let cfi = cfi_of(&sections);
    let converted = convert(&cfi, file.arch(), Address(0x100_0000), Options::default());
    let printed: [Sections; 2] = [readelf::parse(frames, file.arch()), dwarfdump::parse(dump, file.arch())];
    printed.map(|printed| {
        let mut compared = Compared::default();
        for (at, section) in sections.iter().enumerate() {
            let name = &section.section.name;
            let before = sections[..at].iter().filter(|other| other.section.name == *name).count();
            let mut of_name = printed.iter().filter(|(printed, _)| printed == name);
            let none = Fdes::new();
            let fdes = of_name.nth(before).map_or(&none, |(_, fdes)| fdes);
            compared.add(compare(&cfi[at], &converted, fdes));
        }
        compared
    })
}

/// Prints totals and fails if a row differs. Returns the number of rows compared with each tool.
fn conclude(what: &str, names: &[String], compared: Vec<[Compared; 2]>) -> [Compared; 2] {
    let mut totals: [Compared; 2] = Default::default();
    for (name, compared) in names.iter().zip(compared) {
        for (total, mut compared) in totals.iter_mut().zip(compared) {
            compared.differences.iter_mut().for_each(|text| *text = format!("{name}: {text}"));
            total.add(compared);
        }
    }
    for (tool, total) in [READELF, DWARFDUMP].iter().zip(&totals) {
        let Compared { functions, omitted, without_rows, rows, partly, differences } = total;
        println!(
            "{what}, {tool}: {functions} functions, {rows} rows alike ({partly} as far as it prints them)"
        );
        println!("    {without_rows} functions without rows, {omitted} omitted by the table");
        differences.iter().take(20).for_each(|difference| println!("    {difference}"));
        assert!(differences.is_empty(), "{what}: {} rows are not what {tool} prints", differences.len());
    }
    totals
}

/// A function of four bytes at 0x1000: `push rbp; pop rbp; ret`.
const PUSH_POP: [u8; 52] = [
    0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, //
    0x18, 0, 0, 0, 0x1c, 0, 0, 0, 0xe0, 0x0f, 0, 0, 4, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x86, 2, 0x42, 0xc6, 0x0e,
    8, 0, 0,
];

/// The output of each tool for [`PUSH_POP`].
const PRINTED: [&str; 2] = [
    "Contents of the .eh_frame section:\n\n\n\
     00000000 0000000000000014 00000000 CIE \"zR\" cf=1 df=-8 ra=16\n   LOC           CFA      ra\n\
     0000000000000000 rsp+8    c-8\n\n\
     00000018 0000000000000018 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001004\n\
     \u{20}  LOC           CFA      rbp   ra\n\
     0000000000001000 rsp+8    u     c-8\n\
     0000000000001001 rsp+16   c-16  c-8\n\
     0000000000001003 rsp+8    u     c-8\n",
    ".eh_frame contents:\n\n\
     00000018 00000018 0000001c FDE cie=00000000 pc=00001000...00001004\n\
     \u{20} 0x1000: CFA=RSP+8: RIP=[CFA-8]\n\
     \u{20} 0x1001: CFA=RSP+16: RBP=[CFA-16], RIP=[CFA-8]\n\
     \u{20} 0x1003: CFA=RSP+8: RIP=[CFA-8]\n",
];

/// A judge that accepts everything proves nothing. This test needs no tools.
#[test]
fn a_row_that_differs_is_found() {
    let cfi = cfi::Section::new(cfi::SectionKind::EhFrame, &PUSH_POP, Address(0), Arch::Amd64);
    let converted = convert(&[cfi], Arch::Amd64, Address(0x2000), Options::default());
    let parsers = [readelf::parse, dwarfdump::parse];
    let differences = |tool: usize, text: &str| {
        let sections = parsers[tool](text, Arch::Amd64);
        assert_eq!((sections.len(), sections[0].1.len()), (1, 1));
        compare(&cfi, &converted, &sections[0].1).differences.len()
    };
    for (tool, text) in PRINTED.iter().enumerate() {
        assert_eq!(differences(tool, text), 0, "{text}");
    }
    let wrong = [
        (0, "rsp+16", "rsp+24"),
        (0, "rsp+16", "rbp+16"),
        (0, "c-16", "u   "),
        (0, "c-16  c-8", "c-16  c-0"),
        (0, "01003", "01002"),
        (1, "CFA=RSP+16", "CFA=RSP+24"),
        (1, "RBP=[CFA-16]", "RBP=CFA-16"),
        (1, "RBP=[CFA-16], ", ""),
        (1, "RBP=[CFA-16], RIP=[CFA-8]", "RBP=[CFA-16], RIP=undefined"),
        (1, "CFA=RSP+16", "CFA=DW_OP_breg7 RSP+16, DW_OP_deref"),
        (1, "0x1003", "0x1002"),
    ];
    for (tool, right, wrong) in wrong {
        let text = PRINTED[tool].replace(right, wrong);
        assert_ne!(text, PRINTED[tool], "{right}");
        assert_ne!(differences(tool, &text), 0, "{text}");
    }
    let expression = PRINTED[1].replace("CFA=RSP+16", "CFA=DW_OP_breg7 RSP+8, DW_OP_plus_uconst 0x8");
    assert_eq!(differences(1, &expression), 0, "the same CFA by an expression");
}

#[test]
#[ignore = "needs the reference tools"]
fn goldens() {
    let tools = Tools::find();
    let goldens: Vec<_> = ["gas247", "llvm23"].into_iter().flat_map(corpora::sframe).collect();
    let names: Vec<_> = goldens.iter().map(|golden| golden.name.clone()).collect();
    let files: Vec<_> = goldens.into_iter().map(|golden| golden.object).collect();
    let compared = judge(&tools, &files);
    let refused = names.iter().zip(&compared).filter(|(_, [_, by_llvm])| by_llvm.without_rows != 0);
    let refused: BTreeSet<_> = refused.map(|(name, _)| name.as_str()).collect();
    let known: BTreeSet<_> = REFUSED_BY_LLVM.iter().map(|(name, _)| *name).collect();
    assert_eq!(refused, known, "left: goldens of which llvm-dwarfdump prints no rows");
    let [by_readelf, by_llvm] = conclude("goldens", &names, compared);
    assert_eq!(by_readelf.without_rows, 0);
    assert!(by_readelf.rows > 1500 && by_llvm.rows > 1500);
}

#[test]
#[ignore = "needs the reference tools and libcrypto.so.3"]
fn machine_libraries() {
    let tools = Tools::find();
    for name in ["libc.so.6", "libgcc_s.so.1", "libm.so.6", "libcrypto.so.3"] {
        library(&tools, &system_library(name).unwrap_or_else(|| panic!("this test needs {name}")));
    }
}

/// Compares every row of a library with both tools. If a tool prints no rows for a function, the table omits it.
fn library(tools: &Tools, path: &Path) {
    let what = path.display().to_string();
    let [by_readelf, by_llvm] =
        conclude(&what, std::slice::from_ref(&what), judge(tools, &[fs::read(path).unwrap()]));
    assert_eq!((by_readelf.without_rows, by_llvm.without_rows), (0, 0), "{what}");
    assert!(by_readelf.rows != 0 && by_readelf.rows == by_llvm.rows, "{what}");
    // readelf does not print expressions of CFAs.
    assert_eq!(by_llvm.partly, 0, "{what}");
}

/// Compares random instructions. llvm-dwarfdump reads the operand of `DW_CFA_set_loc` as 8 bytes whatever the CIE says,
/// so only readelf judges sections with it.
#[test]
#[ignore = "needs the reference tools"]
fn random_instructions() {
    let tools = Tools::find();
    let (seed, count) = cases("random CFI by other tools", 60);
    for set_loc in [false, true] {
        let mut random = Random::new(seed.wrapping_add(u64::from(set_loc)));
        let files: Vec<_> = (0..count)
            .map(|_| {
                let arch = random.pick(&TARGETS).arch;
                image(&CfiBytes::random_instructions(&mut random, arch, 40, set_loc))
            })
            .collect();
        let names: Vec<_> = (0..count).map(|number| format!("section {number}, set_loc {set_loc}")).collect();
        let mut compared = judge(&tools, &files);
        if set_loc {
            compared.iter_mut().for_each(|[_, by_llvm]| *by_llvm = Compared::default());
        }
        let [by_readelf, by_llvm] = conclude("random CFI", &names, compared);
        assert_eq!(by_readelf.without_rows, 0);
        assert!(by_readelf.rows > 50 * count as u64, "too little is put to the test");
        assert!(set_loc || by_llvm.without_rows == 0 && by_llvm.rows == by_readelf.rows);
    }
}

/// Tests libraries of arm64 and s390x that `tests/debian-libraries/download` has fetched.
#[test]
#[ignore = "needs the reference tools and CFIPACK_DEBIAN_LIBRARIES"]
fn debian_libraries_download() {
    let directory = needs::directory("CFIPACK_DEBIAN_LIBRARIES", "tests/debian-libraries/download DIR");
    let tools = Tools::find();
    // This library has functions whose CFI DWARF does not define.
    library(&tools, &directory.join("arm64/libc6/files/usr/lib/aarch64-linux-gnu/libmvec.so.1"));
    for (arch, machine) in [("arm64", "aarch64"), ("s390x", "s390x")] {
        let root = directory.join(arch);
        let libraries = format!("files/usr/lib/{machine}-linux-gnu");
        for file in [
            format!("libc6/{libraries}/libc.so.6"),
            format!("libgcrypt20/{libraries}/libgcrypt.so.20.5.0"),
            format!("libssl3t64/{libraries}/libcrypto.so.3"),
            format!("libstdc++6/{libraries}/libstdc++.so.6.0.33"),
            "openssl/files/usr/bin/openssl".into(),
            "ocaml/files/usr/bin/ocamllex.opt".into(),
        ] {
            library(&tools, &root.join(file));
        }
    }
}
