//! Tests what is reported about files with call frame information that cannot be used.

use std::fs;
use std::path::Path;

use object::{Object as _, ObjectSection as _};

use crate::archives::archive;
use crate::program::{corpus, run_in, scratch};

/// Runs the command in a directory. Returns the status, and both streams as one text.
fn ran(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_in(directory, arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

/// Writes a copy of `linkable.o` without a table and without relocations, as `strip` leaves it. Returns the number of its
/// FDEs.
fn stripped(directory: &Path) -> usize {
    use gimli::UnwindSection as _;

    let mut bytes = fs::read(corpus().join("linkable.o")).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..][..8].try_into().unwrap()) as usize;
    let headers = word(0x28);
    let count = usize::from(bytes[0x3c]);
    for header in (0..count).map(|index| headers + 64 * index) {
        // SHT_RELA and SHT_GNU_SFRAME become SHT_NULL, without a name.
        if [4, 0x6fff_fff4].contains(&u32::from_le_bytes(bytes[header + 4..][..4].try_into().unwrap())) {
            bytes[header..][..8].fill(0);
        }
    }
    fs::write(directory.join("stripped.o"), &bytes).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let section = object.section_by_name(".eh_frame").unwrap();
    let section = gimli::EhFrame::new(section.data().unwrap(), gimli::LittleEndian);
    let bases = gimli::BaseAddresses::default().set_eh_frame(0);
    let mut entries = section.entries(&bases);
    let mut fdes = 0;
    while let Some(entry) = entries.next().unwrap() {
        fdes += usize::from(matches!(entry, gimli::CieOrFde::Fde(_)));
    }
    fdes
}

#[test]
fn an_object_without_relocations() {
    let directory = scratch("without_relocations");
    let fdes = stripped(&directory);
    let expected = format!("section .eh_frame: {fdes} FDEs of unknown functions: no relocation ");
    for arguments in [
        &["stripped.o"][..],
        &["stripped.o", "-o", "out"],
        &["stripped.o", "--section", "out"],
        &["lint", "stripped.o"],
        &["gaps", "--cfi", "stripped.o"],
    ] {
        let (status, text) = ran(&directory, arguments);
        assert!(status == Some(2) && text.contains(&expected), "{arguments:?}: {text}");
    }
    let (status, text) = ran(&directory, &["--in-place", "stripped.o"]);
    assert!(status == Some(0) && text.contains(&expected), "{text}");
    assert_eq!(ran(&directory, &["--in-place", "--strict", "stripped.o"]).0, Some(1));
}

/// A function as Free Pascal 3.2 describes it: the CIE pointers in `.debug_frame` have 8 bytes.
#[cfg(target_arch = "x86_64")]
const PASCAL: &str = ".text\n.globl f\nf: push %rbp\npop %rbp\nret\n.Lend:\n\
    .section .debug_frame,\"\",@progbits\n.long 16\n.long 0xffffffff\n\
    .byte 1, 0, 1, 0x7c, 16, 0x0c, 7, 8, 5, 16, 2, 0\n.balign 4\n\
    .long 24\n.quad .debug_frame\n.quad f\n.quad .Lend-f\n.text\n";

#[test]
#[cfg(target_arch = "x86_64")]
fn records_of_another_layout() {
    use cfipack_testkit::rustc::assemble;

    let directory = scratch("another_layout");
    assemble(&directory, PASCAL, "pascal.o");
    let expected = "section .debug_frame: 1 FDE of unknown functions: ";
    for arguments in [&["pascal.o"][..], &["pascal.o", "-o", "out"], &["lint", "pascal.o"]] {
        let (status, text) = ran(&directory, arguments);
        assert!(status == Some(2) && text.contains(expected), "{arguments:?}: {text}");
    }
    // Beside a function with CFI, no verb is silent.
    let both = format!("{PASCAL}.globl g\ng: .cfi_startproc\nret\n.cfi_endproc\n");
    assemble(&directory, &both, "both.o");
    for arguments in [&["both.o"][..], &["both.o", "-o", "out"], &["lint", "both.o"], &["verify", "out"]] {
        let (status, text) = ran(&directory, arguments);
        assert!(status == Some(0) && text.contains(expected), "{arguments:?}: {text}");
    }
    assert_eq!(ran(&directory, &["both.o", "-o", "out", "--strict"]).0, Some(1));
    assert_eq!(ran(&directory, &["both.o", "--strict"]).0, Some(1));
}

/// In a linked file the linker has applied the relocations, and the start is read from the wrong place.
#[test]
#[cfg(target_arch = "x86_64")]
fn linked_records_of_another_layout() {
    let directory = scratch("another_layout_linked");
    let source = format!(
        "#![no_std]\ncore::arch::global_asm!({PASCAL:?}, options(att_syntax));\n\
         unsafe extern \"C\" {{ fn f(); }}\n\
         #[unsafe(no_mangle)] extern \"C\" fn g() {{ unsafe {{ f() }} }}\n\
         #[panic_handler] fn panic(_: &core::panic::PanicInfo<'_>) -> ! {{ loop {{}} }}\n"
    );
    fs::write(directory.join("x.rs"), source).unwrap();
    let link = ["x.rs", "--crate-type=cdylib", "-Clink-arg=-nostdlib", "-Cstrip=none", "-o", "x.so"];
    cfipack_testkit::rustc::rustc(&directory, &link);
    let expected = "section .debug_frame: 1 FDE of unknown functions: they start with no address of the file";
    for arguments in [&["x.so"][..], &["x.so", "-o", "out"], &["lint", "x.so"], &["verify", "out"]] {
        let (status, text) = ran(&directory, arguments);
        assert!(status == Some(0) && text.contains(expected), "{arguments:?}: {text}");
    }
}

