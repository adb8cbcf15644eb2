//! Tests rows that contradict the CFI, symbols inside functions, and personalities of archives, on the objects of
//! `corpora/apple`, which llvm-mc 23 made. No tools are needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::edited::{run, scratch};

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora")
}

fn path_of(name: &str) -> String {
    corpora().join("apple").join(name).to_str().unwrap().to_owned()
}

fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cfi2sframe")).args(arguments).output().unwrap()
}

/// Changes a file twice. Returns the status and the summary of the first run. The second run must change nothing.
fn changed(path: &str, new: &Path, options: &[&str]) -> (Option<i32>, Value) {
    let new = new.to_str().unwrap();
    let output = run(&[&[path, "-o", new, "--json"], options].concat());
    let bytes = fs::read(new).unwrap();
    run(&[&["--in-place", new], options].concat());
    assert!(fs::read(new).unwrap() == bytes, "{path}: a second run changes the file");
    (output.status.code(), summary(&output))
}

/// llvm-mc gives wrong rows to these objects (`docs/compact-unwind-differences.md`), and gimli finds them.
#[test]
fn rows_that_contradict_the_cfi() {
    let directory = scratch("compact-unwind-contradicted");
    let mc = corpora().join("compact-unwind/mc");
    let wrong = ["x06_rbp_dir_order_reversed", "x07_rbp_hole", "x21_fl_ind_nosub", "x48_fl_save_nonadj"];
    let wrong = wrong.map(|name| mc.join(name).with_extension("o").to_str().unwrap().to_owned());
    let new = directory.join("new.o");
    for path in wrong.iter().chain(&[path_of("stack_probe.o")]) {
        assert_eq!(command(&["verify", path]).status.code(), Some(1), "{path}");
        let (status, json) = changed(path, &new, &[]);
        assert_eq!(
            (status, &json["contradicted"], &json["repaired"]),
            (Some(1), &json!(1), &json!(0)),
            "{path}"
        );
        assert!(json["contradictions"][0].as_str().unwrap().starts_with("__text+0x"), "{json}");
        assert!(fs::read(&new).unwrap() == fs::read(path).unwrap(), "{path}");
        let (status, json) = changed(path, &new, &["--repair"]);
        assert_eq!(
            (status, &json["contradicted"], &json["repaired"]),
            (Some(0), &json!(0), &json!(1)),
            "{path}"
        );
        assert_eq!(command(&["verify", new.to_str().unwrap()]).status.code(), Some(0), "{path}");
    }
    // The call that probes the stack is before the body.
    let path = path_of("stack_probe.o");
    let (_, json) = changed(&path, &new, &["--repair"]);
    assert_eq!((&json["dwarf"], &json["reasons"]), (&json!(1), &json!({ "call-outside-body": 1 })));
    let dump = command(&["dump", new.to_str().unwrap()]);
    assert!(String::from_utf8(dump.stdout).unwrap().contains("compact encoding:     0x04000000\n"));
    // A right row stays.
    let right = mc.join("x39_pers_gxx.o");
    let (status, json) = changed(right.to_str().unwrap(), &new, &["--repair"]);
    assert_eq!((status, &json["changed_rows"]), (Some(0), &json!(0)));
    fs::remove_dir_all(directory).unwrap();
}

