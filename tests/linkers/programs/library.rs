//! Exports a function from a library of many rlibs, so that a program can check that the library works.

use std::collections::BTreeMap;

/// The sum of the squares below `count`, the long way.
#[unsafe(no_mangle)]
pub extern "C" fn squares(count: u32) -> u64 {
    let squares: BTreeMap<String, u64> =
        (0..count).map(|of: u32| (format!("{of:08}"), u64::from(of).pow(2))).collect();
    std::panic::set_hook(Box::new(|_| ()));
    let caught = std::panic::catch_unwind(|| assert!(count < 100, "{count}"));
    squares.values().sum::<u64>() + u64::from(caught.is_err())
}
