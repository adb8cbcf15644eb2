//! Fuzzes files: errors are fine, panics are not. Writing rows into a Mach-O object changes nothing else.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::container(bytes));
