//! Tests `--debug-file`: a file without `.debug_frame` has the functions that its debug file has, and no other file is
//! taken for its debug file.

use std::fs;
use std::path::Path;
use std::process::Output;

use cfipack_testkit::rustc::rustc;
use serde_json::Value;

use crate::program::{run_in, scratch};

/// Links `x.debug`, a library with one function in `.debug_frame` and a `.gnu_debuglink`, and writes a copy without its
/// `.debug_frame` to `x.so`.
fn pair(directory: &Path, link: &str, build_id: &str) {
    let text = format!(
        ".cfi_sections .debug_frame\n.globl described\n.type described, %function\n\
         described: .cfi_startproc\nnop\nret\n.cfi_endproc\n.size described, . - described\n\
         .section .gnu_debuglink,\"\",%progbits\n.asciz {link:?}\n.balign 4\n.long 0x12345678\n"
    );
    let source = format!(
        "#![no_std]\ncore::arch::global_asm!({text:?});\n\
         unsafe extern \"C\" {{ fn described(); }}\n\
         #[unsafe(no_mangle)] extern \"C\" fn calls() {{ unsafe {{ described() }} }}\n\
         #[panic_handler] fn panic(_: &core::panic::PanicInfo<'_>) -> ! {{ loop {{}} }}\n"
    );
    fs::write(directory.join("x.rs"), source).unwrap();
    let build_id = format!("-Clink-arg=-Wl,--build-id={build_id}");
    let link = ["x.rs", "--crate-type=cdylib", "-Clink-arg=-nostdlib", "-Cstrip=none", &build_id, "-o"];
    rustc(directory, &[&link[..], &["x.debug"]].concat());
    let whole = fs::read(directory.join("x.debug")).unwrap();
    fs::write(directory.join("x.so"), replaced(&whole, b".debug_frame\0", b".other_frame\0")).unwrap();
}

/// Replaces the only place that has the bytes `old`.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(old));
    let (at, mut bytes) = (places.next().unwrap(), bytes.to_vec());
    assert_eq!(places.next(), None);
    bytes[at..][..new.len()].copy_from_slice(new);
    bytes
}

const BUILD_ID: [&str; 2] =
    ["0x00112233445566778899aabbccddeeff00112233", "00112233445566778899aabbccddeeff00112233"];

