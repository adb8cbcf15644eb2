//! Any bytes as a table and the call frame information that it is made of: no panic, and counts that add up.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::verify(bytes));
