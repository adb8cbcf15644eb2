//! Tables survive packagers' tools: they keep bytes and address, and the file still runs.

use std::fs;
use std::process::Command;

use cfipack_testkit::needs;
use cfipack_tests::linkers::LinkerKind;

use crate::linked::{KINDS, link, loaded_table, run, scratch, tools, with_table, without_table};

/// Programs that change a file in place: name, Debian package, options.
const CHANGES: [(&str, &str, &[&str]); 9] = [
    ("dwz", "dwz", &[]),
    ("strip", "binutils", &[]),
    ("strip", "binutils", &["-g"]),
    ("objcopy", "binutils", &["--strip-all"]),
    ("llvm-strip", "llvm", &[]),
    ("llvm-objcopy", "llvm", &["--strip-all"]),
    ("eu-strip", "elfutils", &[]),
    ("patchelf", "patchelf", &["--set-rpath", "/a/directory/with/a/long/name/that/needs/room:$ORIGIN"]),
    ("patchelf", "patchelf", &["--add-needed", "libc.so.6"]),
];

#[test]
#[ignore = "needs the reference tools, gcc, binutils, llvm, elfutils, dwz and patchelf"]
fn tables_survive_strip_dwz_and_patchelf() {
    let directory = scratch("survival");
    CHANGES.iter().for_each(|(program, package, _)| needs::program(program, package));
    for (program, _, options) in CHANGES {
        for (kind, object, link_options) in &KINDS {
            // patchelf breaks static programs even without a table.
            if program == "patchelf" && ["static", "static-pie"].contains(kind) {
                continue;
            }
            let Some(linker) = tools().0.iter().find(|linker| linker.kind == LinkerKind::Bfd) else {
                continue;
            };
            let path = directory.join(kind);
            let Some(old) = link(linker, &path, object, link_options) else { continue };
            let is_library = kind.starts_with("library");
            let change = |bytes: &[u8]| {
                fs::write(&path, bytes).expect("a file can be written");
                let output = Command::new(program).args(options).arg(&path).output().expect("it starts");
                output.status.success().then(|| fs::read(&path).expect("it leaves a file"))
            };
            // A tool may refuse or break a file, but then also the file without a table.
            let (new, embedded) = with_table(&old);
            let Some(changed_old) = change(&old) else { continue };
            let what = format!("{program} {options:?} of {kind}, {:?}", embedded.way);
            let changed = change(&new).unwrap_or_else(|| panic!("{what}: refused"));
            assert_eq!(loaded_table(&changed), Some((embedded.address.0, &embedded.table[..])), "{what}");
            let before = run(&path, &changed_old, is_library);
            assert_eq!(run(&path, &changed, is_library), before, "{what}");
            let without = without_table(&changed);
            assert_eq!(loaded_table(&without), None, "{what}");
            assert_eq!(run(&path, &without, is_library), before, "{what}, the table removed");
            let (again, embedded) = with_table(&changed);
            assert_eq!(run(&path, &again, is_library), before, "{what}, embedded again, {:?}", embedded.way);
        }
    }
}
