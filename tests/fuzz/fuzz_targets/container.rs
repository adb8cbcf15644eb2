//! Any bytes as a file: errors, and never a panic.

#![no_main]

use cfipack_container::{File, Placement, members};
use cfipack_format::Address;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(members) = members(bytes) {
        for member in members.take(100) {
            let _ = member;
        }
    }
    for placement in [Placement::Zero, Placement::Apart] {
        let Ok(file) = File::parse_with(bytes, placement) else { continue };
        if let Ok(sections) = file.call_frame_sections() {
            for section in sections.iter().take(20) {
                cfipack_cfi::Functions::new(&section.cfi()).take(1000).for_each(|function| {
                    let _ = function;
                });
            }
        }
        if let Ok(sections) = file.sframe_sections() {
            sections.iter().filter_map(|section| section.index).for_each(|index| {
                let _ = file.relocations(index);
            });
        }
        let _ = file.code_sections();
        let _ = file.eh_frame_hdr_size();
        let _ = file.symbols().map(|symbols| symbols.lookup(Address(0)).is_some());
        let _ = file.locate(Address(0x1_0000));
    }
});
