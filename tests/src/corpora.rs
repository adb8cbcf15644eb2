//! The goldens: what is in `corpora/`.

use std::fs;
use std::path::{Path, PathBuf};

use cfipack_format::Arch;

/// A golden object: call frame information and, usually, a table, both by the same tool.
#[derive(Debug)]
pub struct Golden {
    /// `x86_64/x_min`: the directory below `corpora/sframe` and the case.
    pub name: String,
    /// The object's bytes.
    pub object: Vec<u8>,
    /// What readelf 2.47 printed of its table, if it has one.
    pub readelf: Option<String>,
    /// The architecture.
    pub arch: Arch,
}

/// `corpora/`.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora")
}

/// Every golden object that one tool wrote (`gas247`, `gas244`, `llvm23`), in order of name.
pub fn sframe(tool: &str) -> Vec<Golden> {
    let mut goldens = Vec::new();
    for (directory, arch) in [
        ("aarch64", Arch::Aarch64),
        ("aarch64_be", Arch::Aarch64Be),
        ("s390x", Arch::S390x),
        ("x86_64", Arch::Amd64),
    ] {
        for path in files(&self::directory().join("sframe").join(directory)) {
            let file = path.file_name().unwrap().to_str().expect("goldens have plain names");
            let Some(case) = file.strip_suffix(&format!(".{tool}.o")) else { continue };
            goldens.push(Golden {
                name: format!("{directory}/{case}"),
                object: fs::read(&path).unwrap(),
                readelf: fs::read_to_string(path.with_extension("readelf")).ok(),
                arch,
            });
        }
    }
    assert!(!goldens.is_empty(), "no goldens of {tool} in {}", directory().display());
    goldens
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
