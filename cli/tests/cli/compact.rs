//! Tests `__unwind_info` and `__compact_unwind`: dumps equal llvm-objdump's, tables are built, and reports describe
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_tests::corpora::{self, Assembled, Link};
use serde_json::{Value, json};

use crate::program::{run, run_in, scratch};

mod verified;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/compact-unwind")
}

/// Reads and decompresses a file of `link/`.
pub fn linked(name: &str) -> Vec<u8> {
    corpora::decompress(&corpus().join("link").join(format!("{name}.gz")))
}

/// The name of every linked page layout in the corpus: `l_…`, `la_…`.
fn links() -> Vec<String> {
    let files = fs::read_dir(corpus().join("link")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.filter_map(|name| Some(name.to_str()?.strip_suffix(".dylib.gz")?.to_owned()));
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert!(names.len() > 100, "{names:?}");
    names
}

/// Writes files of `link/` into a directory for this test alone.
pub fn unpack(test: &str, names: &[&str]) -> PathBuf {
    let directory = scratch(test);
    for name in names {
        fs::write(directory.join(name), linked(name)).unwrap();
    }
    directory
}

pub fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

pub fn json_of(directory: &Path, arguments: &[&str]) -> Value {
    let output = run_in(directory, arguments);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the only line of standard error. The status must be 2.
pub fn error_of(directory: &Path, arguments: &[&str]) -> String {
    let output = run_in(directory, arguments);
    let error = text(output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
    error
}

/// The line that llvm-objdump 23 prints before the contents. The goldens do not have it.
pub fn heading(name: &str, format: &str) -> String {
    format!("\n{name}:\tfile format {format}\nUnwind info:\n\n")
}

#[test]
fn dumps_of_images_are_llvm_objdumps() {
    let directory = scratch("dump-images");
    for Link { name, image, dump, .. } in corpora::compact_unwind_links() {
        let file = format!("{name}.dylib");
        fs::write(directory.join(&file), image).unwrap();
        let output = run_in(&directory, &["dump", &file]);
        if dump.is_empty() {
            assert_eq!(output.status.code(), Some(2), "{name}");
            continue;
        }
        let format = if name.starts_with("la_") { "mach-o arm64" } else { "mach-o 64-bit x86-64" };
        assert_eq!(text(output.stdout), heading(&file, format) + &dump);
        assert_eq!(output.status.code(), Some(0));
    }
}

/// The linked objects have several functions, symbols, personalities and LSDAs in one section.
#[test]
fn dumps_of_objects_are_llvm_objdumps() {
    let directory = corpus().join("mc");
    for Assembled { name, dump, .. } in corpora::compact_unwind_objects() {
        if dump.is_empty() {
            continue;
        }
        let format = match &name[..1] {
            _ if name.contains("arm64_32") => "mach-o arm64 (ilp32)",
            "i" => "mach-o 32-bit i386",
            "a" => "mach-o arm64",
            _ => "mach-o 64-bit x86-64",
        };
        let file = format!("{name}.o");
        assert_eq!(text(run_in(&directory, &["dump", &file]).stdout), heading(&file, format) + &dump);
    }
}

/// Rebuilding an image in layout `lld` gives the image's own section. Every layout has the same meaning, and none is
/// smaller than `small`.
#[test]
fn tables_are_rebuilt() {
    let directory = scratch("layouts");
    let [own, made] = ["own", "made"].map(|name| directory.join(name));
    let [own, made] = [own.to_str().unwrap(), made.to_str().unwrap()];
    for name in links() {
        let image = linked(&format!("{name}.dylib"));
        let section = cfipack_container::File::parse(&image)
            .unwrap()
            .as_macho()
            .unwrap()
            .unwind_info_section()
            .unwrap();
        let Some(section) = section else { continue };
        fs::write(own, &image).unwrap();
        let mut sizes = Vec::new();
        for layout in ["small", "lld", "ld-prime", "ld64-253", "ld64", "zig"] {
            let output = run(&["unwind-info", own, "--layout", layout, "--section", made]);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", text(output.stderr));
            let bytes = fs::read(made).unwrap();
            // A page of ld64 can be larger than 4096 bytes.
            if layout != "ld64" {
                sizes.push(bytes.len());
            }
            if layout == "lld" {
                assert!(bytes == *section.bytes, "{name}");
            }
            let output = run(&["diff", own, made]);
            if layout.starts_with("ld64") && output.status.code() == Some(1) && !name.contains("persbit") {
                // The image's table ends one byte after the code.
                let difference = "0 different, 0 only in A, 1 only in B\n";
                assert!(text(output.stdout.clone()).contains(difference), "{name}: {}", text(output.stdout));
                continue;
            }
            // In `persbit` an entry lacks its personality, which is reported as an error.
            let expected = if name.contains("persbit") { Some(1) } else { Some(0) };
            assert_eq!(output.status.code(), expected, "{name} {layout}: {}", text(output.stdout));
        }
        assert_eq!(sizes.iter().min(), Some(&sizes[0]), "{name}: {sizes:?}");
    }
}

/// ld64 puts the sentinel one byte after the code. Only ld64's layouts keep it there.
#[test]
fn the_byte_after_the_code() {
    let mut image = linked("l_002_one.dylib");
    let section = cfipack_container::File::parse(&image)
        .unwrap()
        .as_macho()
        .unwrap()
        .unwind_info_section()
        .unwrap()
        .unwrap();
    let header = cfipack_decoder::unwind_info::Section::parse(&section.bytes).unwrap().header();
    let place = image.windows(section.bytes.len()).position(|bytes| bytes == &*section.bytes).unwrap();
    let sentinel = place + header.index_off as usize + 12 * (header.index_count as usize - 1);
    let end = image[sentinel];
    image[sentinel] += 1;
    let directory = scratch("byte");
    fs::write(directory.join("own"), &image).unwrap();
    for (layout, after_code) in
        [("small", 0), ("ld-prime", 0), ("ld-prime-27", 1), ("ld64", 1), ("ld64-253", 1)]
    {
        let output = run_in(&directory, &["unwind-info", "own", "--layout", layout, "--section", "made"]);
        assert_eq!(output.status.code(), Some(0), "{layout}: {}", text(output.stderr));
        let made = fs::read(directory.join("made")).unwrap();
        let made = cfipack_decoder::unwind_info::Section::parse(&made).unwrap();
        assert_eq!(made.index().last().unwrap().function.0 as u8, end + after_code, "{layout}");
    }
}

/// Apple's linker puts the sentinel at the end of `__text`, even if code of other sections follows. Entries after the
/// sentinel are found by no reader. All other entries are converted.
#[test]
fn entries_after_the_sentinel() {
    let mut image = linked("l_2_alt_1020.dylib");
    let section = cfipack_container::File::parse(&image).unwrap();
    let section = section.as_macho().unwrap().unwind_info_section().unwrap().unwrap().bytes.to_vec();
    let table = cfipack_decoder::unwind_info::Section::parse(&section).unwrap();
    let entries: Vec<_> = table.entries().map(Result::unwrap).collect();
    let header = table.header();
    let place = image.windows(section.len()).position(|bytes| bytes == section).unwrap();
    let sentinel = place + header.index_off as usize + 12 * (header.index_count as usize - 1);
    // The new end is inside the 1018th function. Two functions are lost, and part of a third.
    let end = entries[1017].start.0 + 1;
    image[sentinel..sentinel + 4].copy_from_slice(&end.to_le_bytes());
    let directory = scratch("after-sentinel");
    fs::write(directory.join("own"), &image).unwrap();
    let output = run_in(&directory, &["unwind-info", "own", "--section", "made"]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(output.stderr);
    let message = "own: 2 functions after the sentinel of the file's table, where no reader looks for them, are omitted: ";
    assert!(error.contains(message), "{error}");
    let made = fs::read(directory.join("made")).unwrap();
    let made = cfipack_decoder::unwind_info::Section::parse(&made).unwrap();
    let starts: Vec<_> = made.entries().map(|entry| entry.unwrap().start).collect();
    assert!(starts.iter().eq(entries[..1018].iter().map(|entry| &entry.start)));
    assert_eq!(made.index().last().unwrap().function.0, end);
    let json = json_at(&directory, &["unwind-info", "own", "--json"], 1);
    let expected: Vec<_> = entries[1018..].iter().map(|entry| entry.start.0).collect();
    let found = json["after_sentinel"].as_array().unwrap();
    let found: Vec<_> =
        found.iter().map(|start| u32::from_str_radix(&start.as_str().unwrap()[2..], 16)).collect();
    assert_eq!(found, expected.into_iter().map(Ok).collect::<Vec<_>>());
    let json = json_at(&directory, &["verify", "own", "--json"], 1);
    assert_eq!(json["rules"]["after-sentinel"], 2);
    assert!(json["rules"].get("malformed").is_none(), "{json}");
}

/// Returns the JSON that a run prints, and ignores its warnings.
fn json_at(directory: &Path, arguments: &[&str], status: i32) -> Value {
    let output = run_in(directory, arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Rows of an object give the entries that lld makes of them, at other addresses.
#[test]
fn tables_are_built_from_rows() {
    for name in ["l_2_alt_1022", "l_5_lsda_same", "l_6_pers_3", "la_3_mixed_local", "l_005_none_between"] {
        let (image, object) = (format!("{name}.dylib"), format!("{name}.o"));
        let directory = unpack("rows", &[&image, &object]);
        let output = run_in(&directory, &["unwind-info", &object, "--layout", "lld", "--section", "made"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(output.stderr));
        let tables = [&image[..], "made"].map(|file| {
            let dump = json_of(&directory, &["dump", "--json", file]);
            assert_eq!(dump["schema"], "cfipack/dump/1");
            let table = &dump["unwind_info"];
            let hex = |value: &Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
            let mut entries = Vec::new();
            for page in table["pages"].as_array().unwrap() {
                for entry in page["entries"].as_array().unwrap() {
                    entries.push((hex(&entry["function"]), entry["encoding"].clone()));
                }
            }
            let first = entries[0].0;
            entries.iter_mut().for_each(|entry| entry.0 -= first);
            let count = |name: &str| table[name].as_array().unwrap().len();
            let end = hex(&table["end"]) - first;
            (entries, end, table["bytes"].clone(), count("lsdas"), count("personalities"))
        });
        assert_eq!(tables[0], tables[1], "{name}");
    }
}

#[test]
fn summaries() {
    let directory = unpack("summaries", &["l_8_dwarf_lsda.dylib", "l_6_pers_3.dylib"]);
    let summary = json_of(&directory, &["unwind-info", "--json", "l_8_dwarf_lsda.dylib"]);
    let modes = json!({ "frame": 0, "frameless": 0, "indirect": 0, "dwarf": 3, "none": 0, "malformed": 0,
        "not_function_start": 0 });
    for (name, value) in [
        ("schema", json!("cfipack/unwind-info/1")),
        ("file", json!("l_8_dwarf_lsda.dylib")),
        ("source", json!("unwind_info")),
        ("layout", json!("small")),
        ("warnings", json!([])),
        ("more_warnings", json!(0)),
        // llvm-objdump: the section has 4184 bytes.
        ("own_bytes", json!(4184)),
    ] {
        assert_eq!(summary[name], value, "{name}");
    }
    let table = &summary["unwind_info"];
    for (name, value) in
        [("entries", json!(3)), ("modes", modes), ("personalities", json!(0)), ("lsdas", json!(0))]
    {
        assert_eq!(table[name], value, "{name}");
    }
    assert!(table["bytes"]["total"].as_u64().unwrap() < 200);
    for (options, lsdas) in [
        (&["--omit-dwarf-lsda"][..], 0),
        (&["--keep-dwarf-lsda"], 3),
        (&["--layout", "lld"], 3),
        (&["--layout", "lld", "--omit-dwarf-lsda"], 0),
    ] {
        let arguments = [&["unwind-info", "--json", "l_8_dwarf_lsda.dylib"], options].concat();
        assert_eq!(json_of(&directory, &arguments)["unwind_info"]["lsdas"], lsdas, "{options:?}");
    }
    let output = run_in(&directory, &["unwind-info", "l_6_pers_3.dylib", "--layout", "lld"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert_eq!(
        text(output.stderr),
        "l_6_pers_3.dylib: from its __unwind_info\n  \
           __unwind_info (lld): 4196 bytes, 100.00 % of the file's own (4196)\n  \
           entries: 3, in 1 compressed and 0 regular pages\n  \
           personalities: 3, LSDAs: 3\n"
    );
}

/// The library is one of the corpus, because a library of the machine would take too long.
#[test]
fn tables_are_built_from_elf_cfi() {
    let summary: Value =
        serde_json::from_slice(&run(&["unwind-info", "linked.so", "--json", "--verify"]).stdout).unwrap();
    assert_eq!((&summary["source"], &summary["functions"]), (&json!("cfi"), &json!(5)));
    let verify = &summary["verify"];
    assert_eq!(
        (&verify["different"], &verify["missing"], &verify["unjudged"]),
        (&json!(0), &json!(0), &json!(0))
    );
    let known = ["equal", "dwarf"].map(|name| verify[name].as_u64().unwrap());
    assert_eq!(known.iter().sum::<u64>(), 5);
    assert_eq!([&summary["compact"], &summary["dwarf"], &summary["none"]], [known[0], known[1], 0]);
}

#[test]
fn lookups() {
    let directory = unpack("lookups", &["l_6_pers_3.dylib", "l_8_dwarf_1.dylib"]);
    // llvm-objdump: entries at 0x3b0, 0x3b4, 0x3b8 up to 0x3bc, LSDAs at 0x3bc.
    let output = run_in(&directory, &["lookup", "l_6_pers_3.dylib", "0x3b5", "0x3bc"]);
    assert_eq!(output.status.code(), Some(1), "the second has no entry");
    assert_eq!(
        text(output.stdout),
        "0x3b5 <_f1+0x1>: entry 0x3b4..0x3b8, encoding 0x61000000: CFA = rbp+16, return address at CFA-8, \
         rbp at CFA-16, personality in the slot at 0x2008, LSDA at 0x3bc\n0x3bc: no entry\n"
    );
    let answer = json_of(&directory, &["lookup", "--json", "l_6_pers_3.dylib", "0x3b5"]);
    assert_eq!(
        (&answer["schema"], &answer["entry"]["encoding"], &answer["row"]["cfa"]["base"]),
        (&json!("cfipack/lookup/1"), &json!("0x61000000"), &json!("rbp"))
    );
    let output = run_in(&corpus().join("mc"), &["lookup", "a06_fp_skip.o", "0"]);
    assert_eq!(
        text(output.stdout),
        "0x0 <_f>: entry 0x0..0xc, encoding 0x04000212: CFA = x29+16, return address at CFA-8, x29 at CFA-16, \
         x21 at CFA-24, x22 at CFA-32, x27 at CFA-40, x28 at CFA-48, d10 at CFA-56, d11 at CFA-64\n"
    );
}

#[test]
fn explained() {
    let mc = corpus().join("mc");
    let output = run_in(&mc, &["explain", "x36_xmm.o"]);
    assert_eq!(
        text(output.stdout),
        "__text+0x0 <_f>: encoding 0x04000000: in DWARF mode: at __text+0x4 \
         no encoding restores register 23 from where it is\n"
    );
    // llvm-mc keeps DWARF mode for personalities that it does not know.
    let explained = json_of(&mc, &["explain", "--json", "x41_pers_custom.o", "__text+0"]);
    let function = &explained["functions"][0];
    assert_eq!(
        (&explained["schema"], &function["reason"]),
        (&json!("cfipack/explain/1"), &json!("encodable"))
    );
    // Both functions have the same encoding, so the table has one entry for both.
    let directory = unpack("explained", &["l_003_two_same.dylib"]);
    for (address, name) in [
        ("0x2d0", "0x2d0 <_f0>: "),
        ("0x2d4", "0x2d4 <_f1>: "),
        ("0x2d5", "0x2d4 <_f1>: "),
        ("_f1", "0x2d4 <_f1>: "),
    ] {
        let printed = text(run_in(&directory, &["explain", "l_003_two_same.dylib", address]).stdout);
        assert!(
            printed.starts_with(name) && printed.contains("; the entry is for 0x2d0..0x2d8\n"),
            "{printed}"
        );
    }
    let output = run_in(&mc, &["explain", "x02_rbp.o"]);
    assert_eq!(text(output.stdout), "x02_rbp.o: no function is in DWARF mode\n");
}

#[test]
fn counted() {
    let directory = unpack("counted", &["l_6_pers_3.dylib", "l_6_pers_3.o"]);
    let stats = json_of(&directory, &["stats", "--json", "l_6_pers_3.dylib"]);
    let bytes = &stats["unwind_info"]["bytes"];
    assert_eq!(
        (&stats["schema"], &bytes["total"], &bytes["lsdas"]),
        (&json!("cfipack/stats/1"), &json!(4196), &json!(24))
    );
    assert_eq!((&stats["coverage"]["functions"], &stats["coverage"]["compact"]), (&json!(3), &json!(3)));
    let stats = json_of(&directory, &["stats", "--json", "l_6_pers_3.o"]);
    assert_eq!(
        (&stats["compact_unwind"]["rows"], &stats["compact_unwind"]["bytes"]),
        (&json!(3), &json!(96))
    );
}

/// Returns the offset of `__unwind_info` in a file. Its bytes must occur once.
pub fn offset_of_table(image: &[u8]) -> usize {
    let file = cfipack_container::File::parse(image).unwrap();
    let section = file.as_macho().unwrap().unwind_info_section().unwrap().unwrap();
    image.windows(section.bytes.len()).position(|window| window == &*section.bytes).unwrap()
}

#[test]
fn other_architectures_have_no_compact_unwind() {
    for (object, arch) in [("s390x/s_cfa_0", "s390x"), ("aarch64_be/a_be", "big-endian AArch64")] {
        let object = format!("../sframe/{object}.gas247.o");
        for arguments in [&["unwind-info", &object][..], &["explain", "--unwind-info", &object]] {
            let output = run(arguments);
            assert_eq!((output.status.code(), text(output.stdout).as_str()), (Some(2), ""));
            let expected = format!("error: {object}: {arch} has no compact unwind encodings\n");
            assert_eq!(text(output.stderr), expected);
        }
    }
}
