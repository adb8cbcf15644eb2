//! Tests gdb and perf, which look at the process from outside.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cfipack_testkit::needs;

use super::child::prepare;

/// Returns gdb's backtraces at both calls of `jit_stop`: while the code is registered, and afterwards.
fn gdb(cfi: &str) -> [String; 2] {
    needs::program("gdb", "gdb");
    let mut command = Command::new("gdb");
    let script = ["set debuginfod enabled off", "set confirm off", "break jit_stop", "run", "bt"];
    let rest = ["echo ----\\n", "continue", "bt", "kill"];
    command.args(["-nx", "-batch"]);
    for line in script.iter().chain(&rest) {
        command.args(["-ex", line]);
    }
    command.arg("--args").arg(env::current_exe().unwrap()).stdin(Stdio::null());
    prepare(&mut command, &format!("gdb {cfi} stop"));
    let output = command.output().expect("gdb starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (first, second) = text.split_once("----").unwrap_or_else(|| panic!("{output:?}"));
    [first, second].map(str::to_owned)
}

/// Returns the functions that a backtrace names.
fn functions(backtrace: &str) -> Vec<&str> {
    let frames = backtrace.lines().filter_map(|line| line.strip_prefix('#')?.split_once(' '));
    let places = frames.map(|(_, place)| place.split_once(" in ").map_or(place, |(_, name)| name));
    places.map(|name| name.trim_start().split(' ').next().unwrap_or("")).collect()
}

/// Returns whether a backtrace reaches `case`. Without line tables gdb prints its path too.
fn has_case(backtrace: &str) -> bool {
    functions(backtrace).iter().any(|name| name.split("::").any(|part| part == "case"))
}

#[test]
#[ignore = "needs gdb"]
fn gdb_prints_generated_functions() {
    let [registered, removed] = gdb("right");
    let names = functions(&registered);
    assert_eq!(names[1..5], ["inner", "middle", "outer", "jit_caller"], "{registered}");
    assert!(names.len() > 10 && has_case(&registered), "{registered}");
    assert!(!registered.contains("warning: JIT"), "{registered}");
    for name in ["inner", "middle", "outer"] {
        assert!(!functions(&removed).contains(&name), "{removed}");
    }
    assert!(!has_case(&removed), "{removed}");
    let [wrong, _] = gdb("wrong");
    let names = functions(&wrong);
    assert_eq!(names[1..3], ["inner", "middle"], "{wrong}");
    assert!(!names.contains(&"jit_caller"), "{wrong}");
}

/// Returns the samples in `jit_busy`, each as the names of the callers.
fn perf(cfi: &str) -> BTreeMap<Vec<String>, usize> {
    needs::program("perf", "linux-perf");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jit-perf-{cfi}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let perf = |arguments: &[&str]| {
        let mut command = Command::new("perf");
        // perf stores build IDs in the home directory.
        command.args(arguments).current_dir(&directory).env("HOME", &directory).stdin(Stdio::null());
        command
    };
    let mut record =
        perf(&["record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "500", "--call-graph", "dwarf,8192"]);
    record.args(["-o", "perf.data", "--"]).arg(env::current_exe().unwrap());
    prepare(&mut record, &format!("perf {cfi} busy {}", directory.display()));
    let succeeded = |output: &std::io::Result<Output>| output.as_ref().is_ok_and(|o| o.status.success());
    let recorded = record.output();
    assert!(succeeded(&recorded), "{recorded:?}");
    let injected = perf(&["inject", "--jit", "-i", "perf.data", "-o", "perf.jit.data"]).output();
    assert!(succeeded(&injected), "{injected:?}");
    let script = perf(&["script", "-i", "perf.jit.data", "--no-inline", "-F", "ip,sym"]).output().unwrap();
    assert!(script.status.success(), "{script:?}");
    let mut samples = BTreeMap::new();
    for sample in String::from_utf8_lossy(&script.stdout).split("\n\n") {
        let frames = sample.lines().filter_map(|line| line.trim().split_once(' '));
        let names: Vec<_> = frames.map(|(_, name)| name.to_owned()).collect();
        if let Some(at) = names.iter().position(|name| name == "jit_busy") {
            *samples.entry(names[at + 1..].to_vec()).or_insert(0) += 1;
        }
    }
    samples
}

/// perf 7 confuses offsets in a file with addresses when it looks up CFI. It cannot unwind programs whose code has
/// other addresses than offsets, such as lld's programs, which Rust makes by default.
fn perf_can_unwind_this_program() -> bool {
    use object::{Object, ObjectSegment};
    let version = Command::new("perf").arg("--version").output();
    let version = version.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned());
    let number = version.rsplit(' ').next().unwrap_or_default();
    let major: u32 = number.split('.').next().unwrap_or_default().trim().parse().unwrap_or(0);
    let is_old = major < 7;
    let program = fs::read(env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*program).unwrap();
    let mut segments = file.segments();
    let at = super::child::jit_stop as *const () as u64 - super::child::image_base();
    let holds_code = |segment: &object::Segment<'_, '_>| at.wrapping_sub(segment.address()) < segment.size();
    let moved = segments.any(|segment| holds_code(&segment) && segment.file_range().0 != segment.address());
    if moved && !is_old {
        eprintln!("not tested: perf 7 cannot unwind a program whose addresses are not its file offsets");
    }
    is_old || !moved
}

#[test]
#[ignore = "needs perf"]
fn perf_shows_callers_of_generated_code() {
    if !perf_can_unwind_this_program() {
        return;
    }
    let samples = perf("right");
    let all: usize = samples.values().sum();
    let generated = ["inner", "middle", "outer", "jit_caller"];
    let is_whole = |names: &[String]| names.starts_with(&generated.map(str::to_owned)) && names.len() > 10;
    let whole: usize = samples.iter().filter(|(names, _)| is_whole(names)).map(|(_, count)| count).sum();
    assert!(all > 50, "{all} samples");
    // A sample has only a part of the stack, so some stacks are incomplete.
    assert!(whole * 100 >= all * 99, "{whole} of {all}: {samples:?}");
    let samples = perf("wrong");
    assert!(samples.keys().all(|names| !names.contains(&"jit_caller".to_owned())), "{samples:?}");
}
