//! Tests files that are refused, each for another reason. Files with an unknown note need the rarer ways to make room.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_container::File;
use cfipack_edit::{EmbedError, Embedding, Way};
use cfipack_roundtrip::structure::check_structure;
use cfipack_testkit::{needs, rustc};

use crate::linked::{link, loaded_table, run, scratch, tools, with_table, without_table};

/// Makes a directory with a program, a library and an object by rustc.
fn by_rustc(name: &str) -> PathBuf {
    let directory = scratch(name);
    rustc::program_library_object(&directory);
    directory
}

fn refusal(bytes: &[u8]) -> EmbedError {
    let file = File::parse(bytes).expect("an ELF file");
    Embedding::of(&file, 100).expect_err("it is refused")
}

#[test]
fn refusals_name_their_reason() {
    let old = fs::read(by_rustc("refused").join("program")).expect("rustc writes it");
    let len = old.len() as u64;
    let with = |more: &[u8]| [&old[..], more].concat();
    let overlay = EmbedError::Overlay { offset: len, size: 12 };
    assert_eq!(refusal(&with(b"PK\x03\x04archive\n")), overlay);
    let signed = with(b"signature~Module signature appended~\n");
    assert_eq!(refusal(&signed), EmbedError::Signature { offset: len });
    // patchelf leaves zeros at the end.
    let file = with(&[0; 5]);
    assert!(Embedding::of(&File::parse(&file).expect("an ELF file"), 100).is_ok());

    let change = |offset: usize, value: &[u8]| {
        let mut bytes = old.clone();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        bytes
    };
    // sstrip clears e_shoff, e_shnum and e_shstrndx.
    let mut sectionless = change(0x28, &[0; 8]);
    sectionless[0x3c..0x40].fill(0);
    assert_eq!(refusal(&sectionless), EmbedError::NoSectionHeaders);
    // The second program header is PT_INTERP. The first loaded segment follows it.
    let phdr = 64 + 2 * 56;
    assert_eq!(old[phdr..phdr + 4], [1, 0, 0, 0], "PT_LOAD");
    let physical = EmbedError::PhysicalAddress { offset: phdr as u64, value: 0x10_0000 };
    assert_eq!(refusal(&change(phdr + 24, &0x10_0000_u64.to_le_bytes())), physical);
    let order = refusal(&change(phdr + 16, &0x1000_0000_u64.to_le_bytes()));
    assert!(matches!(order, EmbedError::PhysicalAddress { .. } | EmbedError::SegmentOrder { .. }), "{order}");
    let class = File::parse(&change(4, &[1])).expect_err("32 bits");
    assert_eq!(class.to_string(), "offset 0x12: 32-bit machine x32 (0x3e) is not supported");
    let core = File::parse(&change(16, &[4, 0])).expect_err("a core file");
    assert_eq!(core.to_string(), "offset 0x10: file type core dump (0x4) is not supported");
}

#[test]
fn objects_are_refused() {
    let object = fs::read(by_rustc("object-of-rustc").join("object.o")).expect("rustc writes it");
    assert_eq!(refusal(&object), EmbedError::Relocatable);
}

#[test]
#[ignore = "needs objcopy"]
fn debug_files_are_refused() {
    needs::program("objcopy", "binutils");
    let directory = by_rustc("debug-files");
    let (program, debug) = (directory.join("program"), directory.join("program.debug"));
    let status = Command::new("objcopy").arg("--only-keep-debug").args([&program, &debug]).status();
    assert!(status.is_ok_and(|status| status.success()), "objcopy");
    let bytes = fs::read(debug).expect("objcopy writes it");
    assert!(matches!(refusal(&bytes), EmbedError::NoContents { .. }), "{}", refusal(&bytes));
}

