//! Code of any bytes on every architecture, beside rows that start anywhere: analysed and judged without a panic, and within
//! the stated limits.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::code(bytes));
