//! Fuzzes recordings of perf, read and walked as the program `profile` does. Every mapping is of one library.

#![no_main]

use cfipack_tests::any_bytes;
use cfipack_tests::profile::file::File;
use libfuzzer_sys::fuzz_target;

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/container/linked.so");

fuzz_target!(|bytes: &[u8]| {
    let mut file = File::read(LIBRARY).unwrap();
    any_bytes::recording(bytes, &file.image().unwrap());
});
