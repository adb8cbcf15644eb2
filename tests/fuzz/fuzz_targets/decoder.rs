//! Any bytes as a `.sframe` section: errors, and never a panic; two ways to the same row agree.

#![no_main]

use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use libfuzzer_sys::fuzz_target;

const ADDRESS: Address = Address(0x1000);

fuzz_target!(|bytes: &[u8]| {
    let Ok(section) = Section::parse(bytes, ADDRESS) else { return };
    let valid = section.validate().is_ok();
    let mut text = String::new();
    section.dump(&mut text, ".sframe").expect("a String takes everything");
    for function in section.functions().flatten().take(100) {
        for row in function.rows().take(100) {
            let Ok(row) = row else { break };
            let _ = function.lookup(row.start);
        }
        let _ = function.fre_bytes();
        let found = section.find(function.start());
        if valid && section.is_sorted() && function.size() > 0 {
            let found = found.expect("a valid table").expect("a function's start is in a function");
            assert!(found.start() <= function.start());
        }
        let _ = section.lookup(function.start());
    }
});
