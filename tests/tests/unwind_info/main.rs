//! `__unwind_info`, and the Mach-O files it lies in: tables of lld and of Apple's linkers, other people's readers,
//! random tables.

mod apple;
mod bounds;
mod damaged;
mod dump;
mod edges;
mod framehop;
mod layouts;
mod libunwind;
mod linked_inputs;
mod linked_objects;
mod links;
mod live_lld;
mod lookup_sizes;
mod mach_o;
mod readers;
mod real_libraries;
mod smallest;
#[cfg(feature = "symbolic")]
mod symbolic;

/// The place of `mod symbolic` in a run without it.
#[cfg(not(feature = "symbolic"))]
#[test]
fn symbolic_reads_the_same() {
    let why = "feature `symbolic` is off (`cargo test -p cfipack-tests --features symbolic --test unwind_info symbolic`)";
    cfipack_tests::not_tested::skipped("tables of __unwind_info by symbolic's reader", why);
}
