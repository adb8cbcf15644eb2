//! Any bytes as the unwind information of two objects, whose functions lie anywhere: no panic, no more bytes than were
//! promised, and a table that our reader takes, with its entries in order.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::linker_unwind_info(bytes));
