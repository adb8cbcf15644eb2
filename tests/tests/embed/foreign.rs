//! Tests files of other architectures, in both byte orders. The reference tools link them, and qemu runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use cfipack_container::File;
use cfipack_edit::{EmbedError, Embedding};
use cfipack_testkit::needs;
use cfipack_tests::reference::Tools;

use crate::linked::{loaded_table, scratch, with_table, without_table};

const AARCH64: &str = "\t.globl _start\n_start:\n\t.cfi_startproc\n\tstp x29,x30,[sp,-16]!\n\t.cfi_def_cfa_offset 16\n\
    \t.cfi_offset 29,-16\n\t.cfi_offset 30,-8\n\tmov x0,#9\n\tmov x8,#93\n\tsvc #0\n\t.cfi_endproc\n";
const S390X: &str = "\t.globl _start\n_start:\n\t.cfi_startproc\n\tstmg %r14,%r15,112(%r15)\n\t.cfi_offset 14,-48\n\
    \t.cfi_offset 15,-40\n\tlghi %r2,9\n\tsvc 1\n\t.cfi_endproc\n";

/// Prefix of the tools, options for the byte order, a program that exits with status 9, and an emulator.
const ARCHITECTURES: [(&str, &[&str], &str, &str); 3] = [
    ("aarch64-linux-gnu", &[], AARCH64, "qemu-aarch64"),
    ("aarch64-linux-gnu", &["-EB"], AARCH64, "qemu-aarch64_be"),
    ("s390x-linux-gnu", &[], S390X, "qemu-s390x"),
];

const KINDS: [(&str, &[&str]); 4] = [
    ("static", &["--build-id"]),
    ("pie", &["-pie", "--build-id", "--dynamic-linker", "/lib/ld.so.1"]),
    ("library", &["-shared", "--build-id"]),
    ("library without build-id", &["-shared", "-s"]),
];

#[test]
#[ignore = "needs the reference tools and qemu"]
fn other_architectures() {
    let tools = Tools::find();
    let directory = scratch("foreign");
    for (prefix, order, source, emulator) in ARCHITECTURES {
        needs::program(emulator, "qemu-user");
        tools.write("program.s", source);
        let (assembler, linker) = (format!("{prefix}-as"), format!("{prefix}-ld"));
        tools.run_well(&[&[assembler.as_str()], order, &["-o", "program.o", "program.s"]].concat());
        for (kind, options) in KINDS {
            let what = format!("{kind} for {prefix} {order:?}");
            tools.run_well(&[&[linker.as_str()], order, options, &["-o", "old", "program.o"]].concat());
            let old = tools.read("old");
            // So few sections precede the code that there is no room for two program headers, even if all of them move.
            if kind == "library without build-id" {
                let refusal = Embedding::of(&File::parse(&old).expect("a library"), 300).expect_err(&what);
                assert!(matches!(refusal, EmbedError::NoRoom { .. }), "{what}: {refusal}");
                continue;
            }
            let (new, embedded) = with_table(&old);
            let table = (embedded.address.0, &embedded.table[..]);
            assert_eq!(loaded_table(&new), Some(table), "{what}, {:?}", embedded.way);
            assert!(without_table(&new) == old, "{what}, {:?}: not the original", embedded.way);
            tools.write("new", &new);
            let output = tools.run(&["readelf", "-lSsdW", "new"]);
            assert!(output.stderr.is_empty(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("GNU_SFRAME"), "{what}: {text}");
            if kind != "static" {
                continue;
            }
            let path = directory.join("program");
            fs::write(&path, &new).expect("a file can be written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode can be changed");
            let status = Command::new(emulator).arg(&path).status().expect("the emulator runs");
            assert_eq!(status.code(), Some(9), "{what}, {:?}", embedded.way);
        }
    }
}
