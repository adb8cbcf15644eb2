//! Damages recordings. Each is refused, or read and walked, without a panic and in memory proportional to the file.

use std::path::Path;
use std::rc::Rc;

use cfipack_testkit::random::{Case, Random, cases};
use cfipack_tests::any_bytes;
use cfipack_tests::profile::file::File;
use cfipack_tests::profile::recording::Recording;
use cfipack_tests::written_recording::{Mapped, SAMPLES, written};

/// Returns the path of a small library with CFI.
fn library() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora/container/linked.so");
    path.to_str().expect("a path of the source").to_owned()
}

/// Makes a recording that maps the library's code. Its stack is of a function that has pushed nothing.
fn recording(path: &str) -> Vec<u8> {
    let mapped = Mapped { path, start: 0x5000_1000, len: 0x1000, offset: 0x1000 };
    written(&mapped, &[0x5000_1004, 0x7000_0020, 0x5000_1008, 0, 0, 0, 0, 0])
}

#[test]
fn a_written_recording_is_read() {
    let path = library();
    let recording = Recording::parse(recording(&path)).unwrap();
    assert_eq!((recording.samples.len(), recording.without_stack), (SAMPLES, 0));
    assert_eq!(recording.paths(), [Rc::from(path)].into());
    let samples: Vec<_> = recording.samples.iter().map(|sample| (sample.pc, &*sample.command)).collect();
    assert_eq!(samples, [0x5000_1000, 0x5000_1001, 0x5000_1011, 0x5000_1002].map(|pc| (pc, "program")));
    let mapped = recording.samples.iter().map(|sample| {
        let mappings = recording.spaces[sample.space].mappings.iter();
        mappings.map(|mapping| (mapping.start, mapping.end, mapping.offset)).collect::<Vec<_>>()
    });
    let mapped: Vec<_> = mapped.collect();
    let whole = vec![(0x5000_1000, 0x5000_2000, 0x1000)];
    let moved = vec![(0x5000_1000, 0x5000_1010, 0x1000), (0x5000_1010, 0x5000_2010, 0x1010)];
    assert_eq!(mapped, [whole.clone(), whole.clone(), moved, whole]);
    assert_eq!(recording.samples[0].stack.len(), 64);
    assert_eq!(recording.samples[0].word(0x7000_0008), Some(0x7000_0020));
}

#[test]
fn damaged_recordings_do_no_harm() {
    let path = library();
    let mut file = File::read(&path).unwrap();
    let image = file.image().unwrap();
    let whole = recording(&path);
    let (seed, count) = cases("damaged recordings", 20_000);
    let (mut refused, mut walked) = (0, 0);
    for number in 0..count as u64 {
        let (_case, mut random) = Case::new(seed.wrapping_add(number));
        let mut bytes = whole.clone();
        for _ in 0..=random.below(4) {
            damage(&mut bytes, &mut random);
        }
        match any_bytes::recording(&bytes, &image) {
            Some(stacks) => walked += stacks,
            None => refused += 1,
        }
    }
    println!("{refused} refused, {walked} stacks of others");
    assert!(count < 1000 || refused > count / 20 && walked > count / 2);
}

/// Changes a word or a byte, mostly of the headers, or cuts off the end.
fn damage(bytes: &mut Vec<u8>, random: &mut Random) {
    let len = bytes.len() as u64;
    let limit = if random.chance(40) { len.min(272) } else { len };
    let at = random.below(limit) as usize;
    let values = [0, 1, 7, 8, len - 8, len, len + 1, 1 << 31, 1 << 61, 1 << 63, u64::MAX, random.next()];
    match random.below(10) {
        0 => bytes.truncate(random.below(len).max(8) as usize),
        1..4 => bytes[at] = values[random.below(12) as usize] as u8,
        _ => {
            let at = at & !3;
            let width = random.pick(&[1, 2, 4, 8]);
            if let Some(field) = bytes.get_mut(at..at + width) {
                field.copy_from_slice(&random.pick(&values).to_le_bytes()[..width]);
            }
        }
    }
}

/// Sizes in a recording must be checked before they are allocated or added.
#[test]
fn every_word_of_the_headers() {
    let whole = recording(&library());
    for at in (8..272).step_by(4) {
        for value in [0, 1, 16, 0x7fff_ffff, 1 << 40, 1 << 60, u64::MAX - 7, u64::MAX] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            let _ = Recording::parse(bytes);
        }
    }
}
