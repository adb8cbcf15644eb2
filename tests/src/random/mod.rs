//! Random numbers that a failing run can repeat.
//!
//! `CFIPACK_SEED` sets the seed and `CFIPACK_CASES` the number of cases; every random test prints
//! both. Without them the seed is fresh each run, so that the tests see new inputs every time.

#![allow(dead_code, reason = "other crates' tests include this file, and use a part of it")]

use std::time::{SystemTime, UNIX_EPOCH};

mod generator;

pub use generator::Random;

/// The seed and number of cases of a random test, from the environment, printed.
pub fn cases(test: &str, default_count: usize) -> (u64, usize) {
    let seed = number("CFIPACK_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        now.as_nanos() as u64
    });
    let count = number("CFIPACK_CASES").map_or(default_count, |count| count as usize);
    println!("{test}: CFIPACK_SEED={seed} CFIPACK_CASES={count}");
    (seed, count)
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
        if std::thread::panicking() {
            println!("this case alone: CFIPACK_SEED={} CFIPACK_CASES=1", self.0);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}
