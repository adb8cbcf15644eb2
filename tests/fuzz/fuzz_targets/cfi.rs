//! Fuzzes CFI. There is no panic, converted tables can be read back, and wherever gimli can evaluate the CFI, the table
//! has the same rows.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::cfi(bytes));
