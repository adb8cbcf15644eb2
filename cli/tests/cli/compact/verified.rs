//! Tests `__unwind_info` tables, sound and damaged, against CFI.

use super::*;

/// Before the link, personality slots have no addresses. Both ways to verify the table must find it right nevertheless.
#[test]
fn a_table_of_an_object_is_verified_alike() {
    let directory = scratch("alike");
    for name in ["x39_pers_gxx", "x40_pers_objc"] {
        let object = format!("{name}.o");
        fs::copy(corpus().join("mc").join(&object), directory.join(&object)).unwrap();
        let made = ["unwind-info", &object, "--from-cfi", "--verify", "--section", "T"];
        let output = run_in(&directory, &made);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(output.stderr));
        let output = run_in(&directory, &["verify", "--unwind-info", "T", &object]);
        let report = text(output.stdout);
        assert_eq!(output.status.code(), Some(0), "{name}: {report}");
        assert!(report.contains("__unwind_info: no rule is broken"), "{name}: {report}");
    }
}

#[test]
fn verified() {
    let directory =
        unpack("verified", &["l_8_dwarf_3.dylib", "l_8_dwarf_lsda.dylib", "l_7_stackind_nofold.dylib"]);
    let report = json_of(&directory, &["verify", "--json", "l_8_dwarf_3.dylib"]);
    for (name, value) in [
        ("schema", json!("cfipack/verify/1")),
        ("functions", json!(3)),
        ("equal", json!(0)),
        ("dwarf", json!(3)),
        ("different", json!(0)),
        ("missing", json!(0)),
        ("pcs_different", json!(0)),
        ("pcs_missing", json!(0)),
        ("reasons", json!({})),
        ("violations", json!([])),
        ("warnings", json!([])),
        ("rules", json!({})),
    ] {
        assert_eq!(report[name], value, "{name}");
    }
    let report = json_of(&directory, &["verify", "--json", "l_8_dwarf_lsda.dylib"]);
    assert_eq!(report["rules"], json!({ "lsda-orphan": 3 }));
    assert_eq!(report["warnings"].as_array().unwrap().len(), 3);
    assert_eq!(run_in(&directory, &["verify", "l_8_dwarf_lsda.dylib"]).status.code(), Some(0));
    // The library has synthetic code, without the `sub` that its encodings refer to.
    let output = run_in(&directory, &["verify", "l_7_stackind_nofold.dylib"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stdout).contains("no stack adjustment by an imm32 at byte 3\n"));
    let mc = corpus().join("mc");
    let output = run_in(&mc, &["verify", "x17_fl_2040.o", "x23_epilogue_offset.o"]);
    assert_eq!(output.status.code(), Some(1));
    let stdout = text(output.stdout);
    assert!(
        stdout.contains("x17_fl_2040.o: 1 function with CFI\n  functions: 1 equal, 0 different"),
        "{stdout}"
    );
    assert!(stdout.contains("0x1..0x3 in the function at 0x0: CFI: CFA = rsp+16, "), "{stdout}");
}

#[test]
fn a_table_from_elsewhere_is_verified() {
    let directory = unpack("elsewhere", &["l_8_dwarf_3.dylib"]);
    let made = ["unwind-info", "l_8_dwarf_3.dylib", "--section", "made"];
    assert_eq!(run_in(&directory, &made).status.code(), Some(0));
    let verify = ["verify", "l_8_dwarf_3.dylib", "--unwind-info", "made"];
    assert_eq!(run_in(&directory, &verify).status.code(), Some(0));
    let path = directory.join("made");
    let mut bytes = fs::read(&path).unwrap();
    // The last word is the last function's encoding. We move its FDE offset by 4 bytes, into an FDE.
    let last = bytes.len() - 4;
    bytes[last] += 4;
    fs::write(&path, bytes).unwrap();
    let output = run_in(&directory, &verify);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(output.stdout).contains("no record of __eh_frame at 0x"));
}

/// Linkers remove the FDEs of functions with compact rows, so the CFI lacks these functions.
#[test]
fn entries_without_cfi_are_reported() {
    let mc = corpus().join("mc");
    let output = run_in(&mc, &["unwind-info", "--from-cfi", "--verify", "x02_rbp.o"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(output.stderr));
    // llvm-mc -emit-dwarf-unwind=no-compact-unwind: an __eh_frame of no bytes.
    let output = run_in(&mc, &["unwind-info", "--from-cfi", "x56_nocu.o"]);
    assert_eq!(output.status.code(), Some(1));
    let warning = "x56_nocu.o: 1 compact entries for code without an FDE are omitted\n";
    assert!(text(output.stderr).ends_with(warning));
    // llvm-mc writes no FDE beside arm64's rows.
    let error = error_of(&mc, &["unwind-info", "--from-cfi", "a02_fp.o"]);
    assert!(error.ends_with("a02_fp.o: the file has no call frame information\n"), "{error}");
}

/// A broken page costs a dump that page alone, and a lookup only the PCs of that page.
#[test]
fn a_broken_page_affects_only_itself() {
    let directory = unpack("broken-page", &["l_2_alt_1022.dylib"]);
    let path = directory.join("l_2_alt_1022.dylib");
    let mut image = fs::read(&path).unwrap();
    let table = offset_of_table(&image);
    let word = |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let index = table + word(&image, table + 20);
    let (first, page) = (word(&image, index), word(&image, index + 4));
    let second = word(&image, index + 12);
    image[table + page] = 9;
    fs::write(&path, &image).unwrap();
    let output = run_in(&directory, &["dump", "l_2_alt_1022.dylib"]);
    let (dump, error) = (text(output.stdout), text(output.stderr));
    assert!(
        dump.contains("    Skipping 2nd level page with unknown kind 9\n    Second level index[1]: "),
        "{dump}"
    );
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        error,
        format!("error: l_2_alt_1022.dylib: section __unwind_info: offset {page:#x}: page of kind 9\n")
    );
    let pcs = [first, second].map(|pc| format!("{pc:#x}"));
    let output = run_in(&directory, &["lookup", "l_2_alt_1022.dylib", &pcs[0], &pcs[1]]);
    assert_eq!(output.status.code(), Some(2));
    let found = text(output.stdout);
    assert!(found.starts_with(&pcs[1]) && found.contains(&format!(": entry {}", pcs[1])), "{found}");
    assert_eq!(text(output.stderr).lines().count(), 1);
    let report = json_of(&directory, &["verify", "--json", "l_2_alt_1022.dylib"]);
    assert_eq!(report["rules"]["malformed"], 1);
}

