//! Tests that `compact-unwind` ends with 0 only if `verify` of its output does, on all objects of the corpora and on
//! objects with one wrong row. No tools are needed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_container::{File, Kind};
use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_tests::corpora;
use serde_json::{Value, json};

use super::edited::{run, scratch};

/// The bytes of every Mach-O object of the corpora for x86-64 and arm64, with its name.
fn objects() -> Vec<(String, Vec<u8>)> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora");
    let directories = ["apple", "compact-unwind/mc", "compact-unwind/link"].map(|name| corpora.join(name));
    let files = directories.into_iter().flat_map(|directory| fs::read_dir(directory).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let mut objects = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = match name {
            name if name.ends_with(".o.gz") => corpora::decompress(&path),
            name if name.ends_with(".o") => fs::read(&path).unwrap(),
            _ => continue,
        };
        let is_ours = File::parse(&bytes).is_ok_and(|file| {
            file.as_macho().is_some() && file.kind() == Kind::Relocatable && file.arch().pointer_size() == 8
        });
        if is_ours {
            objects.push((name.to_owned(), bytes));
        }
    }
    assert!(objects.len() > 200, "{}", objects.len());
    objects
}

/// A way to spoil a row, given its 32 bytes.
type Spoil = fn(&mut [u8]);

fn encoding(row: &mut [u8], change: impl FnOnce(u32) -> u32) {
    let encoding = u32::from_le_bytes(row[12..16].try_into().unwrap());
    row[12..16].copy_from_slice(&change(encoding).to_le_bytes());
}

/// The length of a row is at byte 8, its encoding at byte 12.
const SPOILS: [(&str, Spoil); 8] = [
    ("no length", |row| row[8..12].fill(0)),
    ("shorter", |row| row[8] -= 1),
    ("longer", |row| row[8] += 1),
    ("another frame", |row| encoding(row, |old| old ^ 0x0001_0000)),
    ("no information", |row| encoding(row, |_| Encoding::NONE.0)),
    ("unused bits", |row| encoding(row, |old| old | 0x00e0)),
    ("a personality's number", |row| encoding(row, |old| Encoding(old).with_personality(1).0)),
    ("the flag for LSDAs", |row| encoding(row, |old| old ^ Flags::HAS_LSDA.bits())),
];

/// Returns the object with a spoilt first row, if it has rows.
fn spoilt(bytes: &[u8], spoil: Spoil) -> Option<Vec<u8>> {
    let file = File::parse(bytes).unwrap();
    let headers = file.as_macho().unwrap().headers();
    let header = &headers.sections[headers.find(b"__compact_unwind")?];
    let at = header.offset? as usize;
    let mut bytes = bytes.to_vec();
    // Functions of the corpora are shorter than 255 bytes.
    if header.size < 32 || [0, 255].contains(&bytes[at + 8]) || bytes[at + 9] != 0 {
        return None;
    }
    spoil(&mut bytes[at..at + 32]);
    Some(bytes)
}

/// Writes objects to files, changes all of them with these options, and returns the names of those without a fault. A
/// run with these alone must end with 0, and so must `verify`. Objects without rows and CFI have nothing to verify.
fn without_fault(test: &str, objects: &[(String, Vec<u8>)], options: &[&str]) -> Vec<String> {
    let directory = scratch(test);
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    for (name, bytes) in objects {
        fs::write(path(name), bytes).unwrap();
    }
    let edit = |names: &[String], json: &[&str]| {
        let paths: Vec<_> = names.iter().map(|name| path(name)).collect();
        let paths: Vec<_> = paths.iter().map(|path| &path[..]).collect();
        run(&[&["--in-place"], json, options, &paths].concat())
    };
    let names: Vec<_> = objects.iter().map(|object| object.0.clone()).collect();
    let output = edit(&names, &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let reports = String::from_utf8(output.stdout).unwrap();
    let reports: Vec<Value> = reports.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_right = |report: &Value| {
        report["contradicted"] == 0 && report["unjudged"] == 0 && report["violations"] == json!([])
    };
    assert_eq!(reports.len(), names.len());
    let right: Vec<_> = names.into_iter().zip(&reports).filter(|(_, report)| is_right(report)).collect();
    let right: Vec<_> = right.into_iter().map(|(name, _)| name).collect();
    let output = edit(&right, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let has_tables = |name: &&String| {
        let bytes = fs::read(path(name)).unwrap();
        let file = File::parse(&bytes).unwrap();
        let has_cfi = !file.call_frame_sections().unwrap().is_empty();
        has_cfi || file.as_macho().unwrap().compact_unwind().unwrap().is_some()
    };
    let paths: Vec<_> = right.iter().filter(has_tables).map(|name| path(name)).collect();
    assert!(paths.len() > 100, "{}", paths.len());
    let verified = Command::new(env!("CARGO_BIN_EXE_cfi2sframe")).arg("verify").args(paths).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    fs::remove_dir_all(directory).unwrap();
    right
}

#[test]
fn a_success_is_verified() {
    let objects = objects();
    let right = without_fault("compact-unwind-verified", &objects, &[]);
    let repaired = without_fault("compact-unwind-repaired", &objects, &["--repair"]);
    assert!(right.iter().all(|name| repaired.contains(name)));
    assert!(right.len() < repaired.len(), "{} of {}", right.len(), repaired.len());
}

/// A wrong row of a function with an FDE is repaired. Without an FDE, nothing shows what would be right.
#[test]
fn wrong_rows_are_repaired() {
    let objects: Vec<_> = objects().into_iter().filter(|object| object.0.ends_with(".o")).collect();
    let has_fdes = |bytes: &[u8]| {
        let file = File::parse(bytes).unwrap();
        file.call_frame_sections().unwrap().iter().any(|section| !section.section.bytes.is_empty())
    };
    let right = without_fault("compact-unwind-unspoilt", &objects, &["--repair"]);
    let (mut all, mut repairable) = (Vec::new(), Vec::new());
    for (name, bytes) in objects {
        for (what, spoil) in SPOILS {
            let Some(spoilt) = spoilt(&bytes, spoil) else { continue };
            let spoilt_name = format!("{what} {name}");
            if right.contains(&name) && has_fdes(&bytes) {
                repairable.push(spoilt_name.clone());
            }
            all.push((spoilt_name, spoilt));
        }
    }
    assert!(repairable.len() > 300, "{}", repairable.len());
    without_fault("compact-unwind-spoilt", &all, &[]);
    let repaired = without_fault("compact-unwind-mended", &all, &["--repair"]);
    let left: Vec<_> = repairable.iter().filter(|name| !repaired.contains(name)).collect();
    assert_eq!(left, [] as [&String; 0]);
}
