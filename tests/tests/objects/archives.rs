//! Puts tables into members of archives. The tools that make and read archives judge the result.

use std::path::PathBuf;

use cfipack_container::{Error, members};
use cfipack_edit::rewrite_members;
use cfipack_encoder::sframe::Options;
use cfipack_testkit::needs;
use cfipack_tests::embedded_objects::{embed, embedded_archive, stripped_archive};
use cfipack_tests::machine;
use cfipack_tests::reference::Tools;

/// Makes members: names of all lengths, one name twice, one member of odd length, one that is no object, and an empty one.
fn make_members(tools: &Tools) {
    let function = |name: &str| {
        format!(
            ".text\n.globl {name}\n{name}:\n.cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\npop %rbx\nret\n.cfi_endproc\n"
        )
    };
    for (file, name) in [
        ("a.o", "first"),
        ("short_name.o", "second"),
        ("a_long_name_that_has_no_room.o", "third"),
        ("name with spaces.o", "fourth"),
    ] {
        tools.write("x.s", function(name));
        tools.run_well(&["as", "x.s", "-o", file]);
    }
    tools.write("none.s", ".data\n.globl data\ndata: .byte 1\n");
    tools.run_well(&["as", "none.s", "-o", "none.o"]);
    tools.write("text.txt", "a text\n");
    tools.write("odd.bin", "odd");
    tools.write("empty", "");
    tools.run_well(&["mkdir", "-p", "dir"]);
    tools.write("x.s", function("fifth"));
    tools.run_well(&["as", "x.s", "-o", "dir/a.o"]);
    tools.run_well(&["touch", "-d", "2001-02-03 04:05:06", "a.o"]);
    tools.run_well(&["chmod", "640", "short_name.o"]);
}

const MEMBERS: [&str; 9] = [
    "a.o",
    "odd.bin",
    "short_name.o",
    "a_long_name_that_has_no_room.o",
    "name with spaces.o",
    "none.o",
    "text.txt",
    "empty",
    "dir/a.o",
];

/// Returns `ar tv`'s lines without sizes, and the sizes. A line has mode, owner, date and name.
fn listing(tools: &Tools, ar: &str, archive: &str) -> Vec<(String, u64)> {
    let text = tools.run_well(&[ar, "tv", archive]);
    let lines = text.lines().map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let size = fields[2].parse().expect("a size");
        ([&fields[..2], &fields[3..]].concat().join(" "), size)
    });
    lines.collect()
}

fn symbol_index(tools: &Tools, ar: &str, archive: &str) -> String {
    let nm: &[&str] = if ar == "ar" { &["nm", "-s"] } else { &["llvm-nm-23", "--print-armap"] };
    let text = tools.run_well(&[nm, &[archive]].concat());
    let start = text.to_lowercase().find("archive").unwrap_or_else(|| panic!("an index in {text}"));
    text[start..].split("\n\n").next().unwrap().to_owned()
}

