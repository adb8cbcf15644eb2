//! Fuzzes recordings of perf, read and walked as the program `profile` does. Every mapping is of one library.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::recording(bytes));
