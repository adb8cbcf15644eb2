//! Random numbers that a failing run can repeat.
//!
//! `CFIPACK_SEED` sets the seed and `CFIPACK_CASES` the number of cases; every random test prints
//! both. Without them the seed is fresh each run, so that the tests see new inputs every time.

use std::time::{SystemTime, UNIX_EPOCH};

/// A generator of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

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

impl Random {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64 + 1) as i64
    }

    /// True `percent` times out of 100.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
