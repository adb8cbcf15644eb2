//! Tests directories, several files at once, and failures that affect one file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::{built, messages, names, run_in};

/// Makes a tree of programs, libraries and objects, with other files between them.
fn tree(name: &str) -> std::path::PathBuf {
    let directory = built(name);
    for below in ["a", "b", "b/c"] {
        fs::create_dir(directory.join(below)).unwrap();
        for file in ["program", "library.so", "object.o"] {
            fs::copy(directory.join(file), directory.join(below).join(file)).unwrap();
        }
    }
    fs::write(directory.join("a/script"), "#!/bin/sh\n").unwrap();
    fs::write(directory.join("a/empty"), "").unwrap();
    fs::write(directory.join("a/.cfi2sframe.0123456789abcdef.tmp"), "left").unwrap();
    symlink("..", directory.join("b/loop")).unwrap();
    assert!(Command::new("mkfifo").arg(directory.join("b/fifo")).status().unwrap().success());
    directory
}

/// Returns the bytes of all regular files, by name.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for below in ["a", "b", "b/c"] {
        for name in names(&directory.join(below)) {
            let path = directory.join(below).join(&name);
            if fs::symlink_metadata(&path).unwrap().is_file() {
                all.push((format!("{below}/{name}"), fs::read(path).unwrap()));
            }
        }
    }
    all
}

#[test]
fn directories_and_threads() {
    let (one, two) = (tree("into_tree_1"), tree("into_tree_2"));
    let without_time = |text: String| {
        let lines = text.lines().map(|line| line.split(" in 0.").next().unwrap().to_owned());
        lines.collect::<Vec<_>>()
    };
    let first = without_time(messages(&one, &["--in-place", "-r", "a", "b", "-v"], 0));
    let second = without_time(messages(&two, &["--in-place", "-r", "a", "b", "-v", "--jobs", "3"], 0));
    assert_eq!(first, second);
    assert_eq!(contents(&one), contents(&two));
    let text = first.join("\n");
    assert!(text.contains("warning: b/fifo: not changed: not a regular file\n"), "{text}");
    assert!(text.contains("\n14 files, 9 changed, 5 skipped\n"), "{text}");
    assert!(
        text.contains(
            "\n  skipped: 2 neither an ELF file nor an archive, 1 symbolic link, 1 not a regular file, 1 temporary file of a killed run\n"
        ),
        "{text}"
    );
    let text = messages(&one, &["--in-place", "-r", "a", "b", "--skip-done"], 0);
    assert!(text.contains("9 has a table already"), "{text}");
    let text = messages(&one, &["a", "--in-place"], 2);
    assert_eq!(text, "error: a: a directory: use --recursive\n");
    // A FIFO stays as it is. With `--strict` that is an error.
    messages(&one, &["--in-place", "-r", "b", "--strict"], 1);
    messages(&one, &["strip", "-r", "b", "--strict"], 1);
    messages(&one, &["strip", "-r", "b"], 0);
}

#[test]
fn a_failure_costs_one_file() {
    let directory = tree("into_failures");
    let whole = fs::read(directory.join("a/library.so")).unwrap();
    fs::write(directory.join("a/library.so"), &whole[..whole.len() / 2]).unwrap();
    let output = run_in(&directory, &["--in-place", "-r", "a", "missing", "b", "--json", "--jobs", "2"]);
    assert_eq!(output.status.code(), Some(2));
    let lines = String::from_utf8(output.stdout).unwrap();
    let files: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = |name: &str| {
        let file = files.iter().find(|file| file["file"] == name).unwrap_or_else(|| panic!("no {name}"));
        file["result"].as_str().unwrap()
    };
    assert_eq!(["a/library.so", "missing"].map(result), ["failed", "failed"]);
    for name in ["a/program", "a/object.o", "b/program", "b/library.so", "b/c/library.so", "b/c/object.o"] {
        assert_eq!(result(name), "changed", "{name}");
    }
    assert_eq!(fs::read(directory.join("a/library.so")).unwrap(), whole[..whole.len() / 2]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("error: missing: No such file or directory"), "{text}");
    assert!(text.contains("error: a/library.so: "), "{text}");
}

/// If the reader of the output goes away, the work goes on.
#[test]
fn a_closed_pipe_does_not_stop_changes() {
    let directory = tree("into_pipe");
    let program = env!("CARGO_BIN_EXE_cfi2sframe");
    let status = Command::new("sh")
        .args(["-c", r#""$0" --in-place -r a b --json | true"#, program])
        .current_dir(&directory)
        .status();
    assert!(status.unwrap().success());
    for name in ["a/program", "b/c/object.o"] {
        messages(&directory, &["verify", name], 0);
    }
}
