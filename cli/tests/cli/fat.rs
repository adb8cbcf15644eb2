//! Tests fat files: a verb works on all slices, or on the slice that you select.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::compact::{error_of, heading, linked, text};
use crate::program::{run_in, scratch};

/// Makes a fat file of an x86-64 and an arm64 image, as `mach-o/fat.h` describes it.
fn fat(images: [(u32, Vec<u8>); 2]) -> Vec<u8> {
    let mut header = [0xcafe_babe, 2].map(u32::to_be_bytes).concat();
    let mut contents = Vec::new();
    for (cpu, image) in images {
        let offset = 4096 + contents.len() as u32;
        header.extend([cpu, 0, offset, image.len() as u32, 12].map(u32::to_be_bytes).concat());
        contents.extend(&image);
        contents.resize(contents.len().next_multiple_of(4096), 0);
    }
    header.resize(4096, 0);
    header.extend(contents);
    header
}

/// Makes a directory with two images, and with a fat file of both.
fn unpack(test: &str) -> PathBuf {
    let directory = scratch(test);
    let [x86, arm] = ["l_6_pers_3.dylib", "la_8_dwarf_1.dylib"].map(linked);
    fs::write(directory.join("x86"), &x86).unwrap();
    fs::write(directory.join("arm"), &arm).unwrap();
    // CPU_TYPE_X86_64 and CPU_TYPE_ARM64.
    fs::write(directory.join("fat"), fat([(0x0100_0007, x86), (0x0100_000c, arm)])).unwrap();
    directory
}

#[test]
fn fat_files_are_read_slice_by_slice() {
    let directory = unpack("fat");
    let output = run_in(&directory, &["dump", "fat"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(output.stdout),
        heading("fat(x86_64)", "mach-o 64-bit x86-64")
            + &text(linked("l_6_pers_3.objdump"))
            + &heading("fat(arm64)", "mach-o arm64")
            + &text(linked("la_8_dwarf_1.objdump"))
    );
    let output = run_in(&directory, &["unwind-info", "--json", "fat"]);
    let stdout = text(output.stdout);
    let names = stdout.lines().map(|line| {
        let summary: Value = serde_json::from_str(line).unwrap();
        (summary["file"].clone(), summary["unwind_info"]["entries"].clone())
    });
    let expected = [(json!("fat(x86_64)"), json!(3)), (json!("fat(arm64)"), json!(1))];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    let output = run_in(&directory, &["verify", "fat"]);
    assert_eq!(
        (output.status.code(), text(output.stdout).matches("no rule is broken").count()),
        (Some(0), 2)
    );
    assert_eq!(run_in(&directory, &["stats", "fat"]).status.code(), Some(0));
}

/// On a selected slice, every verb prints what it prints for a file of that architecture alone.
#[test]
fn a_slice_is_selected() {
    let directory = unpack("slice");
    for (arch, alone, address) in [("x86_64", "x86", "0x3b5"), ("arm64", "arm", "0x331")] {
        let verbs: [&[&str]; 7] = [
            &["dump", "FILE"],
            &["lookup", "FILE", address],
            &["verify", "FILE"],
            &["stats", "FILE"],
            &["explain", "FILE"],
            &["unwind-info", "FILE", "--section", "FILE.table"],
            &["diff", "FILE", "FILE.table"],
        ];
        for verb in verbs {
            let printed = |file: &str, more: &[&str]| {
                let arguments: Vec<_> = verb.iter().map(|word| word.replace("FILE", file)).collect();
                let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(more.to_vec()).collect();
                let output = run_in(&directory, &arguments);
                assert_eq!(output.status.code(), Some(0), "{verb:?}: {}", text(output.stderr));
                [output.stdout, output.stderr].map(text)
            };
            // The outputs are equal except for the file's name.
            let slice =
                printed("fat", &["--arch", arch]).map(|text| text.replace(&format!("fat({arch})"), alone));
            assert_eq!(slice, printed(alone, &[]), "{verb:?}");
            // You may also select the architecture of a file that is not fat.
            assert_eq!(slice, printed(alone, &["--arch", arch]), "{verb:?}");
        }
        let tables =
            ["fat.table", &format!("{alone}.table")].map(|name| fs::read(directory.join(name)).unwrap());
        assert!(tables[0] == tables[1], "{arch}");
    }
}

/// Verbs that describe one object go through all slices of a fat file.
#[test]
fn all_slices() {
    let directory = unpack("all_slices");
    for verb in [&["explain"][..], &["lookup", "0x331"], &["lookup", "0x3b5"]] {
        let (verb, more) = (verb[0], &verb[1..]);
        let printed = |file: &str| {
            let output = run_in(&directory, &[&[verb, file][..], more].concat());
            assert_ne!(output.status.code(), Some(2), "{verb} {file}: {}", text(output.stderr));
            text(output.stdout)
        };
        let alone = ["x86", "arm"].map(&printed);
        let named = |name: &str, text: &str, old: &str| {
            format!("fat({name}):\n{}", text.replace(old, &format!("fat({name})")))
        };
        let expected = named("x86_64", &alone[0], "x86:").replace("fat(x86_64) ", "fat(x86_64): ")
            + &named("arm64", &alone[1], "arm:").replace("fat(arm64) ", "fat(arm64): ");
        assert_eq!(printed("fat"), expected, "{verb} {more:?}");
    }
    // `diff` compares each slice with the slice of the same architecture.
    let output = run_in(&directory, &["diff", "fat", "fat"]);
    let printed = text(output.stdout);
    assert_eq!(
        (output.status.code(), printed.matches(" equal, 0 different").count()),
        (Some(0), 4),
        "{printed}"
    );
    for alone in ["x86", "arm"] {
        for pair in [["fat", alone], [alone, "fat"]] {
            assert_eq!(run_in(&directory, &["diff", pair[0], pair[1]]).status.code(), Some(0), "{pair:?}");
        }
    }
}

#[test]
fn a_missing_slice_is_one_line_of_error() {
    let directory = unpack("no_slice");
    let several = "fat: the file has several architectures, choose one with --arch: x86_64, arm64";
    let missing = "fat: the file has no arm64e, but x86_64, arm64";
    for verb in [&["lookup", "fat", "1"][..], &["explain", "fat"], &["diff", "fat", "arm"], &["fat"]] {
        let named = [verb, &["--arch", "arm64e"]].concat();
        assert!(error_of(&directory, &named).contains(missing), "{named:?}");
    }
    for verb in ["dump", "verify", "stats", "unwind-info"] {
        assert!(error_of(&directory, &[verb, "fat", "--arch", "arm64e"]).contains(missing), "{verb}");
    }
    for one in [
        &["unwind-info", "fat", "--section", "table"][..],
        &["fat", "--section", "table"],
        &["verify", "fat", "--unwind-info", "arm"],
    ] {
        let error = error_of(&directory, one);
        assert!(error.contains(several), "{error}");
    }
    let error = error_of(&directory, &["dump", "arm", "--arch", "x86_64"]);
    assert!(error.contains("arm: the file has no x86_64, but arm64"), "{error}");
}