/// The row names another symbol as the personality than the CIE. The linker would take the row's.
#[test]
fn a_personality_that_is_not_the_cies() {
    let directory = scratch("compact-unwind-other-personality");
    let mut bytes = fs::read(corpora().join("compact-unwind/mc/x39_pers_gxx.o")).unwrap();
    // The relocation of the row's third field: `___gxx_personality_v0` has the number 1 and `_f` the number 0.
    let relocation = [0x10, 0, 0, 0, 1, 0, 0, 0x0e];
    let at = bytes.windows(8).position(|window| window == relocation).unwrap();
    bytes[at + 4] = 0;
    let [object, new] = ["object.o", "new.o"].map(|name| directory.join(name));
    fs::write(&object, bytes).unwrap();
    let path = object.to_str().unwrap();
    let verified = command(&["verify", "--json", path]);
    assert_eq!(verified.status.code(), Some(1));
    assert_eq!(summary(&verified)["rules"], json!({ "row-other-personality": 1 }));
    let (status, json) = changed(path, &new, &[]);
    assert_eq!((status, &json["contradicted"]), (Some(1), &json!(1)), "{json}");
    let (status, json) = changed(path, &new, &["--repair"]);
    assert_eq!((status, &json["repaired"]), (Some(0), &json!(1)), "{json}");
    // The code has no symbol for its LSDA, so the repaired row leaves the function to its FDE.
    assert_eq!(json["personalities"], json!([]), "{json}");
    fs::remove_dir_all(directory).unwrap();
}

/// Pointers of rows that linkers ignore, or that lead nowhere: the FDE of the function does not have these faults.
#[test]
fn pointers_without_relocation_and_rows_without_function() {
    let directory = scratch("compact-unwind-pointers");
    let original = fs::read(corpora().join("compact-unwind/mc/x39_pers_gxx.o")).unwrap();
    let at = |bytes: &[u8]| original.windows(bytes.len()).position(|window| window == bytes).unwrap();
    // The row has function 0, length 5 and encoding 0x41000000. Then the relocations of its last fields.
    let row = at(&[5, 0, 0, 0, 0, 0, 0, 0x41]) - 8;
    let [lsda, personality] = [at(&[0x18, 0, 0, 0, 2, 0, 0, 6]), at(&[0x10, 0, 0, 0, 1, 0, 0, 0x0e])];
    let [object, new] = ["object.o", "new.o"].map(|name| directory.join(name));
    let path = object.to_str().unwrap();
    // A field that loses its relocation gives it to the length, where it has no meaning.
    let cases = [
        ("row-stray", row + 4, 4, false),
        ("row-pointer", lsda, 8, true),
        ("row-other-personality", personality, 8, true),
    ];
    for (rule, place, value, can_mend) in cases {
        let mut bytes = original.clone();
        bytes[place] = value;
        fs::write(&object, bytes).unwrap();
        let verified = command(&["verify", "--json", path]);
        assert_eq!(verified.status.code(), Some(1), "{rule}");
        assert_eq!(summary(&verified)["rules"], json!({ rule: 1 }));
        let (status, json) = changed(path, &new, &[]);
        assert_eq!(status, Some(1), "{rule}: {json}");
        let (status, json) = changed(path, &new, &["--repair"]);
        assert_eq!(status, Some(i32::from(!can_mend)), "{rule}: {json}");
        assert_eq!(json["repaired"], json!(i32::from(can_mend)), "{rule}: {json}");
    }
    fs::remove_dir_all(directory).unwrap();
}

/// ld64.lld gives a symbol inside a function an entry of its own, and takes the row that starts there.
#[test]
fn symbols_inside_functions() {
    let directory = scratch("compact-unwind-symbols");
    let new = directory.join("new.o");
    let (status, json) = changed(&path_of("symbol_inside.o"), &new, &[]);
    assert_eq!((status, &json["with_symbols"]), (Some(1), &json!(2)), "{json}");
    assert_eq!(json["reasons"], json!({ "symbol-inside": 2 }));
    assert_eq!((&json["changed_rows"], &json["new_rows"]), (&json!(2), &json!(2)), "{json}");
    let dump = String::from_utf8(command(&["dump", new.to_str().unwrap()]).stdout).unwrap();
    let rows: Vec<_> = dump
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, _)| ["start", "length", "compact encoding"].contains(name))
        .map(|(_, value)| value.trim())
        .collect();
    // `_f` and `_m` have two rows each. The second does not start a function (bit 31). `_h` has no body before its
    // symbol, and the LSDA of `_k` belongs to its start.
    let expected = [
        ["0x0 _f", "0x9", "0x01000000"],
        ["0x10 _m", "0x9", "0x01000000"],
        ["0x20 _h", "0xb", "0x04000000"],
        ["0x2b _k", "0x10", "0x04000000"],
        ["0x9 _f_inside", "0x7", "0x81000000"],
        ["0x19 _m_inside", "0x7", "0x81000000"],
    ];
    assert_eq!(rows, expected.concat(), "{dump}");
    let verified = command(&["verify", "--json", new.to_str().unwrap()]);
    let report = summary(&verified);
    assert_eq!((verified.status.code(), &report["equal"], &report["dwarf"]), (Some(1), &json!(2), &json!(2)));
    assert_eq!(report["rules"], json!({ "symbol-inside": 2 }));
    let text = String::from_utf8(run(&[new.to_str().unwrap(), "--dry-run"]).stderr).unwrap();
    assert!(text.contains("  symbols inside without a row: 2 functions\n    __text+0x20 <_h>: "), "{text}");
    fs::remove_dir_all(directory).unwrap();
}

