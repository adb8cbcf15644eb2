//! Swaps directories and files of a tree for links while the program works in it: nothing outside may change.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::built;
use crate::program::command;

/// The number of runs of a usual test. `CFI2SFRAME_TEST_SWAPS` gives another number.
const RUNS: u64 = 25;

/// The state of a file: mode, owner, inode, times of change, bytes.
type State = (u32, u32, u64, (i64, i64), Vec<u8>);

/// Makes the files outside: a library, a set-user-ID program, and a directory with the names of one in the tree.
fn outside(directory: &Path) -> BTreeMap<PathBuf, State> {
    let mut files = BTreeMap::new();
    for below in ["outside", "outside/d0"] {
        for entry in fs::read_dir(directory.join(below)).unwrap() {
            let path = entry.unwrap().path();
            let it = fs::metadata(&path).unwrap();
            let bytes = if it.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let time = if it.is_file() { (it.mtime(), it.mtime_nsec()) } else { (0, 0) };
            files.insert(path, (it.mode(), it.uid(), it.ino(), time, bytes));
        }
    }
    files
}

fn build(directory: &Path, library: &[u8]) {
    let tree = directory.join("tree");
    let _ = fs::remove_dir_all(&tree);
    for below in ["d0", "d0/deep", "d1", "d2"] {
        fs::create_dir_all(tree.join(below)).unwrap();
        for name in ["a.so", "b.so"] {
            fs::write(tree.join(below).join(name), library).unwrap();
        }
    }
}

/// Replaces something in the tree by a link that leads outside, for a moment.
fn swap(directory: &Path, mut random: impl FnMut(u64) -> u64) -> io::Result<()> {
    let (tree, outside) = (directory.join("tree"), directory.join("outside"));
    let below = tree.join(["d0", "d0/deep", "d1", "d2"][random(4) as usize]);
    let (victim, aside) = (below.join(["a.so", "b.so"][random(2) as usize]), directory.join("aside"));
    let (path, kind) = (if random(2) == 0 { &below } else { &victim }, random(5));
    fs::rename(path, &aside)?;
    let swapped = match kind {
        _ if path == &below => symlink(if kind < 3 { outside.join("d0") } else { outside.clone() }, path),
        0 => symlink(outside.join("a.so"), path),
        1 => symlink(outside.join("program"), path),
        2 => fs::hard_link(outside.join("program"), path),
        3 => symlink("../d1", path),
        _ => Command::new("mkfifo").arg(path).status().map(|_| ()),
    };
    thread::sleep(Duration::from_micros(random(3000)));
    let removed = swapped.and_then(|()| fs::remove_file(path));
    // The program may have put a new file at the place that was free for a moment.
    let restored = fs::rename(&aside, path);
    removed.and(restored)
}

#[test]
fn swaps_lead_nowhere() {
    let directory = built("into_swapped");
    let runs = std::env::var("CFI2SFRAME_TEST_SWAPS").unwrap_or_default().parse().unwrap_or(RUNS);
    fs::create_dir_all(directory.join("outside/d0")).unwrap();
    for (from, to) in [("library.so", "a.so"), ("library.so", "d0/b.so"), ("program", "program")] {
        fs::copy(directory.join(from), directory.join("outside").join(to)).unwrap();
    }
    let set_user = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(directory.join("outside/program"), set_user).unwrap();
    let library = fs::read(directory.join("library.so")).unwrap();
    let before = outside(&directory);
    let program = fs::metadata(directory.join("outside/program")).unwrap().ino();
    let (swaps, mut statuses) = (AtomicU64::new(0), BTreeMap::new());
    for run in 0..runs {
        build(&directory, &library);
        let done = AtomicBool::new(false);
        let status = thread::scope(|scope| {
            scope.spawn(|| {
                let mut state = 0x9e37_79b9_7f4a_7c15 ^ (run + 1);
                let mut random = |below: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % below
                };
                while !done.load(Ordering::Relaxed) {
                    swaps.fetch_add(u64::from(swap(&directory, &mut random).is_ok()), Ordering::Relaxed);
                }
            });
            let verb = if run % 5 == 4 { ["strip", "--no-sync"] } else { ["--in-place", "--no-sync"] };
            let more = ["-r", "tree", "--break-links", "--jobs", ["1", "3"][run as usize % 2]];
            let mut command = command(&[&verb[..], &more].concat());
            let child = command.current_dir(&directory).stdout(Stdio::null()).stderr(Stdio::null()).status();
            done.store(true, Ordering::Relaxed);
            child.unwrap()
        });
        *statuses.entry(status.code()).or_insert(0) += 1;
        assert!(matches!(status.code(), Some(0..=2)), "run {run}: {status}");
        assert_eq!(outside(&directory), before, "run {run}");
        no_set_user(&directory.join("tree"), program);
    }
    println!("{runs} runs, {} swaps, 0 changes outside; exit statuses {statuses:?}", swaps.into_inner());
}

/// Asserts that no file below is a set-user-ID program, except a link to the program outside.
fn no_set_user(directory: &Path, program: u64) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let it = fs::symlink_metadata(&path).unwrap();
        if it.is_dir() {
            no_set_user(&path, program);
        } else if it.is_file() {
            assert!(it.mode() & 0o4000 == 0 || it.ino() == program, "{}", path.display());
        }
    }
}
