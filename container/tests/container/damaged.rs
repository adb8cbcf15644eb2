//! Damaged files: every question has an answer or an error, never a panic.

use std::path::Path;

use cfipack_container::{File, Placement, members, thin_members};
use cfipack_format::Address;

use crate::random::{Case, cases};

/// Asks everything there is to ask.
fn ask(bytes: &[u8], placement: Placement) {
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

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container").join(name)).unwrap()
}

#[test]
fn every_byte_damaged_and_every_length_cut() {
    let files = [
        "linkable.o",
        "debug_frame.zlib.o",
        "debug_frame.zstd.o",
        "linked.so",
        "sectionless.so",
        "members.a",
    ];
    for name in files {
        let whole = corpus(name);
        let placement = if name.ends_with(".a") { Placement::Zero } else { Placement::Apart };
        for at in 0..whole.len() {
            for damage in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= damage;
                ask(&bytes, placement);
            }
            ask(&whole[..at], placement);
        }
    }
}

/// Several bytes at once.
#[test]
fn random_damage() {
    let (seed, count) = cases("damaged files", 15_000);
    let interesting = [0, 1, 4, 8, 16, 0x7f, 0x80, 0xfe, 0xff];
    let files = ["linkable.o", "linked.so", "sectionless.so"].map(corpus);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let mut bytes = files[random.below(3) as usize].clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.pick(&interesting);
        }
        ask(&bytes, Placement::Apart);
    }
}
