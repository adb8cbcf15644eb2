//! Two files of any bytes: whether one is the other with a table, without a panic; also where embedding has added the
//! table. Odd files may be refused even then, and stay as they are.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::structure(bytes));