fn json(directory: &Path, arguments: &[&str]) -> Value {
    let Output { stdout, stderr, .. } = run_in(directory, arguments);
    let text = String::from_utf8_lossy(&stderr);
    serde_json::from_slice(&stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
}

/// Returns the status and standard error.
fn failed(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_in(directory, arguments);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn every_verb_has_the_functions_of_the_debug_file() {
    let directory = scratch("debug_file_verbs");
    pair(&directory, "x.debug", BUILD_ID[0]);
    let functions = |arguments: &[&str]| json(&directory, arguments)["functions"].as_u64().unwrap();
    let [whole, without] = ["x.debug", "x.so"].map(|file| functions(&[file, "--json"]));
    assert!(whole > without);
    for option in ["x.debug", "auto"] {
        let option = ["--debug-file", option];
        assert_eq!(functions(&[&["x.so", "--json"], &option[..]].concat()), whole);
        let report = json(&directory, &[&["lint", "--json", "x.so"], &option[..]].concat());
        assert_eq!(report["decided"].as_u64().unwrap() + report["undecided"].as_u64().unwrap(), whole);
        assert_eq!(report["debug_file"]["build_id"], BUILD_ID[1]);
        let gaps =
            |file, option: &[&str]| json(&directory, &[&["gaps", "--cfi", "--json", file], option].concat());
        assert_eq!(gaps("x.so", &option)["gaps"], gaps("x.debug", &[])["gaps"]);
        // The table of the new file is verified with the same CFI.
        let report = json(&directory, &[&["x.so", "-o", "y.so", "--json"], &option[..]].concat());
        assert_eq!(report["functions"], whole, "{report}");
        let output = run_in(&directory, &[&["verify", "y.so"], &option[..]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(BUILD_ID[1]), "{text}");
        let verified = |option: &[&str]| {
            json(&directory, &[&["verify", "--json", "y.so"], option].concat())["equal"].as_u64().unwrap()
        };
        assert_eq!((verified(&option), verified(&[])), (whole, without));
    }
}

#[test]
fn a_debug_file_of_another_build_is_an_error() {
    let directory = scratch("debug_file_builds");
    pair(&directory, "x.debug", BUILD_ID[0]);
    let whole = fs::read(directory.join("x.debug")).unwrap();
    let id: Vec<_> = (0..20).map(|at| u8::from_str_radix(&BUILD_ID[1][2 * at..][..2], 16).unwrap()).collect();
    let other = [&id[..19], &[0x99]].concat();
    fs::write(directory.join("x.debug"), replaced(&whole, &id, &other)).unwrap();
    for option in ["x.debug", "auto"] {
        for verb in [&["x.so"][..], &["x.so", "-o", "y.so"], &["lint", "x.so"], &["gaps", "--cfi", "x.so"]] {
            let (status, text) = failed(&directory, &[verb, &["--debug-file", option]].concat());
            let other = &format!("{}99", &BUILD_ID[1][..38]);
            assert!(text.contains(BUILD_ID[1]) && text.contains(other), "{verb:?}: {text}");
            assert_eq!(status, Some(2), "{text}");
        }
    }
    // One file cannot be the debug file of two.
    assert_eq!(failed(&directory, &["lint", "x.so", "x.so", "--debug-file", "x.debug"]).0, Some(2));
}

#[test]
fn a_damaged_file_that_is_found_is_a_warning() {
    let directory = scratch("debug_file_damaged");
    pair(&directory, "x.debug", BUILD_ID[0]);
    let whole = fs::read(directory.join("x.debug")).unwrap();
    fs::write(directory.join("x.debug"), &whole[..whole.len() / 2]).unwrap();
    let lint = ["lint", "x.so", "--debug-file"];
    let (status, text) = failed(&directory, &[&lint[..], &["auto"]].concat());
    assert!(status == Some(0) && text.starts_with("warning: ") && text.contains("x.debug"), "{text}");
    assert_eq!(failed(&directory, &[&lint[..], &["x.debug"]].concat()).0, Some(2));
    // The next place has the right file.
    fs::create_dir(directory.join(".debug")).unwrap();
    fs::write(directory.join(".debug/x.debug"), whole).unwrap();
    let report = json(&directory, &["lint", "--json", "x.so", "--debug-file", "auto"]);
    assert!(report["debug_file"]["path"].as_str().unwrap().ends_with("/.debug/x.debug"), "{report}");
}

#[test]
fn a_name_that_is_a_path_leads_nowhere() {
    let directory = scratch("debug_file_path");
    fs::create_dir(directory.join("below")).unwrap();
    for link in ["../x.debug", "..", "", "./x.debug"] {
        pair(&directory, link, BUILD_ID[0]);
        fs::copy(directory.join("x.so"), directory.join("below/x.so")).unwrap();
        let report = json(&directory, &["lint", "--json", "below/x.so", "--debug-file", "auto"]);
        assert_eq!(report.get("debug_file"), None, "{link}");
    }
}

/// Returns the CRC-32 of zip files, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let bits = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.iter().fold(u32::MAX, bits)
}

#[test]
fn without_build_ids_the_crc_decides() {
    let directory = scratch("debug_file_crc");
    pair(&directory, "x.debug", "none");
    let lint = ["lint", "x.so", "--debug-file", "auto"];
    let (status, text) = failed(&directory, &lint);
    assert!(status == Some(2) && text.contains("0x12345678"), "{text}");
    let sum = checksum(&fs::read(directory.join("x.debug")).unwrap());
    let file = fs::read(directory.join("x.so")).unwrap();
    let file = replaced(&file, &0x1234_5678_u32.to_le_bytes(), &sum.to_le_bytes());
    fs::write(directory.join("x.so"), file).unwrap();
    let output = run_in(&directory, &lint);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(&format!("(CRC {sum:#010x})")), "{text}");
}

/// `stats` and `explain` read a debug file too, and a search that finds none names the places.
#[test]
fn more_verbs_and_searched_places() {
    let directory = scratch("debug_file_hints");
    pair(&directory, "x.debug", BUILD_ID[0]);
    let whole = |verb: &str| json(&directory, &[verb, "--json", "x.so", "--debug-file", "x.debug"]);
    let functions = |report: &Value| report["coverage"]["functions"].as_u64().unwrap();
    let without = functions(&json(&directory, &["stats", "--json", "x.so"]));
    assert!(functions(&whole("stats")) > without);
    assert_eq!(whole("stats")["debug_file"]["build_id"], BUILD_ID[1]);
    let explained = run_in(&directory, &["explain", "x.so", "described", "--debug-file", "x.debug"]);
    assert_eq!(explained.status.code(), Some(0), "{explained:?}");
    // Nothing is found.
    fs::rename(directory.join("x.debug"), directory.join("y.debug")).unwrap();
    let (status, text) = failed(&directory, &["lint", "x.so", "--debug-file", "auto"]);
    let places =
        [format!("/usr/lib/debug/.build-id/00/{}.debug", &BUILD_ID[1][2..]), "/.debug/x.debug".into()];
    assert!(status == Some(0) && places.iter().all(|place| text.contains(place)), "{text}");
}
