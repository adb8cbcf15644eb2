//! Measures times of work for the benches.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Measures how long work takes, without the time for dropping its result.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let elapsed = start.elapsed();
    drop(result);
    elapsed
}

/// Returns the median. Of two middle values it returns the larger.
///
/// # Panics
/// If there are none.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs both by turns, and returns the medians. The time for dropping results does not count.
pub fn by_turns<A, B>(
    rounds: usize,
    mut a: impl FnMut() -> A,
    mut b: impl FnMut() -> B,
) -> (Duration, Duration) {
    let mut times: [Vec<_>; 2] = Default::default();
    for _ in 0..rounds {
        times[0].push(time(&mut a));
        times[1].push(time(&mut b));
    }
    let [a, b] = times.map(median);
    (a, b)
}
