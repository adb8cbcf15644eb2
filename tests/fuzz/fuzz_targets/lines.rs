//! Fuzzes line tables: they are read without a panic, in memory proportional to their bytes.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::lines(bytes));