/// A member whose CFI cannot be used is named by every verb, with the reason, as a file of its own is.
#[test]
fn members_of_an_archive() {
    let directory = scratch("members_without_cfi");
    stripped(&directory);
    let [whole, stripped] =
        [corpus().join("linkable.o"), directory.join("stripped.o")].map(|path| fs::read(path).unwrap());
    // An ELF header without section headers is an object without code and CFI.
    let mut empty = whole[..64].to_vec();
    empty[40..48].fill(0);
    empty[58..64].fill(0);
    let members = [("a.o", &whole[..]), ("b.o", &stripped), ("c.o", b"BC\xc0\xde5\x14\0\0"), ("d.o", &empty)];
    fs::write(directory.join("x.a"), archive(&members)).unwrap();
    let reasons = [("b.o", "section .eh_frame: "), ("c.o", "LLVM bitcode")];
    for (arguments, status) in [
        (&["x.a"][..], 0),
        (&["x.a", "--strict"], 1),
        (&["x.a", "-o", "out.a"], 0),
        (&["x.a", "-o", "out.a", "--strict"], 1),
        (&["verify", "out.a"], 0),
        (&["verify", "--strict", "out.a"], 1),
        (&["stats", "x.a"], 0),
        (&["lint", "--kind", "no-row", "x.a"], 0),
        (&["gaps", "--cfi", "x.a"], 1),
    ] {
        let (found, text) = ran(&directory, arguments);
        assert_eq!(found, Some(status), "{arguments:?}: {text}");
        for (member, reason) in reasons {
            let is_named = |line: &str| line.starts_with("warning: ") && line.contains(member);
            assert!(
                text.lines().any(|line| is_named(line) && line.contains(reason)),
                "{arguments:?}: {text}"
            );
        }
        assert!(!text.contains("d.o"), "{arguments:?}: {text}");
    }
    // The code of the member without usable CFI has no rows.
    let output = run_in(&directory, &["x.a", "-o", "out.a", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let missed: Vec<_> = report["missed"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(missed, ["unknown-functions", "llvm-bitcode"]);
    let (status, text) = ran(&directory, &["x.a", "-o", "out.a", "--min-code-coverage", "60"]);
    assert!(status == Some(1) && text.contains("less than 60 % of the code is covered"), "{text}");
}

/// If a table can have no function of a member, the member needs none. `verify` names the functions.
#[test]
fn a_member_that_only_omits() {
    let directory = scratch("omitting_member");
    // The CFA is based on r10, which only a flex FDE can represent.
    let flex = corpus().join("../sframe/x86_64/x_def_cfa_r10.gas247.o");
    let [whole, flex] = [corpus().join("linkable.o"), flex].map(|path| fs::read(path).unwrap());
    fs::write(directory.join("flex.o"), flex).unwrap();
    assert_eq!(ran(&directory, &["strip", "flex.o"]).0, Some(0));
    let flex = fs::read(directory.join("flex.o")).unwrap();
    fs::write(directory.join("x.a"), archive(&[("a.o", &whole), ("flex.o", &flex)])).unwrap();
    assert_eq!(ran(&directory, &["x.a", "-o", "out.a", "--no-flex"]).0, Some(0));
    let (status, text) = ran(&directory, &["verify", "out.a"]);
    assert!(status == Some(0) && text.contains("out.a(flex.o): ") && text.contains("missing: at "), "{text}");
    assert_eq!(ran(&directory, &["verify", "--strict", "out.a"]).0, Some(1));
    // Without any table, there is nothing to verify.
    fs::write(directory.join("flex.a"), archive(&[("flex.o", &flex)])).unwrap();
    assert_eq!(ran(&directory, &["verify", "flex.a"]).0, Some(2));
}

/// An archive of one member that starts as LLVM bitcode.
#[test]
fn an_archive_of_bitcode() {
    let directory = scratch("bitcode");
    let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "lto.o/", 0, 0, 0, 644, 8);
    let archive = [b"!<arch>\n", header.as_bytes(), b"BC\xc0\xde5\x14\0\0"].concat();
    fs::write(directory.join("lto.a"), archive).unwrap();
    for arguments in [&["lto.a"][..], &["lto.a", "-o", "out"], &["lint", "lto.a"], &["stats", "lto.a"]] {
        let (status, text) = ran(&directory, arguments);
        assert!(status == Some(2) && text.contains("LLVM bitcode"), "{arguments:?}: {text}");
    }
}
