//! Embeds tables in damaged linked files. A file is refused, or becomes exactly as long as planned. There is no panic.

use cfipack_container::File;
use cfipack_edit::{Embedding, Rewrite, without_sframe};
use cfipack_testkit::random::{Case, Random, cases};
use cfipack_testkit::rustc;
use cfipack_tests::corpora;

use crate::linked::{KINDS, link, scratch, tools, with_table};

#[test]
fn damaged_headers_do_no_harm() {
    let directory = scratch("damaged-by-rustc");
    rustc::program_library_object(&directory);
    let of_corpora =
        ["linked.so", "headers_first"].map(|name| corpora::directory().join("container").join(name));
    let paths = ["program", "library.so"].map(|name| directory.join(name)).into_iter().chain(of_corpora);
    do_no_harm(paths.map(|path| std::fs::read(path).expect("a linked file")).collect());
}

#[test]
#[ignore = "needs the reference tools and gcc"]
fn damaged_headers_of_other_linkers_do_no_harm() {
    let directory = scratch("damaged");
    let mut files = Vec::new();
    for (kind, object, options) in KINDS {
        for linker in tools().0.iter().take(2) {
            let old = link(linker, &directory.join(kind), object, &[options, &["-s"]].concat());
            // Static programs are long, and add nothing to this test.
            files.extend(old.filter(|old| old.len() < 100_000));
        }
    }
    assert!(files.len() >= 4, "enough has been linked");
    do_no_harm(files);
}

/// Damages the files, with and without their tables.
fn do_no_harm(mut files: Vec<Vec<u8>>) {
    let with_tables: Vec<_> = files.iter().map(|old| with_table(old).0).collect();
    files.extend(with_tables);
    let (seed, count) = cases("damaged headers", 4000);
    for number in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(number));
        let mut bytes = files[random.below(files.len() as u64) as usize].clone();
        for _ in 0..=random.below(4) {
            damage(&mut bytes, &mut random);
        }
        let Ok(file) = File::parse(&bytes) else { continue };
        if let Ok(Some(rewrite)) = without_sframe(&file) {
            check(&rewrite, &bytes);
        }
        let len = random.pick(&[0, 40, 300, 5000, 100_000]);
        if let Ok(embedding) = Embedding::of(&file, len) {
            let less = random.below(1 + len as u64) as usize;
            check(&embedding.rewrite(vec![0xa5; len - less]), &bytes);
        }
    }
}

fn check(rewrite: &Rewrite<'_>, bytes: &[u8]) {
    assert_eq!(rewrite.to_vec(bytes).len(), rewrite.len());
}

/// Changes a field of a header, or cuts off the end of the file.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let word = |bytes: &[u8], at: usize| {
        let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
        field.map_or(0, |&field| u64::from_le_bytes(field)) as usize
    };
    let half = |bytes: &[u8], at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let (phoff, shoff) = (word(bytes, 0x20), word(bytes, 0x28));
    let (segments, sections) = (half(bytes, 0x38).max(1) as u64, half(bytes, 0x3c).max(1) as u64);
    // Damaged headers may place the fields of other headers anywhere.
    let segment = |random: &mut Random| {
        phoff.wrapping_add((random.below(segments) * 56 + random.below(7) * 8) as usize)
    };
    let at = match random.below(20) {
        0 => 0x10 + random.below(0x30) as usize,
        1..8 => segment(random),
        8..17 => shoff.wrapping_add((random.below(sections) * 64 + random.below(8) * 8) as usize),
        17 | 18 => random.below(bytes.len() as u64) as usize,
        _ => {
            let len = random.below(bytes.len() as u64).max(64);
            bytes.truncate(len as usize);
            return;
        }
    };
    let len = bytes.len() as u64;
    let values =
        [0, 1, 7, 64, 0x1000, len, len - 1, len / 2, u64::MAX, 1 << 63, u64::MAX - 0xfff, random.next()];
    let value = match random.below(3) {
        0 => random.pick(&values),
        1 => (word(bytes, at) as u64).wrapping_add(random.pick(&values)),
        // A field of another header.
        _ => word(bytes, segment(random)) as u64,
    };
    let width = random.pick(&[2, 4, 8]);
    if let Some(field) = bytes.get_mut(at..at.saturating_add(width)) {
        field.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}
