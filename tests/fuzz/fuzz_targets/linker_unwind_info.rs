//! Fuzzes the unwind information of two objects, whose functions are anywhere. There is no panic, the table is not
//! larger than announced, and our reader finds its entries in order.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::linker_unwind_info(bytes));
