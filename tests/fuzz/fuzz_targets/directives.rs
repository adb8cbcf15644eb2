//! Fuzzes directives. They are refused, or CFI and tables are made of them without a panic and can be read back.
//! Wherever gimli can evaluate the CFI, the table has the same rows.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::directives(bytes));
