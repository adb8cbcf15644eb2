//! Runs the examples.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};

use cfipack::decoder::sframe::Section;
use cfipack::format::Address;

/// Cargo puts examples beside the directory of the tests.
fn example(name: &str) -> Command {
    let program = env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join(name);
    assert!(
        program.exists(),
        "example {name} is not built: `cargo test -p cfipack` builds it, `--test` does not"
    );
    Command::new(program)
}

fn succeeded(output: &Output) -> &str {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The input is this test program, on hosts where it is an ELF file for an architecture of the format.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")))]
fn convert_writes_a_table_that_verifies() {
    let path = scratch("convert.sframe");
    let output = example("convert").arg(env::current_exe().unwrap()).arg(&path).output().unwrap();
    let printed = succeeded(&output);
    assert!(printed.contains(" 0 different"), "{printed}");
    let bytes = fs::read(path).unwrap();
    let functions: u64 = printed.split(' ').next().unwrap().parse().unwrap();
    let omitted: u64 = printed.split(' ').nth(2).unwrap().parse().unwrap();
    let table = Section::parse(&bytes, Address(0)).unwrap();
    assert!(functions > 100 && omitted * 100 <= functions, "{printed}");
    assert!(table.num_functions() as u64 >= functions - omitted, "{printed}");
}

#[test]
fn convert_reports_usage() {
    let output = example("convert").output().unwrap();
    assert!(!output.status.success());
}

/// The functions of the child are in the order of their calls, and the stack ends at the process's entry.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn unwind_prints_the_stack_of_its_child() {
    let output = example("unwind").output().unwrap();
    let printed = succeeded(&output);
    // A line is `#NUMBER ADDRESS FUNCTION in FILE`. The path may contain the name of a function.
    let stack: Vec<_> = printed.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)).collect();
    let frame = |name: &str| {
        let found = stack.iter().position(|function| function.contains(name));
        found.unwrap_or_else(|| panic!("{name}: {printed}"))
    };
    let frames = ["inner", "middle", "outer", "unwind4main", "_start"].map(frame);
    assert!(frames.is_sorted(), "{printed}");
    assert_eq!(stack.last(), Some(&"_start"), "{printed}");
}

#[test]
fn profile_reports_what_is_no_recording() {
    let refused = |arguments: &[&str], reason: &str| {
        let output = example("profile").args(arguments).output().unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && printed.contains(reason), "{arguments:?}: {printed}");
    };
    refused(&[], "usage: profile");
    refused(&["missing"], "No such file");
    let path = scratch("no-recording");
    fs::write(&path, "PERFILE2 and no more").unwrap();
    refused(&[path.to_str().unwrap()], "Error");
}

/// The process's unwinder and the registry find the functions in the order of their calls.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn jit_unwinds_generated_code() {
    let output = example("jit").output().unwrap();
    let printed = succeeded(&output);
    for reader in ["the process's unwinder", "the registry"] {
        assert!(printed.contains(&format!("{reader}: inner < middle < outer\n")), "{printed}");
    }
}

/// Passes this program twice: the second shares all blocks of the first, and lookups agree with the table.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")))]
fn deltas_share_blocks_and_equal_the_table() {
    let program = env::current_exe().unwrap();
    let output = example("deltas").args([&program, &program]).output().unwrap();
    let printed = succeeded(&output);
    let numbers = |line: &str| -> Vec<u64> {
        line.split_whitespace().map_while(|word| word.trim_end_matches(',').parse().ok()).collect()
    };
    let lines: Vec<_> = printed.lines().collect();
    let [_, first, second, all, checked] = &lines[..] else { panic!("{printed}") };
    let ([rows, bytes, _, _], [same_rows, pages, array, shared]) =
        (&numbers(first)[..4], &numbers(second)[..4])
    else {
        panic!("{printed}")
    };
    assert!(*rows > 1000 && rows == same_rows && 8 * rows == *array, "{printed}");
    // The second file adds only its pages, of 8 bytes each.
    assert!(*shared > 1 && pages % 8 == 0 && 10 * pages < *bytes, "{printed}");
    assert_eq!(numbers(all)[0], 2 * rows, "{printed}");
    assert_eq!(numbers(checked), [4 * rows], "{printed}");
}
