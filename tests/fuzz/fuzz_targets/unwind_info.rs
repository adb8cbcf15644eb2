//! Fuzzes `__unwind_info` sections: errors are fine, panics are not. A lookup finds what a walk over the entries finds.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::unwind_info(bytes));
