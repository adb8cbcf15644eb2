//! Tests outputs: each is complete or absent, and keeps owner and mode. Outputs may be descriptors, FIFOs and devices.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::program::{command, corpus, names, run, scratch, waiting};

/// Number of the user and of the group `nobody`.
const NOBODY: u32 = 65534;

/// Returns a shell that runs `script`. In the script, `"$@"` is the program with these arguments.
fn shell(directory: &Path, script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_cfi2sframe")]).args(arguments);
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Makes a directory with `linked.so`. Returns the directory and the table of the file.
fn prepared(name: &str) -> (PathBuf, Vec<u8>) {
    let directory = scratch(name);
    fs::copy(corpus().join("linked.so"), directory.join("linked.so")).unwrap();
    (directory, run(&["linked.so", "--section", "-"]).stdout)
}

/// If standard output is closed, Rust opens `/dev/null` in its place. Other programs pass `/dev/null` to their children
/// on purpose, for writing or for both. The program must tell the two cases apart.
#[test]
fn a_closed_standard_output_is_an_error() {
    let (directory, _) = prepared("closed");
    for arguments in [&["linked.so", "--section", "-"][..], &["linked.so", "--json"], &["dump", "linked.so"]]
    {
        let output = shell(&directory, r#"exec "$@" >&-"#, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let printed = printed(&output);
        assert!(printed.ends_with("standard output: Bad file descriptor (os error 9)\n"), "{printed}");
        for script in [r#"exec "$@" >/dev/null"#, r#"exec "$@" 1<>/dev/null"#, r#"exec "$@" <&-"#] {
            let output = shell(&directory, script, arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{script} {arguments:?}");
        }
    }
    let output = shell(&directory, r#"exec "$@" 2>&-"#, &["linked.so", "--section", "/dev/stderr"]);
    assert_eq!({ output }.status().unwrap().code(), Some(2));
}

#[test]
fn descriptors_are_written_through() {
    let (directory, table) = prepared("descriptors");
    symlink("/dev/stdout", directory.join("link")).unwrap();
    for (section, script) in [
        ("/dev/fd/3", r#"exec "$@" 3>>file"#),
        ("/dev/stdout", r#"exec "$@" >>file"#),
        ("link", r#"exec "$@" >>file"#),
        ("/proc/self/fd/1", r#"exec "$@" >>file"#),
        ("/dev/fd/3", r#"exec 3>file; printf before >&3; exec "$@""#),
    ] {
        let file = directory.join("file");
        fs::write(&file, "before").unwrap();
        let inode = fs::metadata(&file).unwrap().ino();
        let output = shell(&directory, script, &["linked.so", "--section", section]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{section}: {}", printed(&output));
        assert_eq!(fs::read(&file).unwrap(), [b"before", &table[..]].concat(), "{section}");
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "{section}");
    }
    let output =
        shell(&directory, r#"exec "$@""#, &["linked.so", "--section", "/dev/stderr"]).output().unwrap();
    assert!(output.stderr.starts_with(&table));
    assert_eq!(names(&directory), ["file", "link", "linked.so"]);
    let output =
        shell(&directory, r#"exec "$@" 7>&-"#, &["linked.so", "--section", "/dev/fd/7"]).output().unwrap();
    assert_eq!(printed(&output), "error: /dev/fd/7: Bad file descriptor (os error 9)\n");
    let both =
        shell(&directory, r#"exec "$@""#, &["linked.so", "--json", "--section", "link"]).output().unwrap();
    assert_eq!(printed(&both), "error: --section and --json both write to standard output\n");
}

/// symlink(7): a path through a loop leads to no file. The error names the output and not the input.
#[test]
fn a_loop_of_symbolic_links_is_named() {
    let (directory, _) = prepared("loop");
    for (link, target) in [("one", "two"), ("two", "one")] {
        symlink(target, directory.join(link)).unwrap();
    }
    let verbs: [&[&str]; 5] = [
        &["linked.so", "-o", "one"],
        &["linked.so", "--section", "one"],
        &["strip", "linked.so", "-o", "one"],
        &["merge", "linked.so", "-o", "one"],
        &["compact-unwind", "linked.so", "-o", "one"],
    ];
    for arguments in verbs {
        let output = command(arguments).current_dir(&directory).output().unwrap();
        let message = printed(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert_eq!(message, "error: one: a symbolic link that leads to itself; the output is a file\n");
    }
}

#[test]
fn fifos_and_devices_are_written_through() {
    let (directory, table) = prepared("special");
    let fifo = directory.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let child = shell(&directory, r#"exec "$@""#, &["linked.so", "--section", "fifo"]).spawn().unwrap();
    let mut read = Vec::new();
    File::open(&fifo).unwrap().read_to_end(&mut read).unwrap();
    assert!({ child }.wait().unwrap().success());
    assert_eq!(read, table);
    for device in ["/dev/null", "/dev/full"] {
        let output = run(&["linked.so", "--section", device]);
        assert_eq!(
            output.status.code(),
            Some(if device == "/dev/full" { 2 } else { 0 }),
            "{}",
            printed(&output)
        );
    }
    assert_eq!(names(&directory), ["fifo", "linked.so"]);
}

/// In containers every run of the program may have the same process number, and so the same temporary names.
#[test]
fn temporary_files_of_another_run_are_no_obstacle() {
    let (directory, table) = prepared("left");
    let script = r#"echo left >.cfi2sframe.$$.tmp; exec "$@""#;
    let output = shell(&directory, script, &["linked.so", "--section", "table"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert_eq!(fs::read(directory.join("table")).unwrap(), table);
}

#[test]
fn a_file_that_cannot_be_written_whole_is_named_and_removed() {
    let (directory, _) = prepared("limit");
    fs::write(directory.join("table"), "precious").unwrap();
    let output =
        shell(&directory, r#"ulimit -f 0; exec "$@""#, &["linked.so", "--section", "table"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    let printed = printed(&output);
    let temporary = printed.strip_prefix("error: table: temporary file .cfi2sframe.").unwrap();
    assert!(temporary.ends_with(".tmp: File too large (os error 27)\n"), "{printed}");
    assert_eq!(fs::read(directory.join("table")).unwrap(), b"precious");
    assert_eq!(names(&directory), ["linked.so", "table"]);
}

/// Makes a directory that every user may write, with the program and its input. Other users may not reach the build's
/// directory.
fn open_directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("cfi2sframe-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory).unwrap();
    fs::copy(corpus().join("linked.so"), directory.join("linked.so")).unwrap();
    // Another process copies the program. While this process has it open for writing, a child that another test starts
    // inherits the descriptor, and the program cannot be run.
    let copied =
        Command::new("cp").arg(env!("CARGO_BIN_EXE_cfi2sframe")).arg(directory.join("program")).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    directory
}

/// Writes `table` in the directory, as the user `nobody` if this process may change its user.
fn write_as_a_user(directory: &Path) -> Output {
    let mut command = Command::new(directory.join("program"));
    command.args(["linked.so", "--section", "table"]).current_dir(directory);
    if is_root(directory) {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

/// Returns whether this process, which made the directory, runs as root.
fn is_root(own: &Path) -> bool {
    fs::metadata(own).unwrap().uid() == 0
}

#[test]
fn a_file_that_may_not_be_written_is_not_replaced() {
    let directory = open_directory("read-only");
    let table = directory.join("table");
    fs::write(&table, "precious").unwrap();
    fs::set_permissions(&table, Permissions::from_mode(0o444)).unwrap();
    let output = write_as_a_user(&directory);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(printed(&output), "error: table: Permission denied (os error 13)\n");
    assert_eq!(fs::read(&table).unwrap(), b"precious");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
#[ignore = "needs root"]
fn owner_and_mode_are_kept_or_a_warning_is_printed() {
    let directory = open_directory("owner");
    assert!(is_root(&directory), "this test needs root");
    let table = directory.join("table");
    let state = || fs::metadata(&table).map(|it| (it.uid(), it.gid(), it.mode() & 0o7777)).unwrap();
    fs::write(&table, "old").unwrap();
    chown(&table, Some(1), Some(2)).unwrap();
    fs::set_permissions(&table, Permissions::from_mode(0o6751)).unwrap();
    let table_name = table.to_str().unwrap();
    assert!(run(&["linked.so", "--section", table_name]).status.success());
    assert_eq!(state(), (1, 2, 0o6751));
    // A user who may write a file still may not change the file's owner.
    fs::set_permissions(&table, Permissions::from_mode(0o6666)).unwrap();
    let output = write_as_a_user(&directory);
    assert_eq!(output.status.code(), Some(0));
    let why = "owner and group 1:2 become 65534:65534: Operation not permitted (os error 1)\n";
    assert!(printed(&output).starts_with(&format!("warning: table: {why}")), "{}", printed(&output));
    assert_eq!(state(), (NOBODY, NOBODY, 0o666));
    fs::remove_dir_all(directory).unwrap();
}

/// A running program cannot be opened for writing, but its file can be replaced.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_runs_is_replaced() {
    let (directory, table) = prepared("running");
    let program = directory.join("program");
    let mut running = waiting(&directory, "program");
    let output = run(&["linked.so", "--section", program.to_str().unwrap()]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert_eq!(fs::read(program).unwrap(), table);
}

#[test]
fn the_old_file_remains_until_the_new_one_is_complete() {
    let (directory, table) = prepared("killed");
    let path = directory.join("table");
    for delay in 0..40 {
        fs::write(&path, "precious").unwrap();
        let mut child = shell(&directory, r#"exec "$@""#, &["linked.so", "--section", "table"]);
        let mut child = child.stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_micros(250 * delay));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read(&path).unwrap();
        assert!(found == b"precious" || found == table, "{found:?}");
    }
}

/// The program maps the first file, then waits for us when it opens the second file.
#[test]
fn an_input_that_shrinks_is_an_error() {
    let (directory, _) = prepared("shrinks");
    let fifo = directory.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut child = command(&["diff", "linked.so", "fifo"]);
    let child = child.current_dir(&directory).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut other = OpenOptions::new().write(true).open(&fifo).unwrap();
    File::options().write(true).open(directory.join("linked.so")).unwrap().set_len(0).unwrap();
    other.write_all(&fs::read(corpus().join("linked.so")).unwrap()).unwrap();
    drop(other);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{:?}", output.status);
    assert_eq!(printed(&output), "error: linked.so: the file became shorter while it was read\n");
}
