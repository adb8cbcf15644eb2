//! Runs the program on an object or archive.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Makes an empty directory for this process.
pub fn scratch(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Runs the program with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cfi2sframe")).arg("compact-unwind").args(arguments).output().unwrap()
}

/// Changes a file. Returns its new bytes and the JSON summary. A second run must change nothing.
pub fn edited(path: &Path) -> (Vec<u8>, serde_json::Value) {
    let path = path.to_str().unwrap();
    let new = format!("{path}.edited");
    let output = run(&[path, "-o", &new, "--json"]);
    assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let sum = ["gained", "compact", "dwarf"].map(|key| json[key].as_u64().unwrap()).iter().sum::<u64>();
    assert_eq!(json["functions"], sum, "{json}");
    let bytes = std::fs::read(&new).unwrap();
    let date = std::fs::metadata(&new).unwrap().modified().unwrap();
    let again = run(&["--in-place", &new, "--json"]);
    assert!(again.status.success(), "{path}: {}", String::from_utf8_lossy(&again.stderr));
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["gained"], 0, "{path}: {again}");
    assert!(bytes == std::fs::read(&new).unwrap(), "{path}: a second run changes the file");
    assert_eq!(std::fs::metadata(&new).unwrap().modified().unwrap(), date, "{path}");
    std::fs::remove_file(&new).unwrap();
    (bytes, json)
}