#[test]
#[ignore = "needs the reference tools"]
fn archives_of_every_form_keep_all_but_tables() {
    let tools = Tools::find();
    make_members(&tools);
    let forms: [(&str, &[&str]); 7] = [
        ("ar", &["ar", "qcsU"]),
        ("ar", &["ar", "qcsD"]),
        ("llvm-ar-23", &["llvm-ar-23", "qcsU", "--format=gnu"]),
        ("llvm-ar-23", &["llvm-ar-23", "qcsU", "--format=bsd"]),
        ("llvm-ar-23", &["llvm-ar-23", "qcsU", "--format=darwin"]),
        ("llvm-ar-23", &["env", "SYM64_THRESHOLD=0", "llvm-ar-23", "qcsU", "--format=gnu"]),
        ("llvm-ar-23", &["env", "SYM64_THRESHOLD=0", "llvm-ar-23", "qcsU", "--format=darwin"]),
    ];
    for (ar, create) in forms {
        let name = create.join(" ");
        tools.run_well(&["rm", "-f", "old.a"]);
        tools.run_well(&[create, &["old.a"], &MEMBERS[..]].concat());
        let old = tools.read("old.a");
        let is_padded = name.contains("darwin");
        for options in [Options::new(), cfipack_tests::gnu::OPTIONS] {
            let (new, count) = embedded_archive(&old, options);
            assert_eq!(count, 5, "{name}: members with functions");
            tools.write("new.a", &new);
            assert!(embedded_archive(&new, options).0 == new, "{name}: twice");
            // A padded member keeps its padding, which belongs to the member.
            if !is_padded {
                assert!(stripped_archive(&new) == old, "{name}: removed again");
            }

            let (before, after) = (listing(&tools, ar, "old.a"), listing(&tools, ar, "new.a"));
            let names = |all: &[(String, u64)]| all.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
            assert_eq!(names(&after), names(&before), "{name}");
            let grown = before.iter().zip(&after).filter(|(before, after)| before.1 < after.1).count();
            assert_eq!(grown, 5, "{name}");
            assert_eq!(symbol_index(&tools, ar, "new.a"), symbol_index(&tools, ar, "old.a"), "{name}");

            // The bytes of the members, as the tool extracts them.
            let members: Vec<_> = members(&new).unwrap().map(Result::unwrap).collect();
            assert_eq!(members.len(), MEMBERS.len(), "{name}");
            for (member, file) in members.iter().zip(MEMBERS) {
                let object = tools.read(file);
                let expected = match file.ends_with(".o").then(|| embed(&object, options).unwrap()) {
                    Some(Some(new)) => new.to_vec(&object),
                    _ => object,
                };
                // Of two members with one name, tools print both or the first.
                if !is_padded && !file.ends_with("a.o") {
                    let printed = tools.run(&[ar, "p", "new.a", file]).stdout;
                    assert!(printed == expected, "{name}: {file}");
                }
                assert!(member.bytes.starts_with(&expected), "{name}: {file}");
            }

            // The tool's new index is the same as ours, so it leads to the same members.
            tools.write("again.a", &new);
            let ranlib: &[&str] =
                if ar == "ar" { &["ranlib", "-U", "again.a"] } else { &["llvm-ranlib-23", "-U", "again.a"] };
            tools.run_well(ranlib);
            if !name.contains("SYM64") {
                assert_eq!(symbol_index(&tools, ar, "again.a"), symbol_index(&tools, ar, "new.a"), "{name}");
            }
            tools.write("main.s", ".globl _start\n_start: call first\ncall third\ncall fifth\n");
            tools.run_well(&["as", "main.s", "-o", "main.o"]);
            let linkers: &[&str] =
                if is_padded || name.contains("bsd") { &["ld.lld-23"] } else { &["ld", "ld.lld-23"] };
            for ld in linkers {
                let output = tools.run(&[ld, "main.o", "new.a", "-o", "program"]);
                assert!(output.status.success(), "{name}: {ld}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

/// Every toolchain has `libcore`.
#[test]
fn rusts_libraries_keep_all_but_tables() {
    static_libraries_keep_all_but_tables(&[machine::toolchain_archive("libcore-")]);
}

#[test]
#[ignore = "needs g++"]
fn the_machines_static_libraries_keep_all_but_tables() {
    needs::program("g++", "g++");
    let path = |name: &str| {
        let printed =
            std::process::Command::new("g++").arg(format!("-print-file-name={name}")).output().unwrap();
        String::from_utf8(printed.stdout).unwrap().trim().into()
    };
    static_libraries_keep_all_but_tables(&["libc.a", "libm.a", "libpthread.a", "libstdc++.a"].map(path));
}

fn static_libraries_keep_all_but_tables(paths: &[PathBuf]) {
    let mut found = 0;
    for path in paths {
        let old = std::fs::read(path).unwrap();
        // libm.a may be a linker script, and libpthread.a may be empty.
        if !old.starts_with(b"!<arch>\n") || old.len() == 8 {
            continue;
        }
        let (new, count) = embedded_archive(&old, Options::new());
        assert!(stripped_archive(&new) == old, "{}: removed again", path.display());
        assert!(embedded_archive(&new, Options::new()).0 == new, "{}: twice", path.display());
        let (before, after) = (members(&old).unwrap().count(), members(&new).unwrap().count());
        assert_eq!(before, after);
        println!("{}: {count} of {before} members, {} bytes, then {}", path.display(), old.len(), new.len());
        // By the crate `object`, the index leads from every symbol to the same member as before.
        let leads = |bytes: &[u8]| {
            let archive = object::read::archive::ArchiveFile::parse(bytes).unwrap();
            let symbols = archive.symbols().unwrap().into_iter().flatten().map(Result::unwrap);
            let name = |symbol: object::read::archive::ArchiveSymbol<'_>| {
                let member = archive.member(symbol.offset()).unwrap();
                (symbol.name().to_vec(), member.name().to_vec(), member.date(), member.mode())
            };
            symbols.map(name).collect::<Vec<_>>()
        };
        assert!(leads(&new) == leads(&old), "{}: the symbol index", path.display());
        found += 1;
    }
    assert_ne!(found, 0, "{paths:?}");
}

#[test]
fn what_cannot_be_changed_is_refused_or_left() {
    let none = |bytes: &[u8]| {
        rewrite_members(bytes, |_| Ok::<_, Error>(None)).map(|rewrite| rewrite.is_unchanged(bytes))
    };
    assert_eq!(none(b"!<arch>\n"), Ok(true));
    assert_eq!(none(b"no archive"), Ok(true));
    assert_eq!(none(b"!<thin>\n"), Err(Error::ThinArchive));
    let member = |name: &str, size: &str, bytes: &str| {
        format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n{bytes}", 0, 0, 0, 644)
    };
    let archive = |members: &[String]| format!("!<arch>\n{}", members.concat()).into_bytes();
    assert_eq!(none(&archive(&[member("a/", "3", "abc")])), Ok(true), "without the last byte of padding");
    assert_eq!(none(&archive(&[member("a/", "x", "abc")])), Err(Error::Archive { offset: 8 }));
    assert_eq!(none(&archive(&[member("a/", "4", "abc")])), Err(Error::Archive { offset: 8 }));
    assert_eq!(none(&archive(&[member("/9", "4", "abcd")])), Err(Error::Archive { offset: 8 }), "no names");
    assert_eq!(none(&archive(&[member("#1/5", "4", "abcd")])), Err(Error::Archive { offset: 8 }));

    // This index leads to no member.
    let bytes = archive(&[member("/", "10", "\0\0\0\u{1}\0\0\0\u{52}a\0"), member("a/", "3", "abc\n")]);
    let longer = |bytes: &'_ [u8]| {
        rewrite_members(bytes, |member| {
            assert_eq!(member.name.as_deref(), Some("a"));
            let mut new = cfipack_edit::Rewrite::unchanged(member.bytes.len());
            new.bytes("test", &b"de"[..]);
            Ok::<_, Error>(Some(new))
        })
        .map(|rewrite| rewrite.to_vec(bytes))
    };
    let new = longer(&bytes).unwrap_err();
    assert_eq!(new, Error::ArchiveIndex { offset: 72, value: 0x52 });
    let bytes = archive(&[member("/", "10", "\0\0\0\u{1}\0\0\0\u{4e}a\0"), member("a/", "3", "abc\n")]);
    let new = longer(&bytes).unwrap();
    assert_eq!(
        new,
        archive(&[member("/", "10", "\0\0\0\u{1}\0\0\0\u{4e}a\0"), member("a/", "5", "abcde\n")])
    );
}
