//! Embeds tables in programs and libraries of rustc and of every linker. They run as before, and removal gives the
//! original bytes.

use std::collections::BTreeMap;

use cfipack_container::File;
use cfipack_encoder::sframe::Options;
use cfipack_testkit::rustc;
use cfipack_tests::embedded::embed;
use cfipack_tests::linkers::LinkerKind;
use cfipack_tests::reference::Tools;
use object::elf;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _};

use crate::linked::{KINDS, link, loaded_table, run, scratch, tools, with_table, without_table};

/// Options with which rustc makes programs.
const BY_RUSTC: [&[&str]; 5] = [
    &[],
    &["-Crelocation-model=static"],
    &["-Cstrip=symbols"],
    &["-Clink-arg=-Wl,-z,separate-code"],
    &["-Clink-arg=-Wl,-z,max-page-size=0x10000", "-Clink-arg=-Wl,--build-id=none"],
];

#[test]
fn programs_of_rustc_run_as_before() {
    let directory = scratch("by-rustc");
    let mut files = Vec::new();
    for (number, options) in BY_RUSTC.iter().enumerate() {
        rustc::program(&directory, options);
        files.push((format!("a program with {options:?}"), directory.join(format!("program-{number}"))));
        std::fs::rename(directory.join("program"), &files[number].1).expect("rustc writes it");
    }
    rustc::program_library_object(&directory);
    files.push(("a library".to_owned(), directory.join("library.so")));
    for (what, path) in files {
        let old = std::fs::read(&path).expect("rustc writes it");
        let (new, embedded) = with_table(&old);
        assert_eq!(loaded_table(&new), Some((embedded.address.0, &embedded.table[..])), "{what}");
        assert!(without_table(&new) == old, "{what}, {:?}: not the original", embedded.way);
        if what != "a library" {
            assert_eq!(run(&path, &old, false), "argument 2\nexit status: 2", "{what}");
            assert_eq!(run(&path, &new, false), "argument 2\nexit status: 2", "{what}, {:?}", embedded.way);
        }
    }
}

#[test]
#[ignore = "needs the reference tools and gcc"]
fn linked_files_run_as_before() {
    let directory = scratch("programs");
    let readelf = Tools::find();
    let mut ways = BTreeMap::<String, usize>::new();
    for (number, linker) in tools().0.iter().enumerate() {
        for (kind, object, options) in KINDS {
            for strip in [false, true] {
                let path = directory.join(format!("{kind}-{number}-{strip}"));
                let what = format!("{kind} by {}, stripped: {strip}", linker.name);
                let stripped: &[&str] = if strip { &["-s"] } else { &[] };
                let Some(old) = link(linker, &path, object, &[options, stripped].concat()) else { continue };
                let is_library = kind.starts_with("library");
                let before = run(&path, &old, is_library);
                let (new, embedded) = with_table(&old);
                assert_eq!(run(&path, &new, is_library), before, "{what}, {:?}", embedded.way);
                assert_eq!(
                    loaded_table(&new),
                    Some((embedded.address.0, &embedded.table[..])),
                    "{what}, {:?}",
                    embedded.way
                );
                let read_back = File::parse(&new).expect("a linked file");
                let again = embed(&read_back, Options::new()).expect("call frame information");
                assert!(again.expect("a place").rewrite.is_unchanged(&new), "{what}: a second run");
                assert!(without_table(&new) == old, "{what}, {:?}: not the original", embedded.way);
                if !strip {
                    readelf.write("new", &new);
                    readelf.write("old", &old);
                    let warnings = |name| {
                        let output = readelf.run(&["readelf", "-lSdW", "--sframe", name]);
                        let text = String::from_utf8_lossy(&output.stderr).into_owned();
                        // Only the file with a table has these lines.
                        let text = text.lines().filter(|line| !line.contains("'.sframe'"));
                        text.map(str::to_owned).collect::<Vec<_>>()
                    };
                    assert_eq!(warnings("new"), warnings("old"), "{what}");
                }
                *ways.entry(format!("{:?}", embedded.way)).or_default() += 1;
            }
        }
    }
    println!("{ways:#?}");
    assert!(ways.values().sum::<usize>() >= 20, "enough has been linked: {ways:?}");
    assert!(ways.len() >= 3, "several ways have been taken: {ways:?}");
}

/// BOLT's `PT_GNU_RELRO` counts the zeros after a segment's bytes as bytes of the file. In lld's file the symbol table
/// is there, and symbols change when sections move. The test changes lld's header accordingly.
#[test]
#[ignore = "needs the reference tools and gcc"]
fn relro_that_counts_zeros_as_bytes() {
    let directory = scratch("relro");
    // The reference tools have the newest lld.
    let lld = tools().0.iter().rfind(|linker| linker.kind == LinkerKind::Lld).expect("one of the tools");
    let path = directory.join("program");
    let mut old = link(lld, &path, "program.o", &["-pie", "-Wl,-S"]).expect("lld links it");
    let field = |at: usize| u64::from_le_bytes(old[at..at + 8].try_into().expect("8 bytes"));
    let headers = (0..20).map(|index| 64 + 56 * index);
    let mut relro = headers.filter(|at| old[*at..at + 4] == elf::PT_GNU_RELRO.0.to_le_bytes());
    let relro = relro.next().expect("lld makes one");
    let (start, memsz) = (field(relro + 8), field(relro + 40));
    let file = ElfFile64::<object::Endianness>::parse(&old[..]).expect("an ELF file");
    let symbols = file.section_by_name(".symtab").expect("a symbol table").file_range().expect("bytes").0;
    assert!(start + memsz > symbols, "PT_GNU_RELRO with its zeros reaches over the symbol table");
    old[relro + 32..relro + 40].copy_from_slice(&memsz.to_le_bytes());
    let before = run(&path, &old, false);
    let (new, embedded) = with_table(&old);
    assert_eq!(run(&path, &new, false), before, "{:?}", embedded.way);
    assert!(without_table(&new) == old, "{:?}: not the original", embedded.way);
}
