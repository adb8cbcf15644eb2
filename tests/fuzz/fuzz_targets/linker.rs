//! Fuzzes the table and CFI of a link's objects. There is no panic, and the merged table can be read back. Threads and
//! shards make no difference.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::linker(bytes));
