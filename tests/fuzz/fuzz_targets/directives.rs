//! Any directives: no panic; what they are refused for, and else everything is made of them, what is made can be read back,
//! and wherever gimli can evaluate the CFI the table has the same rows.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::directives(bytes));
