//! Reads any bytes as a `.sframe` section: errors are fine, panics are not. Two ways to a row agree.

use cfipack_decoder::sframe::{Index, Section};
use cfipack_format::Address;

const ADDRESS: Address = Address(0x1000);

/// Reads the input as a table by every function of the decoder.
pub fn decoder(bytes: &[u8]) {
    let Ok(section) = Section::parse(bytes, ADDRESS) else { return };
    let valid = section.validate().is_ok();
    let mut text = String::new();
    section.dump(&mut text, ".sframe").expect("a String takes everything");
    let mut memory = vec![0; Index::len_for(&section)];
    let index = Index::build(&section, &mut memory);
    assert!(!valid || index.is_ok());
    for (number, function) in section.functions().enumerate().take(100) {
        let Ok(function) = function else {
            assert!(!valid, "function {number} cannot be read, and the table is called valid");
            continue;
        };
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
        for pc in [0, 1, 11].map(|offset| function.start().offset(offset)) {
            let found = section.lookup(pc);
            assert!(!valid || found.is_ok(), "{found:?}");
            if let Ok(index) = &index {
                let indexed = index.lookup(pc);
                assert!(!section.is_sorted() || indexed == found, "{indexed:?} {found:?}");
            }
        }
    }
}
