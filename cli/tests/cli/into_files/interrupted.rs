//! Tests killed processes and full disks: the old file survives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cfipack_testkit::rustc::rustc;

use super::{built, mounting, names, run_in};
use crate::program::{command, scratch};

/// Makes a directory with a library that has 16 MiB of data.
fn big(name: &str) -> PathBuf {
    const SOURCE: &str = r#"
#![no_std]
core::arch::global_asm!(".pushsection .data\n.globl big\nbig: .fill 0x200000, 8, 0x0123456789abcdef\n.popsection");
#[unsafe(no_mangle)]
extern "C" fn function() {}
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
"#;
    let directory = scratch(name);
    fs::write(directory.join("big.rs"), SOURCE).unwrap();
    rustc(&directory, &["big.rs", "--crate-type=cdylib", "-Clink-arg=-Wl,--undefined=big", "-o", "big.so"]);
    assert!(fs::metadata(directory.join("big.so")).unwrap().len() > 16 << 20);
    directory
}

/// Whenever we kill the process, the name has the old or the new file, and only a temporary file may be left.
#[test]
fn killed_at_any_moment() {
    let directory = big("into_killed");
    let path = directory.join("big.so");
    let old = fs::read(&path).unwrap();
    let started = Instant::now();
    assert!(run_in(&directory, &["--in-place", "big.so"]).status.success());
    let whole_run = started.elapsed();
    let new = fs::read(&path).unwrap();
    assert!(new != old);
    let (mut kept, mut replaced, mut left) = (0, 0, 0);
    for step in 0..30_u32 {
        fs::write(&path, &old).unwrap();
        let mut child =
            command(&["--in-place", "big.so"]).current_dir(&directory).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(whole_run * step / 25);
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        let found = fs::read(&path).unwrap();
        assert!(found == old || found == new, "killed after {:?} of {whole_run:?}", whole_run * step / 25);
        if found == old {
            kept += 1
        } else {
            replaced += 1
        }
        left += remove_temporaries(&directory);
    }
    println!("{kept} times the old file, {replaced} times the new one, {left} temporary files left");
    assert!(kept != 0);
    assert!(left <= kept);
}

/// Removes the temporary files of killed runs, and returns their number. Nothing else may be in the directory.
fn remove_temporaries(directory: &Path) -> usize {
    let known = ["big.rs", "big.so"];
    let others: Vec<_> =
        names(directory).into_iter().filter(|name| !known.contains(&name.as_str())).collect();
    for name in &others {
        assert!(name.starts_with(".cfi2sframe.") && name.ends_with(".tmp"), "{name}");
        fs::remove_file(directory.join(name)).unwrap();
    }
    others.len()
}

/// A signal that the program can handle leaves no temporary file.
#[test]
fn ended_by_a_signal() {
    let directory = big("into_ended");
    let path = directory.join("big.so");
    let old = fs::read(&path).unwrap();
    for milliseconds in [5, 20, 40] {
        let mut child = command(&["--in-place", "big.so"]);
        let mut child = child.current_dir(&directory).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(milliseconds));
        let status = Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status();
        assert!(status.unwrap().success());
        child.wait().unwrap();
        assert_eq!(remove_temporaries(&directory), 0);
        fs::write(&path, &old).unwrap();
    }
}

/// The output is on a file system of 16 MiB, mounted in a name space of its own.
#[test]
#[ignore = "needs root"]
fn a_full_disk() {
    let directory = built("into_full");
    let script = r#"
mkdir small && mount -t tmpfs -o size=2m none small 2>/dev/null || exit 99
cp library.so small/ && cp library.so old.so
head -c 10000000 /dev/zero >small/filler 2>/dev/null
"$0" --in-place small/library.so; status=$?
cmp small/library.so old.so && ls -A small
exit $status"#;
    let output = mounting(&directory, script);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: small/library.so: temporary file small/.cfi2sframe."), "{text}");
    assert!(text.contains("No space left on device"), "{text}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "filler\nlibrary.so\n");
}

/// Two ways to have no room: the process has a limit on file sizes, and the device is full.
#[test]
fn no_room_for_the_output() {
    let directory = built("into_limit");
    let old = fs::read(directory.join("program")).unwrap();
    let limited = Command::new("sh")
        .args(["-c", r#"ulimit -f 8; exec "$0" --in-place program"#, env!("CARGO_BIN_EXE_cfi2sframe")])
        .current_dir(&directory)
        .output()
        .unwrap();
    let text = String::from_utf8(limited.stderr).unwrap();
    assert_eq!(limited.status.code(), Some(2), "{text}");
    assert!(text.contains("File too large"), "{text}");
    assert_eq!(fs::read(directory.join("program")).unwrap(), old);
    assert_eq!(names(&directory), ["library.so", "object.o", "program"]);
    let full = run_in(&directory, &["program", "-o", "/dev/full"]);
    assert_eq!(full.status.code(), Some(2));
    assert!(String::from_utf8(full.stderr).unwrap().contains("No space left on device"));
}
