//! Any bytes as a `.sframe` section: errors, and never a panic; two ways to the same row agree.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::decoder(bytes));
