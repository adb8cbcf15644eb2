//! Damaged files: every question has an answer or an error, never a panic.

use cfipack_container::{File, Placement, members, thin_members};
use cfipack_format::Address;
use cfipack_testkit::damage;

/// Asks everything there is to ask.
fn ask(name: &str, bytes: &[u8]) {
    let placement = if name.ends_with(".a") { Placement::Zero } else { Placement::Apart };
    let _ = thin_members(bytes).map(|members| members.map(|members| members.len()));
    let Ok(members) = members(bytes) else { return };
    for member in members.flatten() {
        let Ok(file) = File::parse_with(member.bytes, placement) else { continue };
        for section in file.call_frame_sections().unwrap_or_default() {
            for function in cfipack_cfi::Functions::new(&section.cfi()).flatten().take(100) {
                file.locate(function.key.address());
            }
            let _ = section.section.index.map(|index| file.relocations(index));
        }
        let _ =
            (file.sframe_sections(), file.code_sections(), file.as_elf().map(|elf| elf.eh_frame_hdr_size()));
        let _ = file.symbols().map(|symbols| symbols.lookup(Address(1)));
    }
}

#[test]
fn every_byte_damaged_and_every_length_cut() {
    damage::every_byte_and_length(ask);
}

#[test]
fn random_damage() {
    damage::random_bytes("damaged files", ask);
}