/// ld64.lld 23 also gives assembler labels entries of their own, and hides a function whose start has an alternative
/// entry. Rows of functions without an FDE can be divided too.
#[test]
fn every_symbol_that_ends_a_function() {
    let directory = scratch("compact-unwind-labels");
    let new = directory.join("new.o");
    // The status of verify before and after, the rows that are added, and the functions that keep their fault.
    for (name, before, after, added, left) in
        [("label_inside.o", 1, 0, 1, 0), ("second_name.o", 1, 1, 0, 1), ("symbol_inside_arm64.o", 1, 1, 1, 1)]
    {
        let path = path_of(name);
        assert_eq!(command(&["verify", &path]).status.code(), Some(before), "{name}");
        let (status, json) = changed(&path, &new, &[]);
        assert_eq!((status, &json["new_rows"]), (Some(after), &json!(added)), "{name}: {json}");
        assert_eq!(json["with_symbols"], json!(left), "{name}");
        assert_eq!(command(&["verify", new.to_str().unwrap()]).status.code(), Some(after), "{name}");
    }
    fs::remove_dir_all(directory).unwrap();
}

/// Makes an archive as `ar` of GNU does: a header of 60 bytes for each member.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, member) in members {
        bytes.extend(
            format!("{:<16}{:<32}{:<10}`\n", format!("{name}/"), "0           0     0     644", member.len())
                .bytes(),
        );
        bytes.extend(*member);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// ld64.lld 23 counts a local symbol once for each object, and so a private external symbol, even a weak one. A fourth
/// personality fails the link.
#[test]
fn local_personalities_of_an_archive() {
    let directory = scratch("compact-unwind-local");
    let local = fs::read(path_of("local_personality.o")).unwrap();
    let shared = fs::read(corpora().join("compact-unwind/mc/a37_pers_custom.o")).unwrap();
    let gained = |members: &[(&str, &[u8])]| {
        let path = directory.join("in.a");
        fs::write(&path, archive(members)).unwrap();
        let (_, json) = changed(path.to_str().unwrap(), &directory.join("out.a"), &[]);
        (json["gained"].clone(), json["reasons"].clone(), json["personalities"].clone())
    };
    let four = gained(&["a.o", "b.o", "c.o", "d.o"].map(|name| (name, &local[..])));
    let names = json!(["_personality", "_personality", "_personality"]);
    assert_eq!(four, (json!(3), json!({ "fourth-personality": 1 }), names));
    let four = gained(&["a.o", "b.o", "c.o", "d.o"].map(|name| (name, &shared[..])));
    assert_eq!(four, (json!(4), json!({}), json!(["_my_personality"])));
    // Rows that are compact already come first, wherever they are.
    let changed_row = directory.join("compact.o");
    changed(corpora().join("compact-unwind/mc/a37_pers_custom.o").to_str().unwrap(), &changed_row, &[]);
    let compact = fs::read(changed_row).unwrap();
    let members = [("a.o", &local[..]), ("b.o", &local), ("c.o", &local), ("d.o", &compact)];
    let names = json!(["_my_personality", "_personality", "_personality"]);
    assert_eq!(gained(&members), (json!(2), json!({ "fourth-personality": 1 }), names));
    // A private external symbol: the bit N_PEXT of `n_type`, the byte after the 4 bytes of the name's offset.
    let mut private = shared.clone();
    let file = cfipack_container::raw::macho::Headers::parse(&shared).unwrap();
    let index = file.symbols.iter().position(|symbol| symbol.name == b"_my_personality").unwrap();
    private[file.symbols.section_offset(index) - 1] |= 0x10;
    let four = gained(&["a.o", "b.o", "c.o", "d.o"].map(|name| (name, &private[..])));
    assert_eq!((four.0, four.1), (json!(3), json!({ "fourth-personality": 1 })));
    fs::remove_dir_all(directory).unwrap();
}

