//! Does everything that may be done with outside data. Each function takes any bytes, and panics if the code under test
//! breaks a promise. The fuzz targets of `tests/fuzz` and the test `any_bytes` call these functions.

mod cfi;
mod code;
mod container;
mod decoder;
mod directives;
mod lines;
mod linker;
mod linker_unwind_info;
mod recording;
mod seeds;
mod structure;
mod unwind_info;
mod verify;

pub use cfi::cfi;
pub use code::code;
pub use container::container;
pub use decoder::decoder;
pub use directives::directives;
pub use lines::lines;
pub use linker::linker;
pub use linker_unwind_info::linker_unwind_info;
pub use recording::recording;
pub use seeds::{Seed, seeds};
pub use structure::structure;
pub use unwind_info::unwind_info;
pub use verify::verify;

/// A target: its name, and a function that takes any bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 12] = [
    ("cfi", cfi),
    ("code", code),
    ("container", container),
    ("decoder", decoder),
    ("directives", directives),
    ("lines", lines),
    ("linker", linker),
    ("linker_unwind_info", linker_unwind_info),
    ("recording", recording),
    ("structure", structure),
    ("unwind_info", unwind_info),
    ("verify", verify),
];

/// Splits an input into options, table and CFI. The first byte has the options, the next two the table's length.
fn table_and_cfi(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[choice, low, high], bytes) = input.split_first_chunk()?;
    let (table, cfi) = bytes.split_at(usize::from(u16::from_le_bytes([low, high])).min(bytes.len()));
    Some((choice, table, cfi))
}
