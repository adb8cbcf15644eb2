//! Random numbers that a failing run can repeat.
//!
//! `CFIPACK_SEED` sets the seed and `CFIPACK_CASES` the number of cases; every random test prints both. Without
//! `CFIPACK_SEED` each run has the same cases, with `CFIPACK_SEED=random` new ones. A test that fails prints the command
//! that repeats it.

#![allow(dead_code, reason = "other crates' tests include this file, and use a part of it")]

use std::env;
use std::fmt::Debug;
use std::path::PathBuf;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

mod generator;

pub use generator::Random;

/// The seed of a run that sets none.
const SEED: u64 = 20_261_120;

/// The seed and number of cases of a random test, from the environment, printed with the command that has the same.
pub fn cases(test: &str, default_count: usize) -> (u64, usize) {
    let seed = match env::var("CFIPACK_SEED").as_deref() {
        Err(_) => SEED,
        Ok("random") => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
            now.as_nanos() as u64
        }
        Ok(number) => parsed("CFIPACK_SEED", number),
    };
    let count = env::var("CFIPACK_CASES");
    let count = count.map_or(default_count, |count| parsed("CFIPACK_CASES", &count) as usize);
    println!("{test}: {}", command(seed, count));
    (seed, count)
}

/// Asserts that a test's few cases contain what it is about, if they are the same in each run. New cases, or another number
/// of them, may lack it by chance, which is printed.
#[track_caller]
pub fn assert_enough(is_enough: bool, found: impl Debug) {
    match env::var_os("CFIPACK_SEED").or_else(|| env::var_os("CFIPACK_CASES")) {
        None => assert!(is_enough, "too little is put to the test: {found:?}"),
        Some(_) if is_enough => {}
        Some(_) => println!("NOT TESTED by these cases: too few of a kind: {found:?}"),
    }
}

/// Prints the seed of one case, should it fail, so that it can be run alone.
#[derive(Debug)]
pub struct Case(u64);

impl Case {
    /// A case, and the numbers for it.
    pub fn new(seed: u64) -> (Self, Random) {
        (Self(seed), Random::new(seed))
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("this case alone: {}", command(self.0, 1));
        }
    }
}

/// The command that runs the current test again.
fn command(seed: u64, count: usize) -> String {
    let mut command = format!("CFIPACK_SEED={seed} CFIPACK_CASES={count} cargo test");
    let package = env::var("CARGO_PKG_NAME").ok();
    if let Some(package) = &package {
        command += &format!(" -p {package}");
    }
    // `target/debug/deps/PROGRAM-HASH`
    let path = env::current_exe().unwrap_or_else(|_| PathBuf::new());
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let program = name.rsplit_once('-').map_or(&*name, |(program, _)| program);
    match package.is_some_and(|package| package.replace('-', "_") == program) {
        true => command += " --lib",
        false => command += &format!(" --test {program}"),
    }
    // The thread of a test has its name. With one thread for all tests it has none.
    match thread::current().name() {
        Some(test) if test != "main" => command + &format!(" {test} -- --exact --include-ignored"),
        _ => command,
    }
}

fn parsed(variable: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
}