/// The function with the fourth personality has an FDE, so nothing is lost.
#[test]
fn fdes_of_rows_take_over() {
    let output = command(&["unwind-info", &path_of("four_personalities.o"), "--verify", "--json"]);
    let json = summary(&output);
    assert_eq!(output.status.code(), Some(0), "{json}");
    let warning = json["warnings"][0].as_str().unwrap();
    assert!(warning.ends_with("its FDE at 0xc4 takes over"), "{warning}");
    assert_eq!((&json["verify"]["equal"], &json["verify"]["dwarf"]), (&json!(3), &json!(1)));
}

/// Two equal neighbours in mode 5 stay apart, because each counts bytes from its own start.
#[test]
fn mode_5_of_arm64() {
    let path = path_of("signed_with_pc.o");
    let verified = command(&["verify", "--json", &path]);
    let report = summary(&verified);
    assert_eq!((verified.status.code(), &report["rules"]), (Some(0), &json!({})));
    let text = |arguments: &[&str]| String::from_utf8(command(arguments).stdout).unwrap();
    let found = text(&["lookup", &path, "__text+0x44"]);
    let row = "encoding 0x05001001: CFA = x29+16, return address at CFA-8 (signed), x29 at CFA-16, x19 at CFA-24, x20 at CFA-32";
    assert!(found.contains(row), "{found}");
    let json = summary(&command(&["unwind-info", &path, "--json"]));
    assert_eq!(
        (&json["unwind_info"]["entries"], &json["unwind_info"]["modes"]["frame"]),
        (&json!(3), &json!(3))
    );
    // The second word of `_c` is `pacibsp`. Without it, nothing signs the return address there.
    let directory = scratch("compact-unwind-signed");
    let mut bytes = fs::read(&path).unwrap();
    let pacibsp = 0xd503_237f_u32.to_le_bytes();
    let last = bytes.windows(4).rposition(|word| word == pacibsp).unwrap();
    bytes[last..last + 4].copy_from_slice(&0xd503_201f_u32.to_le_bytes());
    let unsigned = directory.join("unsigned.o");
    fs::write(&unsigned, bytes).unwrap();
    let report = summary(&command(&["verify", "--json", unsigned.to_str().unwrap()]));
    assert_eq!(report["rules"], json!({ "no-signing": 1 }));
    fs::remove_dir_all(directory).unwrap();
}

/// Reads an object, and gives the row of a function of `length` bytes another encoding.
fn with_encoding(path: &str, length: u32, old: u32, new: u32) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let row = [length, old].map(u32::to_le_bytes).concat();
    let at = bytes.windows(8).position(|window| window == row).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(&new.to_le_bytes());
    bytes
}

