//! Programs and libraries of the machine's C compiler.

use std::path::Path;
use std::process::Command;

use crate::not_tested::skipped;

const SOURCE: &str = "
    #include <stdio.h>
    __thread int local = 3;
    static const char *const names[] = {\"one\", \"two\"};
    int shared(int x) { return x + local; }
    int main(int count, char **arguments) { return printf(\"%s %d\\n\", names[count & 1], shared(count)) < 0; }
";

/// Small linked files: a position-independent program, another one, and a library. None without a compiler, which is
/// printed.
pub(super) fn programs(test: &str) -> Vec<(&'static str, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("structure-{test}"));
    std::fs::create_dir_all(&directory).unwrap();
    let source = directory.join("program.c");
    std::fs::write(&source, SOURCE).unwrap();
    let kinds: [(&str, &[&str]); 3] = [
        ("pie", &["-fPIE", "-pie"]),
        ("fixed", &["-fno-pie", "-no-pie"]),
        ("library", &["-fPIC", "-shared"]),
    ];
    let mut all = Vec::new();
    for (kind, options) in kinds {
        let file = directory.join(kind);
        let mut compiler = Command::new("cc");
        let built = compiler.args(["-O2", "-g0"]).args(options).arg("-o").arg(&file).arg(&source).output();
        match built {
            Ok(output) if output.status.success() => all.push((kind, std::fs::read(&file).unwrap())),
            _ => skipped(&format!("check of an edited {kind}"), "there is no C compiler for ELF"),
        }
    }
    all.retain(|(_, bytes)| bytes.starts_with(b"\x7fELF\x02\x01"));
    all
}
