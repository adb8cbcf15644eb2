//! Fuzzes code on every architecture, beside rows that start anywhere. Analysis and judgement must neither panic nor
//! exceed the stated limits.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::code(bytes));
