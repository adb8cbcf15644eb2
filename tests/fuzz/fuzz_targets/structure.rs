//! Fuzzes pairs of files: is one the other with a table? There must be no panic, not even where embedding has added the
//! table. The check may refuse an odd file even then, and the file stays as it is.

#![no_main]

use cfipack_tests::any_bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| any_bytes::structure(bytes));
