//! Finds the pieces of code that stubs consist of.

use cfipack_linker::stubs::Shape;

/// Returns the addresses at which the header, each entry and the trailer start.
pub fn pieces(address: u64, shape: &Shape<'_>, entries: u32) -> Vec<u64> {
    let [header, entry, trailer] =
        [shape.header(), shape.entry(), shape.trailer()].map(|code| u64::from(code.size()));
    let first = address + header + u64::from(shape.gap());
    let starts = (0..u64::from(entries)).map(|number| first + number * entry);
    let header = (header != 0).then_some(address);
    let trailer = (trailer != 0).then(|| first + u64::from(entries) * entry);
    header.into_iter().chain(starts).chain(trailer).collect()
}