/// A note of an unknown owner may have addresses relative to itself, so it must not move.
#[test]
#[ignore = "needs the reference tools and gcc"]
fn unknown_notes_stay() {
    let directory = scratch("notes");
    let note = directory.join("note.o");
    let source = directory.join("note.s");
    let text = "\t.section .note.aaa,\"a\",@note\n\t.balign 4\n\t.long 8,8,1\n\t.asciz \"Unknown\"\n\t.quad 7\n\
        \t.section .note.GNU-stack,\"\",@progbits\n";
    fs::write(&source, text).expect("a file can be written");
    let status = Command::new("cc").arg("-c").arg("-o").arg(&note).arg(&source).status();
    assert!(status.is_ok_and(|status| status.success()), "a C compiler");
    let note = note.to_str().expect("a path");
    let (mut ways, mut refused) = (Vec::new(), 0);
    let kinds = [
        ("library", "library.o", &["-shared"][..]),
        ("pie", "program.o", &["-pie"]),
        ("fixed", "program.fixed.o", &["-no-pie"]),
        ("static", "program.fixed.o", &["-static", "-no-pie"]),
    ];
    for (kind, object, options) in kinds {
        for (number, linker) in tools().0.iter().enumerate() {
            let path = directory.join(format!("{kind}-{number}"));
            let what = format!("{kind} by {}", linker.name);
            let Some(old) = link(linker, &path, object, &[options, &[note]].concat()) else { continue };
            if let Err(error) = Embedding::of(&File::parse(&old).expect("a linked file"), 5000) {
                // A page of program headers needs lower addresses, which only a file at fixed addresses can have.
                let is_movable = ["pie", "library"].contains(&kind);
                assert!(is_movable && matches!(error, EmbedError::NoRoom { .. }), "{what}: {error}");
                refused += 1;
                continue;
            }
            let before = run(&path, &old, kind == "library");
            let (new, embedded) = with_table(&old);
            assert_eq!(run(&path, &new, kind == "library"), before, "{what}, {:?}", embedded.way);
            assert_eq!(loaded_table(&new), Some((embedded.address.0, &embedded.table[..])), "{what}");
            // The new tables are longer than a page, and longer than the room that is left.
            let file = File::parse(&new).expect("a linked file");
            let longer = Embedding::of(&file, 70_000).expect("a place").rewrite(vec![1; 70_000]).to_vec(&new);
            assert_eq!(run(&path, &longer, kind == "library"), before, "{what}, longer");
            assert!(without_table(&new) == old, "{what}, {:?}: not the original", embedded.way);
            assert_eq!(run(&path, &without_table(&longer), kind == "library"), before, "{what}, without");
            assert!(section(&new, ".note.aaa", Path::new(&path)), "{what}");
            ways.push(embedded.way);
        }
    }
    let has = |wanted: fn(&Way) -> bool| ways.iter().any(wanted);
    assert!(has(|way| matches!(way, Way::Prepend)) && refused != 0, "{ways:?}, {refused} refused");
}

/// Go's linker includes padding in the size of its note's name. It puts this note right after the program headers.
#[test]
#[ignore = "needs the reference tools and gcc"]
fn notes_of_go_move() {
    let directory = scratch("go");
    let (source, note) = (directory.join("note.s"), directory.join("note.o"));
    let text = "\t.section .note.go.buildid,\"a\",@note\n\t.balign 4\n\t.long 4,83,4\n\t.ascii \"Go\\0\\0\"\n\
        \t.fill 83,1,0x61\n\t.balign 4\n\t.section .note.GNU-stack,\"\",@progbits\n";
    fs::write(&source, text).expect("a file can be written");
    let status = Command::new("cc").arg("-c").arg("-o").arg(&note).arg(&source).status();
    assert!(status.is_ok_and(|status| status.success()), "a C compiler");
    let note = note.to_str().expect("a path");
    let mut moved = 0;
    for linker in &tools().0 {
        let path = directory.join("program");
        // The note precedes the notes of the C library.
        let options = ["-pie", "-Wl,--build-id=none", note];
        let Some(old) = link(linker, &path, "program.o", &options) else { continue };
        let before = run(&path, &old, false);
        let (new, embedded) = with_table(&old);
        assert!(matches!(embedded.way, Way::Evict { .. }), "{}: {:?}", linker.name, embedded.way);
        assert_eq!(run(&path, &new, false), before, "{}", linker.name);
        assert!(without_table(&new) == old, "{}: not the original", linker.name);
        let moves = check_structure(&old, &new).expect("it was checked").moved;
        let names = moves.iter().map(|one| name_of_section(&old, one.old));
        moved += usize::from(names.into_iter().any(|name| name == ".note.go.buildid"));
    }
    assert!(moved > 0, "a linker puts the note where program headers go");
}

fn name_of_section(bytes: &[u8], address: u64) -> String {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(bytes).expect("an ELF file");
    let section = file.sections().find(|section| section.address() == address && section.size() != 0);
    section.and_then(|section| section.name().ok().map(str::to_owned)).unwrap_or_default()
}

