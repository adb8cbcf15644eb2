//! Damaged files: every question has an answer or an error, never a panic.

use std::path::Path;

use cfipack_container::{File, Layout, members};
use cfipack_format::Address;

/// Asks everything there is to ask.
fn ask(bytes: &[u8], layout: Layout) {
    let Ok(members) = members(bytes) else { return };
    for member in members.flatten() {
        let Ok(file) = File::parse_with(member.bytes, layout) else { continue };
        for section in file.call_frame_sections().unwrap_or_default() {
            for function in section.cfi().functions().flatten().take(100) {
                file.locate(function.start);
            }
            let _ = section.section.index.map(|index| file.relocations(index));
        }
        let _ = (file.sframe_sections(), file.code_sections(), file.eh_frame_hdr_size());
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
        let layout = if name.ends_with(".a") { Layout::Zero } else { Layout::Apart };
        for at in 0..whole.len() {
            for damage in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= damage;
                ask(&bytes, layout);
            }
            ask(&whole[..at], layout);
        }
    }
}

/// Several bytes at once; the seed is printed when a run fails.
#[test]
fn random_damage() {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let mut state = seed | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let interesting = [0, 1, 4, 8, 16, 0x7f, 0x80, 0xfe, 0xff];
    for name in ["linkable.o", "linked.so", "sectionless.so"] {
        let whole = corpus(name);
        for _ in 0..5_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random() % 6 {
                let at = (random() % bytes.len() as u64) as usize;
                bytes[at] = interesting[(random() % interesting.len() as u64) as usize];
            }
            ask(&bytes, Layout::Apart);
        }
    }
}
