//! A program and a library of rustc.

use std::path::Path;

use crate::rustc::program_library_object;

/// Small linked files: a position-independent program, another one, and a library.
pub(super) fn programs(test: &str) -> Vec<(&'static str, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("structure-{test}"));
    std::fs::create_dir_all(&directory).unwrap();
    let built = |name: &str, options: &[&str]| {
        program_library_object(&directory, options);
        std::fs::read(directory.join(name)).unwrap()
    };
    vec![
        ("pie", built("program", &[])),
        ("fixed", built("program", &["-Crelocation-model=static"])),
        ("library", built("library.so", &[])),
    ]
}
