//! Damaged files: every edit has a result or an error, never a panic.

use std::path::Path;

use cfipack_container::{File, Placement};
use cfipack_container::{members, thin_members};
use cfipack_edit::{
    EmbedError, StartRelocation, embed_in_object, resize_thin_members, rewrite_members, without_sframe,
};
use cfipack_roundtrip::structure::check_structure;

use crate::random::{Case, cases};

/// Edits the file in every way there is.
fn edit(bytes: &[u8], placement: Placement) {
    rewrite(bytes);
    let Ok(members) = members(bytes) else { return };
    for member in members.flatten() {
        let Ok(file) = File::parse_with(member.bytes, placement) else { continue };
        let start = StartRelocation { offset: 28, section: 1, addend: 0 };
        let embedded = embed_in_object(&file, &[3; 40], &[start]).map(|rewrite| rewrite.to_vec(member.bytes));
        if let Ok(new) = embedded {
            let again = File::parse(&new).expect("an object still");
            let again = embed_in_object(&again, &[3; 40], &[start]).expect("a table is replaced");
            assert!(again.is_unchanged(&new), "a second time changes the object");
            // A damaged section may refer to the new one, which did not exist.
            let _ = File::parse(&new).map(|file| without_sframe(&file).map(|_| ()));
        }
        let _ = without_sframe(&file).map(|rewrite| rewrite.map(|rewrite| rewrite.to_vec(member.bytes)));
    }
    let _ = check_structure(bytes, bytes);
}

/// Changes every member of an archive, in two ways.
fn rewrite(bytes: &[u8]) {
    let longer = rewrite_members(bytes, |member| {
        let mut rewrite = cfipack_edit::Rewrite::unchanged(member.bytes.len());
        rewrite.bytes("test", &b"abc"[..]);
        Ok::<_, EmbedError>(Some(rewrite))
    });
    if let Ok(longer) = longer.map(|rewrite| rewrite.to_vec(bytes)) {
        let (old, new) = (members(bytes), members(&longer));
        if let (Ok(old), Ok(new)) = (old, new) {
            assert_eq!(old.flatten().count(), new.flatten().count());
        }
    }
    let size = thin_members(bytes).ok().flatten().into_iter().flatten().map(|member| member.size).sum();
    let _ = resize_thin_members(bytes, |_| Ok::<u64, EmbedError>(size)).map(|rewrite| rewrite.to_vec(bytes));
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
                edit(&bytes, placement);
            }
            edit(&whole[..at], placement);
        }
    }
}

/// Several bytes at once.
#[test]
fn random_damage() {
    let (seed, count) = cases("edits of damaged files", 15_000);
    let interesting = [0, 1, 4, 8, 16, 0x7f, 0x80, 0xfe, 0xff];
    let files = ["linkable.o", "linked.so", "sectionless.so"].map(corpus);
    for seed in (0..count as u64).map(|case| seed.wrapping_add(case)) {
        let (_case, mut random) = Case::new(seed);
        let mut bytes = files[random.below(3) as usize].clone();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.pick(&interesting);
        }
        edit(&bytes, Placement::Apart);
    }
}
