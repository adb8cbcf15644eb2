//! Makes orders in which functions are added to a region, and regions to a registry.

use super::{Input, Shape};

/// Functions for each part. An insertion must move many of them.
const FUNCTIONS: usize = 64;

/// Shapes of places.
pub const REGIONS: &[Shape] = &[
    ("ascending", |n| places(n, |number, _| number)),
    ("descending", |n| places(n, |number, count| count - 1 - number)),
    ("from both ends", |n| {
        places(n, |number, count| if number % 2 == 0 { number / 2 } else { count - 1 - number / 2 })
    }),
    // The factor is odd, so it reaches all places of a power of two.
    ("anywhere", |n| places(n, |number, count| number * 0x9e37_79b1 % count)),
];

fn places(n: usize, place: impl Fn(usize, usize) -> usize) -> Input {
    let count = FUNCTIONS * n.next_power_of_two();
    Input::Places((0..count).map(|number| 16 * place(number, count) as u64).collect())
}
