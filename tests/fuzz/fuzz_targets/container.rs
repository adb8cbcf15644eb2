//! Any bytes as a file: errors, and never a panic. Rows that are written into a Mach-O object change nothing else.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::container(bytes));
