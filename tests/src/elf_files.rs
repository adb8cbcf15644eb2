//! Finds ELF files below directories.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Returns the ELF files below directories, and files that are given themselves. Each is returned once, even if several
/// links lead to it.
pub fn below(paths: &[PathBuf]) -> Vec<PathBuf> {
    let (mut seen, mut files) = (BTreeSet::new(), Vec::new());
    paths.iter().for_each(|path| collect(path, &mut seen, &mut files));
    files
}

fn collect(path: &Path, seen: &mut BTreeSet<(u64, u64)>, files: &mut Vec<PathBuf>) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    if metadata.is_dir() {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.filter_map(Result::ok) {
            collect(&entry.path(), seen, files);
        }
    } else if metadata.is_file() && is_elf(path) && seen.insert((metadata.dev(), metadata.ino())) {
        files.push(path.to_owned());
    }
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *b"\x7fELF"
}
