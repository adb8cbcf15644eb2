//! Reads a recording that is written field by field.

use std::rc::Rc;

use cfipack_tests::profile::recording::Recording;
use cfipack_tests::written_recording::{Mapped, SAMPLES, written};

#[test]
fn a_written_recording_is_read() {
    let mapped = Mapped { path: "/lib/a", start: 0x5000_1000, len: 0x1000, offset: 0x1000 };
    let bytes = written(&mapped, &[0x5000_1004, 0x7000_0020, 0x5000_1008, 0, 0, 0, 0, 0]);
    let recording = Recording::parse(bytes).unwrap();
    assert_eq!((recording.samples.len(), recording.without_stack), (SAMPLES, 0));
    assert_eq!(recording.paths(), [Rc::from("/lib/a")].into());
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
