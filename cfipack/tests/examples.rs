//! The examples, run.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};

use cfipack::decoder::sframe::Section;
use cfipack::format::Address;

/// Cargo puts examples beside the directory of the tests.
fn example(name: &str) -> Command {
    let directory = env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    Command::new(directory.join(name))
}

fn succeeded(output: &Output) -> &str {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// This very program: of ELF and an architecture of the format only on some hosts.
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

/// Two objects with functions at equal offsets, one of them dead: four remain, at two layouts.
#[test]
fn linker_writes_two_layouts_that_verify() {
    let output = example("linker").output().unwrap();
    let printed = succeeded(&output);
    assert!(printed.starts_with("4 functions, "), "{printed}");
    assert_eq!(printed.matches(": verified").count(), 2, "{printed}");
}

/// The functions of the child stand in the order of its calls, and the stack ends where the process began.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn unwind_prints_the_stack_of_its_child() {
    let output = example("unwind").output().unwrap();
    let printed = succeeded(&output);
    let functions = ["inner", "middle", "outer", "main", "_start in "];
    let places = functions.map(|name| printed.find(name).unwrap_or_else(|| panic!("{name}: {printed}")));
    assert!(places.is_sorted(), "{printed}");
    assert!(printed.lines().last().unwrap().contains("_start in "), "{printed}");
}
