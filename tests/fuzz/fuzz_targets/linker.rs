//! Any bytes as an object's table and CFI: no panic; what is merged can be read back, and neither the number of threads
//! nor the cut into shards makes a difference.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::linker(bytes));
