//! Line tables of any bytes: read without a panic, in memory that the tables' bytes bound.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::lines(bytes));
