//! Reads any bytes as a recording of perf, and walks its stacks as the program `profile` does.

use crate::corpora;
use crate::profile::compare::{Comparison, Walks};
use crate::profile::file::{File, Image};
use crate::profile::folded::Folded;
use crate::profile::recording::Recording;
use crate::profile::walk::Space;
use crate::profile::{hop, table};

thread_local! {
    /// A small library with CFI, whose bytes stay in memory.
    static LIBRARY: &'static Image<'static> = {
        let path = corpora::directory().join("container/linked.so");
        let file = File::read(path.to_str().expect("a path of the source")).expect("a file of the corpora");
        Box::leak(Box::new(Box::leak(Box::new(file)).image().expect("a library with CFI")))
    };
}

/// Walks all stacks of a recording in which every mapping is of one library.
pub fn recording(input: &[u8]) {
    let Ok(recording) = Recording::parse(input.to_vec()) else { return };
    let image = LIBRARY.with(|image| *image);
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, |_| Some(image))).collect();
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
    let _ = (recording.paths(), comparison.to_string());
}
