//! Fuzzes recordings of perf, read and walked as the program `profile` does. Every mapping is of one library.

#![no_main]


use cfipack_tests::profile::compare::{Comparison, Walks};
use cfipack_tests::profile::file::File;
use cfipack_tests::profile::folded::Folded;
use libfuzzer_sys::fuzz_target;
use cfipack_tests::profile::recording::Recording;
use cfipack_tests::profile::walk::Space;
use cfipack_tests::profile::{hop, table};

const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpora/container/linked.so");

fuzz_target!(|input: &[u8]| {
    let Ok(recording) = Recording::parse(input.to_vec()) else { return };
    let mut file = File::read(LIBRARY).unwrap();
    let image = file.image().unwrap();
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, |_| Some(&image))).collect();
    let unwinders: Vec<_> = spaces.iter().map(hop::unwinder).collect();
    let (mut comparison, mut walks, mut folded) =
        (Comparison::default(), Walks::default(), Folded::default());
    let mut frames = Vec::new();
    for sample in &recording.samples {
        let space = &spaces[sample.space];
        comparison.add(sample, space, &unwinders[sample.space], &mut walks);
        let end = table::walk_by_table(sample, space, &mut frames);
        folded.add(sample, space, &frames, &end);
    }
    folded.write(&mut Vec::new()).unwrap();
    assert_eq!(comparison.samples, recording.samples.len());
    let _ = (recording.paths(), recording.without_stack, comparison.to_string());
});
