//! Programs and a library of rustc.

use std::path::Path;

use crate::rustc;

/// Small linked files: a position-independent program, another one, and a library.
pub(super) fn programs(test: &str) -> Vec<(&'static str, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("structure-{test}"));
    std::fs::create_dir_all(&directory).unwrap();
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    rustc::program(&directory, &["-Crelocation-model=static"]);
    let fixed = read("program");
    rustc::program_library_object(&directory);
    vec![("pie", read("program")), ("fixed", fixed), ("library", read("library.so"))]
}
