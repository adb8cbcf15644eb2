//! Makes programs and a library with rustc or with the machine's C compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use cfipack_testkit::{needs, rustc};

const SOURCE: &str = "
    #include <stdio.h>
    __thread int local = 3;
    static const char *const names[] = {\"one\", \"two\"};
    int shared(int x) { return x + local; }
    int main(int count, char **arguments) { return printf(\"%s %d\\n\", names[count & 1], shared(count)) < 0; }
";

/// Small linked files with their names.
pub(super) type Programs = Vec<(&'static str, Vec<u8>)>;

fn scratch(test: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("structure-{test}"));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Makes two programs and a library with rustc and the linker that it needs. One program is position-independent.
pub(super) fn programs(test: &str) -> Programs {
    let directory = scratch(test);
    let read = |name: &str| std::fs::read(directory.join(name)).unwrap();
    rustc::program(&directory, &["-Crelocation-model=static"]);
    let fixed = read("program");
    rustc::program_library_object(&directory);
    vec![("pie", read("program")), ("fixed", fixed), ("library", read("library.so"))]
}

/// Makes the same kinds of files with `cc` and its linker, with thread-local data.
pub(super) fn programs_of_cc(test: &str) -> Programs {
    needs::program("cc", "gcc");
    let directory = scratch(&format!("{test}-cc"));
    std::fs::write(directory.join("program.c"), SOURCE).unwrap();
    let kinds: [(&str, &[&str]); 3] = [
        ("pie", &["-fPIE", "-pie"]),
        ("fixed", &["-fno-pie", "-no-pie"]),
        ("library", &["-fPIC", "-shared"]),
    ];
    let built = |(kind, options): (&'static str, &[&str])| {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g0", "program.c", "-o", kind]).args(options).current_dir(&directory);
        assert!(cc.status().unwrap().success(), "{cc:?}");
        (kind, std::fs::read(directory.join(kind)).unwrap())
    };
    kinds.into_iter().map(built).collect()
}
