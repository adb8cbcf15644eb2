//! Random numbers that a failing run can repeat.
//!
//! `CFIPACK_SEED` sets the seed and `CFIPACK_CASES` the number of cases. Every random test prints both. Without
//! `CFIPACK_SEED` each run has the same cases; `CFIPACK_SEED=random` gives new ones. A failing test prints how to
//! repeat it.

use std::env;
use std::fmt::Debug;
use std::path::PathBuf;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed if `CFIPACK_SEED` is not set.
const SEED: u64 = 20_261_120;

/// A generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator. Equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns any number.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// Returns a byte from `low` to `high`, both included.
    pub fn byte(&mut self, low: u8, high: u8) -> u8 {
        low + self.below(u64::from(high - low) + 1) as u8
    }

    /// Returns true `percent` times out of 100.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the choices.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Returns seed and number of cases of a random test, by the environment. Prints the command that has the same cases.
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

/// Fails if a test's usual cases do not contain enough of what the test is about. Other seeds or numbers of cases may
/// lack it by chance: then this function only prints a line.
#[track_caller]
pub fn assert_enough(is_enough: bool, found: impl Debug) {
    match env::var_os("CFIPACK_SEED").or_else(|| env::var_os("CFIPACK_CASES")) {
        None => assert!(is_enough, "too little is put to the test: {found:?}"),
        Some(_) if is_enough => {}
        Some(_) => println!("NOT TESTED by these cases: too few of a kind: {found:?}"),
    }
}

/// Prints the seed of a case that fails, so that you can run this case alone.
#[derive(Debug)]
pub struct Case(u64);

impl Case {
    /// Makes a case, and the generator for it.
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

/// Returns the command that runs the current test again.
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
    if package.is_some_and(|package| package.replace('-', "_") == program) {
        command += " --lib";
    } else {
        command += &format!(" --test {program}");
    }
    // A test's thread has the test's name. With one thread for all tests, the name is `main`.
    match thread::current().name() {
        Some(test) if test != "main" => command + &format!(" {test} -- --exact --include-ignored"),
        _ => command,
    }
}

fn parsed(variable: &str, text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
}
