//! Embeds the table of its CFI in every linked ELF file below directories, and removes it again.
//!
//!     cargo run --release -p cfipack-tests --bin embed -- OUT /usr/bin /usr/lib
//!
//! Writes the files with tables below OUT, under their own paths. Checks that the table is read back, that a second
//! run changes nothing, and whether the file without the table is the original. Prints a line for each file, then
//! how many took which way. Exit status 1 if a check fails.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use cfipack_container::{File, Kind};
use cfipack_edit::without_sframe;
use cfipack_encoder::sframe::Options;
use cfipack_tests::embedded::embed;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [output, inputs @ ..] = &arguments[..] else {
        eprintln!("usage: embed OUT (DIRECTORY|FILE)...");
        return ExitCode::from(2);
    };
    let (mut files, mut seen) = (Vec::new(), BTreeSet::new());
    inputs.iter().for_each(|input| collect(input, &mut seen, &mut files));
    files.sort();
    let mut totals = BTreeMap::<String, usize>::new();
    let mut failed = false;
    for path in files {
        let Ok(bytes) = fs::read(&path) else { continue };
        let Some(result) = run(&bytes, &output.join(path.strip_prefix("/").unwrap_or(&path))) else {
            continue;
        };
        failed |= result.contains("FAILED");
        println!("{}: {result}", path.display());
        *totals.entry(result).or_default() += 1;
    }
    for (result, count) in &totals {
        println!("{count:6} {result}");
    }
    ExitCode::from(u8::from(failed))
}

/// Runs one file to a line of results; None if it has no functions with CFI.
fn run(bytes: &[u8], output: &Path) -> Option<String> {
    let file = File::parse(bytes).ok().filter(|file| file.kind() == Kind::Linked)?;
    let had_table = !file.sframe_sections().ok()?.is_empty();
    let embedded = match embed(&file, Options::new())? {
        Ok(embedded) => embedded,
        Err(error) => return Some(format!("refused: {error}")),
    };
    let new = embedded.rewrite.to_vec(bytes);
    let mut result = format!("{:?}", embedded.way);
    let read_back = File::parse(&new).ok()?;
    match &read_back.sframe_sections().ok()?[..] {
        [section] if *section.bytes == *embedded.table && section.address == embedded.address => {}
        _ => result += " FAILED: not read back",
    }
    match embed(&read_back, Options::new()) {
        Some(Ok(again)) if again.rewrite.is_unchanged(&new) => {}
        Some(Ok(again)) => result += &format!(" FAILED: a second run changes it, {:?}", again.way),
        other => result += &format!(" FAILED: a second run, {:?}", other.map(|other| other.err())),
    }
    match without_sframe(&read_back) {
        Ok(Some(rewrite)) if rewrite.is_unchanged(&new) => result += " FAILED: not removed",
        Ok(Some(rewrite)) if rewrite.to_vec(&new) == bytes => result += ", stripped to the original",
        Ok(Some(rewrite)) => {
            let stripped = rewrite.to_vec(&new);
            let mut path = output.as_os_str().to_owned();
            path.push(".stripped");
            let path = PathBuf::from(path);
            fs::create_dir_all(path.parent()?).ok()?;
            fs::write(path, stripped).ok()?;
            result += ", stripped to another file";
        }
        other => result += &format!(" FAILED: strip, {:?}", other.map(|other| other.is_some())),
    }
    if had_table {
        result += ", had a table";
    }
    fs::create_dir_all(output.parent()?).ok()?;
    fs::write(output, new).ok()?;
    Some(result)
}

/// The files below a directory, each once, even if several links lead to it.
fn collect(path: &Path, seen: &mut BTreeSet<(u64, u64)>, files: &mut Vec<PathBuf>) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.filter_map(Result::ok).for_each(|entry| collect(&entry.path(), seen, files));
    } else if metadata.is_file() && seen.insert((metadata.dev(), metadata.ino())) {
        files.push(path.into());
    }
}
