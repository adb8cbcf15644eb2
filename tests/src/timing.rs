//! Times of work, as the benches take them.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Measures how long work takes. Dropping its result takes no part in it.
pub fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let elapsed = start.elapsed();
    drop(result);
    elapsed
}

/// The median, the upper of two.
///
/// # Panics
/// If there are none.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs both by turns, so many times; the medians. Giving back what they return takes no part in it.
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