/// The CFI says which instruction signs the return address: the second, at byte 4 (`corpora/apple/signed_with_pc_cfi.s`).
/// libunwind of LLVM 23 takes the instruction before `DW_CFA_AARCH64_negate_ra_state_with_pc` too.
#[test]
fn mode_5_of_arm64_is_compared_with_the_cfi() {
    let directory = scratch("compact-unwind-signed-cfi");
    let [object, new] = ["object.o", "new.o"].map(|name| directory.join(name).to_str().unwrap().to_owned());
    for (encoding, is_right) in
        [(0x0500_1000, true), (0x0500_0000, false), (0x0500_2000, false), (0x0400_0000, false)]
    {
        fs::write(&object, with_encoding(&path_of("signed_with_pc_cfi.o"), 0x24, 0x0300_0000, encoding))
            .unwrap();
        let status = command(&["verify", &object]).status.code();
        assert_eq!(status, Some(i32::from(!is_right)), "{encoding:#x}");
        let (status, json) = changed(&object, Path::new(&new), &["--repair"]);
        assert_eq!(
            (status, &json["repaired"]),
            (Some(0), &json!(u8::from(!is_right))),
            "{encoding:#x}: {json}"
        );
    }
    // Mode 5 for a return address that is signed with the stack pointer: DW_CFA_AARCH64_negate_ra_state.
    let mut bytes = with_encoding(&path_of("signed_with_pc_cfi.o"), 0x24, 0x0300_0000, 0x0500_1000);
    // Each of the two instructions comes after an advance by two words.
    for at in 1..bytes.len() {
        if bytes[at - 1..=at] == [0x48, 0x2c] || bytes[at - 1..=at] == [0x42, 0x2c] {
            bytes[at] = 0x2d;
        }
    }
    fs::write(&object, bytes).unwrap();
    assert_eq!(command(&["verify", &object]).status.code(), Some(1));
    fs::remove_dir_all(directory).unwrap();
}

/// llvm-mc 23 writes subtype 12 for `arm64e.x1-apple-macos`, and llvm-lipo prints this name.
#[test]
fn slices_of_2026_have_names() {
    let directory = scratch("compact-unwind-x1");
    let object = fs::read(path_of("signed_with_pc.o")).unwrap();
    let [cpu, subtype] = [0x0100_000c_u32, 12].map(u32::to_be_bytes);
    let [offset, size, align] = [32, object.len() as u32, 4].map(u32::to_be_bytes);
    let header = [[0xca, 0xfe, 0xba, 0xbe], 1_u32.to_be_bytes(), cpu, subtype, offset, size, align].concat();
    let mut fat = header;
    fat.resize(32, 0);
    fat.extend(&object);
    // The object's own header: CPU type, then subtype.
    fat[32 + 8] = 12;
    let path = directory.join("fat");
    fs::write(&path, fat).unwrap();
    let output = command(&["verify", path.to_str().unwrap(), "--arch", "arm64e.x1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("__compact_unwind: no rule is broken"), "{text}");
    assert!(run(&["--dry-run", path.to_str().unwrap()]).status.success());
    fs::remove_dir_all(directory).unwrap();
}

/// Each file alone has no more than three personalities. All of them together may be for one image.
#[test]
fn personalities_of_several_files() {
    let directory = scratch("compact-unwind-together");
    let files: Vec<_> = (0..4)
        .map(|number| {
            let path = directory.join(format!("{number}.o"));
            fs::copy(path_of("local_personality.o"), &path).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let warned = |files: &[String]| {
        let arguments: Vec<_> =
            std::iter::once("--dry-run").chain(files.iter().map(|file| &file[..])).collect();
        let output = run(&arguments);
        assert!(output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        text.lines().find(|line| line.starts_with("warning: ")).map(str::to_owned)
    };
    assert_eq!(warned(&files[..3]), None);
    let warning = warned(&files).unwrap();
    let names = "4 personalities together: _personality, _personality, _personality, _personality. ";
    assert!(warning.contains(names), "{warning}");
    // The summary of a file names the personality for which it has no room.
    let local = fs::read(&files[0]).unwrap();
    let path = directory.join("four.a");
    fs::write(&path, archive(&["a.o", "b.o", "c.o", "d.o"].map(|name| (name, &local[..])))).unwrap();
    let text = String::from_utf8(run(&["--dry-run", path.to_str().unwrap()]).stderr).unwrap();
    assert!(text.contains("\n  personalities without room: _personality\n"), "{text}");
    fs::remove_dir_all(directory).unwrap();
}
