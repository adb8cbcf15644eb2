//! The man pages and completions that the example `manual` writes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Every verb that `--help` lists has a page, and every shell completes it.
#[test]
fn a_page_and_completions_for_each_verb() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("manual");
    // Cargo puts examples beside the directory of the tests.
    let examples = env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    let status = Command::new(examples.join("manual")).arg(&directory).status().unwrap();
    assert!(status.success());
    let help = Command::new(env!("CARGO_BIN_EXE_cfi2sframe")).arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let verbs: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|verb| !verb.is_empty()))
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() >= 7, "{help}");
    let read =
        |path: &Path| fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let files = ["cfi2sframe.bash", "cfi2sframe.elv", "cfi2sframe.fish", "_cfi2sframe", "_cfi2sframe.ps1"];
    for verb in verbs {
        let page = read(&directory.join(format!("man1/cfi2sframe-{verb}.1")));
        assert!(
            page.contains(&format!("cfi2sframe\\-{verb}")) || page.contains(&format!("cfi2sframe-{verb}")),
            "{page}"
        );
        for file in files {
            assert!(read(&directory.join("completions").join(file)).contains(verb), "{file}: {verb}");
        }
    }
    let page = read(&directory.join("man1/cfi2sframe.1"));
    assert!(page.contains("EXIT STATUS"));
    assert!(page.contains("\n.SH SYNOPSIS\ncfi2sframe [OPTIONS] INPUT...\n.br\n"), "{page}");
}