/// lld drops an empty segment, but still counts its program header in `PT_PHDR`.
#[test]
#[ignore = "needs the reference tools and gcc"]
fn the_size_of_the_program_headers_is_restored() {
    let directory = scratch("surplus");
    let (source, object) = (directory.join("start.c"), directory.join("start.o"));
    fs::write(&source, "int f(int n) { return n ? n + f(n / 2) : 0; }\nint _start(void) { return f(5); }\n")
        .expect("a file can be written");
    let status = Command::new("cc").args(["-c", "-O1", "-o"]).arg(&object).arg(&source).status();
    assert!(status.is_ok_and(|status| status.success()), "a C compiler");
    let object = object.to_str().expect("a path");
    let mut larger = 0;
    for linker in &tools().0 {
        for options in [&["-nostdlib", "-static"][..], &["-nostdlib", "-pie"]] {
            let Some(old) = link(linker, &directory.join("program"), object, options) else { continue };
            let headers = u64::from(u16::from_le_bytes([old[56], old[57]]));
            let own = (0..headers as usize)
                .map(|index| 64 + 56 * index)
                .find(|at| old[*at..*at + 4] == [6, 0, 0, 0]);
            let size = own.map(|at| u64::from_le_bytes(old[at + 32..at + 40].try_into().expect("8 bytes")));
            larger += usize::from(size.is_some_and(|size| size > 56 * headers));
            let (new, embedded) = with_table(&old);
            let what = format!("{}, {options:?}, {:?}", linker.name, embedded.way);
            assert!(without_table(&new) == old, "{what}: stripped, it is not the original");
        }
    }
    println!("{larger} files have room for a program header more in PT_PHDR");
}

/// wild puts section headers right after the program headers. A table's program headers overwrite the first of them. In
/// a file without symbols, names of sections are the last bytes, with padding.
#[test]
fn overwritten_section_headers_are_restored() {
    for name in ["headers_first", "headers_first.stripped"] {
        let file = cfipack_tests::corpora::directory().join("container").join(name);
        let old = fs::read(file).expect("a file of the corpora");
        let (new, _) = with_table(&old);
        assert!(
            new[old_headers(&old)] != old[old_headers(&old)],
            "{name}: the table's program headers are elsewhere"
        );
        assert!(without_table(&new) == old, "{name}: stripped, it is not the original");
    }
}

/// Returns the range of a file's section headers.
fn old_headers(file: &[u8]) -> std::ops::Range<usize> {
    let number = |at: usize, len: usize| {
        file[at..at + len].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
    };
    number(0x28, 8)..number(0x28, 8) + 64 * number(0x3c, 2)
}

/// Sections of this kind may move, but not if a relocated pointer leads there.
#[test]
#[ignore = "needs the reference tools and gcc"]
fn pointers_keep_sections_in_place() {
    let directory = scratch("pointers");
    let (source, object) = (directory.join("pointer.s"), directory.join("pointer.o"));
    let text = "\t.section .note.zzz,\"a\",@note\n\t.balign 4\n\t.long 4,4,1\n\t.asciz \"GNU\"\ninside:\t.long 42\n\
        \t.section .data.rel,\"aw\"\n\t.balign 8\npointer:\t.quad inside\n\t.text\n\t.globl main\n\
        \t.type main,@function\nmain:\t.cfi_startproc\n\tmov pointer(%rip),%rax\n\tmov (%rax),%eax\n\tret\n\
        \t.cfi_endproc\n\t.size main,.-main\n\t.section .note.GNU-stack,\"\",@progbits\n";
    fs::write(&source, text).expect("a file can be written");
    let status = Command::new("cc").arg("-c").arg("-o").arg(&object).arg(&source).status();
    assert!(status.is_ok_and(|status| status.success()), "a C compiler");
    let object = object.to_str().expect("a path");
    let mut linked = 0;
    for options in
        [&["-pie"][..], &["-pie", "-Wl,-z,pack-relative-relocs"], &["-pie", "-Wl,--pack-dyn-relocs=relr"]]
    {
        for linker in &tools().0 {
            let path = directory.join("program");
            let Some(old) = link(linker, &path, object, options) else { continue };
            // With these options some linkers make files that loaders refuse.
            if run(&path, &old, false) != "exit status: 42" {
                continue;
            }
            let what = format!("{options:?} by {}", linker.name);
            if let Err(error) = Embedding::of(&File::parse(&old).expect("a linked file"), 5000) {
                assert!(matches!(error, EmbedError::Reference { .. }), "{what}: {error}");
                linked += 1;
                continue;
            }
            let (new, embedded) = with_table(&old);
            let what = format!("{what}, {:?}", embedded.way);
            assert_eq!(run(&path, &new, false), "exit status: 42", "{what}");
            linked += 1;
        }
    }
    assert!(linked > 0, "no linker links it");
}

/// Returns whether a section's bytes still end with the number 7.
fn section(bytes: &[u8], name: &str, path: &Path) -> bool {
    use object::{Object as _, ObjectSection as _};
    let file = object::File::parse(bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let contents = file.section_by_name(name).and_then(|section| section.data().ok().map(<[u8]>::to_vec));
    contents.is_some_and(|contents| contents.ends_with(&7_u64.to_le_bytes()))
}