#[test]
fn damaged_inputs_are_one_line() {
    let directory = unpack("damaged", &["l_6_pers_3.dylib", "l_6_pers_3.o"]);
    let image = linked("l_6_pers_3.dylib");
    let table = offset_of_table(&image);
    let damage = |name: &str, at: usize, value: u8| {
        let mut damaged = image.clone();
        damaged[table + at] = value;
        fs::write(directory.join(name), damaged).unwrap();
    };
    damage("version", 0, 2);
    damage("index", 23, 0x7f);
    damage("personalities", 19, 0x7f);
    let all = ["dump", "stats", "verify", "unwind-info"];
    for verb in all {
        let error = error_of(&directory, &[verb, "version"]);
        assert_eq!(error, "error: version: section __unwind_info: offset 0x0: version 2, not 1\n");
        for file in ["index", "personalities"] {
            let error = error_of(&directory, &[verb, file]);
            assert!(error.starts_with(&format!("error: {file}: section __unwind_info: offset 0x")));
        }
    }
    // A section's header: 16 bytes of name, 16 of segment, its address and its size of 3 rows.
    let mut object = linked("l_6_pers_3.o");
    let header = object.windows(16).position(|window| window == b"__compact_unwind").unwrap();
    assert_eq!(object[header + 40], 96);
    object[header + 40] = 97;
    fs::write(directory.join("rows"), object).unwrap();
    for verb in all {
        assert_eq!(
            error_of(&directory, &[verb, "rows"]),
            "error: rows: section __compact_unwind: offset 0x60: 1 bytes of a row of 32\n"
        );
    }
    error_of(&directory, &["lookup", "index", "0x3b0"]);
    error_of(&directory, &["diff", "index", "l_6_pers_3.dylib"]);
    error_of(&directory, &["verify", "--profile", "kernel", "l_6_pers_3.dylib"]);
    error_of(&directory, &["unwind-info", "l_6_pers_3.dylib", "--section", "-", "--json"]);
    error_of(&directory, &["unwind-info", "l_6_pers_3.dylib", "--section", "./l_6_pers_3.dylib"]);
    // A bare section does not contain its architecture.
    fs::write(directory.join("bare"), &image[table..table + 4196]).unwrap();
    assert_eq!(run_in(&directory, &["dump", "bare"]).status.code(), Some(0));
    error_of(&directory, &["lookup", "bare", "0x3b0"]);
    error_of(&directory, &["unwind-info", "bare"]);
}

/// A table built from the file's own entries keeps their errors, such as an encoding without its `sub`. Both verbs
/// reject it.
#[test]
fn a_copied_table_is_judged_as_the_files_own() {
    let directory = unpack("copied", &["l_7_stackind_nofold.dylib"]);
    for verb in [&["verify"][..], &["unwind-info", "--verify"]] {
        let arguments = [verb, &["l_7_stackind_nofold.dylib"]].concat();
        let output = run_in(&directory, &arguments);
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        let report = text(output.stdout) + &text(output.stderr);
        assert!(report.contains("no stack adjustment by an imm32 at byte 3\n"), "{verb:?}: {report}");
    }
    let json = json_at(&directory, &["unwind-info", "--verify", "--json", "l_7_stackind_nofold.dylib"], 1);
    assert!(json["verify"]["rules"]["no-immediate"].as_u64().unwrap() > 0, "{json}");
}

/// The first function's entry refers to the FDE of the second. Both ways to verify report it.
#[test]
fn a_function_found_by_a_scan_only() {
    let directory = unpack("scan", &["l_8_dwarf_3.dylib"]);
    let path = directory.join("l_8_dwarf_3.dylib");
    let mut image = fs::read(&path).unwrap();
    let table = offset_of_table(&image);
    let file = cfipack_container::File::parse(&image).unwrap();
    let bytes = file.as_macho().unwrap().unwind_info_section().unwrap().unwrap().bytes.to_vec();
    let section = cfipack_decoder::unwind_info::Section::parse(&bytes).unwrap();
    let page = section.pages().next().unwrap().unwrap();
    let encodings: Vec<_> = (0..2).map(|at| page.entry(at).unwrap().unwrap().encoding.0).collect();
    // The first function's entry names the FDE of the second.
    let [first, second] = [encodings[0], encodings[1]].map(u32::to_le_bytes);
    let at = bytes.windows(4).position(|word| word == first).unwrap();
    image[table + at..table + at + 4].copy_from_slice(&second);
    fs::write(&path, image).unwrap();
    for verb in [&["verify"][..], &["unwind-info", "--verify"]] {
        let output = run_in(&directory, &[verb, &["l_8_dwarf_3.dylib"]].concat());
        assert_eq!(output.status.code(), Some(1), "{verb:?}");
        let report = text(output.stdout) + &text(output.stderr);
        assert!(report.contains("1 whose FDE is found by a scan only"), "{verb:?}: {report}");
    }
}
