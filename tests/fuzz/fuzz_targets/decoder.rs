//! Fuzzes `.sframe` sections: errors are fine, panics are not. Two ways to a row agree.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::decoder(bytes));
