//! Converts CFI to `.sframe` and back: goldens, other tools and readers, real binaries, properties.

mod cfi_written;
mod edges;
mod excluded;
mod gnu;
mod hidden;
mod judges;
mod keys;
mod large;
mod live_cfa_expressions;
mod live_gas;
mod live_lld_merge;
mod outermost;
mod overlaps;
mod properties;
mod readers;
mod real;
mod small;
mod stubs;
mod undefined_cfi;
