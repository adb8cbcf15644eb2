//! Fuzzes a table with the CFI that it is verified against: no panic, and the counts add up.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::verify(bytes));
