//! Files with functions that the verifier cannot judge, and files without a function for a table.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_testkit::{needs, rustc};
use object::{Object as _, ObjectSymbol as _};

use super::messages;
use crate::program::{run_in, scratch};

/// Assembles an object with `plain`, which has CFI of the assembler, and `odd`, which has this CIE and FDE. Both are bytes:
/// of the CIE from the augmentation string on, and of the FDE from the augmentation data on.
fn object(directory: &Path, name: &str, cie: &str, fde: &str) {
    let text = format!(
        ".globl plain, odd\n.text\nplain: .cfi_startproc\nnop\nret\n.cfi_endproc\nodd: nop\nret\n.Lend:\n\
         .section .eh_frame, \"a\"\n\
         .Lcie: .long .Lfde - .Lid\n.Lid: .long 0\n.byte 1\n{cie}\n.p2align 3\n\
         .Lfde: .long .Lafter - .Lpointer\n.Lpointer: .long . - .Lcie\n\
         .long odd - .\n.long .Lend - odd\n{fde}\n.p2align 3\n.Lafter:\n"
    );
    rustc::assemble(directory, &text, name);
}

/// The CIE's factors and return column, the length of the augmentation data, and the encoding of addresses.
const FACTORS: &str = ".byte 1, 0x78, 16";
/// The rest of a CIE: CFA = register 7 + 8, return address at CFA-8.
const RULES: &str = ".byte 0x0c, 7, 8, 0x90, 1";

/// CIEs and FDEs that libgcc and gdb read and gimli refuses, and part of gimli's error. No instruction of DWARF that is as
/// long as the one of the last FDE has its offset.
fn odd() -> [(&'static str, String, &'static str, &'static str); 4] {
    let cie = |augmentation: &str, data: &str| {
        format!(".asciz \"{augmentation}\"\n{FACTORS}\n.byte {data}\n{RULES}")
    };
    [
        ("lsda", cie("zRL", "2, 0x1b, 0x50"), ".byte 8\n.quad 0", "0x50"),
        ("personality", cie("zRP", "6, 0x1b, 0x4b, 0, 0, 0, 0"), ".byte 0", "DW_EH_PE_funcrel"),
        ("short", cie("zRL", "2, 0x1b, 0x1b"), ".byte 0", "end of input"),
        ("instruction", cie("zR", "1, 0x1b"), ".byte 0, 0x41, 0x0e, 16, 0x2f, 6, 65", "0x2f"),
    ]
}

fn built(test: &str) -> PathBuf {
    let directory = scratch(test);
    for (name, cie, fde, _) in odd() {
        object(&directory, &format!("{name}.o"), &cie, fde);
    }
    directory
}

/// The section and the offset of a symbol, as the command names them.
fn place(directory: &Path, name: &str, symbol: &str) -> String {
    let bytes = fs::read(directory.join(name)).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = file.symbols().find(|one| one.name() == Ok(symbol)).unwrap();
    format!(".text+{:#x}", symbol.address())
}

#[test]
fn the_rest_of_the_file_gets_its_table() {
    let directory = built("unjudged");
    for (name, _, _, error) in odd() {
        let (old, new) = (format!("{name}.o"), format!("{name}.new.o"));
        // A record that cannot be read may be for any code, so it is status 1.
        let status = i32::from(name != "instruction");
        let text = messages(&directory, &[&old, "-o", &new], status);
        assert!(
            text.contains(" <odd>: omitted, because it cannot be verified: ") && text.contains(error),
            "{text}"
        );
        assert!(text.contains(", 1 of 2 functions") && text.contains("  omitted: 1 unjudged\n"), "{text}");
        let verified = run_in(&directory, &["verify", &new]);
        let printed = String::from_utf8(verified.stdout).unwrap();
        assert_eq!(verified.status.code(), Some(status), "{name}: {printed}");
        assert!(printed.contains("  functions: 1 equal, 0 different, 0 missing, 1 unjudged"), "{printed}");
        assert!(printed.contains(error), "{printed}");
        assert_eq!(run_in(&directory, &["verify", "--strict", &new]).status.code(), Some(1), "{name}");
        // The new object has a row for one of the functions only.
        for (symbol, found) in [("plain", 0), ("odd", 1)] {
            let output = run_in(&directory, &["lookup", &new, &place(&directory, &new, symbol)]);
            assert_eq!(output.status.code(), Some(found), "{name}: {symbol}");
        }
        let text = messages(&directory, &[&old, "--verify"], status);
        assert!(text.contains("\n  verified against the CFI, as gimli evaluates it:\n"), "{text}");
        assert!(text.contains(" <odd>: omitted, because"), "{text}");
    }
}

/// GNU readelf finds one function in the new object, and no relocation for the other.
#[test]
#[ignore = "needs readelf of GNU binutils"]
fn readelf_finds_the_other_function_alone() {
    needs::program("readelf", "binutils");
    let directory = built("unjudged_readelf");
    for (name, ..) in odd() {
        let (old, new) = (format!("{name}.o"), format!("{name}.new.o"));
        run_in(&directory, &[&old, "-o", &new]);
        let output = Command::new("readelf").args(["-rW", &new]).current_dir(&directory).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, relocations) = text.split_once(".rela.sframe").unwrap();
        let entries = relocations.lines().skip(2).take_while(|line| !line.trim().is_empty());
        assert_eq!(entries.count(), 1, "{text}");
    }
}

/// A copy without a table is not reported as changed and verified.
#[test]
fn an_output_without_a_table_is_status_1() {
    let directory = scratch("no_function");
    rustc::assemble(&directory, ".globl f\nf: .cfi_startproc\n.cfi_endproc\n", "empty.o");
    let text = messages(&directory, &["empty.o", "-o", "new.o"], 1);
    let reason = "no table: no function has code that a table can represent";
    assert!(text.starts_with(&format!("warning: empty.o: {reason}\nempty.o: unchanged, no table")), "{text}");
    assert!(!text.contains("verified"), "{text}");
    assert_eq!(fs::read(directory.join("new.o")).unwrap(), fs::read(directory.join("empty.o")).unwrap());
    // There is a section, and it has no FDE.
    rustc::assemble(&directory, "nop\n.section .eh_frame, \"a\"\n.long 0\n", "terminator.o");
    let text = messages(&directory, &["terminator.o", "-o", "none.o"], 2);
    assert_eq!(text, "error: terminator.o: no call frame information\n");
    assert!(!directory.join("none.o").exists());
    messages(&directory, &["--in-place", "terminator.o"], 0);
}
