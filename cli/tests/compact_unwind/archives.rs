//! Tests archives and fat files: changed by `compact-unwind`, and then linked.

use cfipack_format::Arch;
use cfipack_testkit::random::{Random, assert_enough, cases};
use cfipack_tests::reference::Tools;

use super::link::{Compared, edit, link};
use super::programs::Program;

#[test]
#[ignore = "needs the reference tools"]
fn archives_keep_their_index() {
    let what =
        "compact-unwind: archives of llvm-libtool-darwin 23 and llvm-ar 23, and fat files of llvm-lipo 23";
    let tools = Tools::find();
    let (seed, count) = cases(what, 4);
    let mut random = Random::new(seed);
    let mut total = Compared::default();
    for number in 0..count {
        let mut libraries = Vec::new();
        for arch in [Arch::Amd64, Arch::Aarch64] {
            let program = Program::compile(&tools, &mut random, arch, Some("_my_personality"));
            let objects = program.assemble(&tools, &[], ".o");
            let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
            let library = format!("lib{number}-{arch:?}.a");
            let archiver = match number % 2 {
                0 => vec!["llvm-libtool-darwin-23", "-static", "-o", &library],
                _ => vec!["llvm-ar-23", "rcsD", "--format=gnu", &library],
            };
            tools.run_well(&[&archiver[..], &objects].concat());
            libraries.push(library);
        }
        let fat = format!("fat{number}.a");
        tools.run_well(&["llvm-lipo-23", "-create", "-output", &fat, &libraries[0], &libraries[1]]);
        let (changed_fat, gained_fat) =
            edit(&tools, std::slice::from_ref(&fat), |name| format!("new-{name}"));
        let mut gained_thin = 0;
        for (library, arch) in libraries.iter().zip([Arch::Amd64, Arch::Aarch64]) {
            let case = library.as_str();
            let old = [library.clone()];
            let (new, gained) = edit(&tools, &old, |name| format!("new-{name}"));
            gained_thin += gained;
            let index = |file: &str| {
                let text = tools.run_well(&["llvm-nm-23", "--print-armap", file]);
                let lines = text.lines().filter(|line| line.contains(" in "));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            assert!(!index(&old[0]).is_empty(), "{case}");
            assert_eq!(index(&old[0]), index(&new[0]), "{case}");
            let list = |file: &str| tools.run_well(&["llvm-ar-23", "tO", file]);
            assert_eq!(list(&old[0]).lines().count(), list(&new[0]).lines().count(), "{case}");
            let links = [link(&tools, arch, &old, "old"), link(&tools, arch, &new, "new")];
            total.add(&links[0], &links[1], case);
            // The fat file's slice is the changed archive.
            let name = if arch == Arch::Amd64 { "x86_64" } else { "arm64" };
            tools.run_well(&["llvm-lipo-23", "-thin", name, "-output", "slice.a", &changed_fat[0]]);
            assert!(tools.read("slice.a") == tools.read(&new[0]), "{case}: slice of {fat}");
        }
        assert_eq!(gained_fat, gained_thin);
        let arches = tools.run_well(&["llvm-lipo-23", "-archs", &changed_fat[0]]);
        assert_eq!(arches.trim(), "x86_64 arm64");
    }
    println!("{what}: {total:?}");
    assert_enough(total.gained > 0, total);
}
