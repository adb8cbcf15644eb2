//! Damage to the files of `corpora/container`: for tests of whatever has to bear it.

use std::path::Path;

use crate::random::{Case, cases};

fn corpus(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container").join(name)).unwrap()
}

/// Calls `act` with the name and the bytes of a file, for every byte damaged, and every length cut.
pub fn every_byte_and_length(act: impl Fn(&str, &[u8])) {
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
        for at in 0..whole.len() {
            for damage in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] ^= damage;
                act(name, &bytes);
            }
            act(name, &whole[..at]);
        }
    }
}

/// Calls `act` with the name and the bytes of a file, several of them damaged at once; `what` names the test.
pub fn random_bytes(what: &str, act: impl Fn(&str, &[u8])) {
    let (seed, count) = cases(what, 15_000);
    let interesting = [0, 1, 4, 8, 16, 0x7f, 0x80, 0xfe, 0xff];
    let names = ["linkable.o", "linked.so", "sectionless.so"];
    let files = names.map(corpus);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let file = random.below(3) as usize;
        let mut bytes = files[file].clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.pick(&interesting);
        }
        act(names[file], &bytes);
    }
}
