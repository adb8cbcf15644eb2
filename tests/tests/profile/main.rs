//! perf records real programs, whose files all have tables. The stack of each sample is walked by the tables that
//! `PT_GNU_SFRAME` leads to. It must equal the stack that gimli finds by CFI.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod kernel;
mod planted;
mod written;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cfipack_decoder::walk::StackFrame;
use cfipack_encoder::sframe::Options;
use cfipack_testkit::needs;
use cfipack_tests::convert::{build, cfi_of};
use cfipack_tests::profile::compare::{Comparison, Walks};
use cfipack_tests::profile::file::File;
use cfipack_tests::profile::folded::Folded;
use cfipack_tests::profile::recording::Recording;
use cfipack_tests::profile::walk::{End, Space};
use cfipack_tests::profile::{hop, table};
use cfipack_tests::recorded::{Workload, workloads};

#[test]
#[ignore = "needs perf, g++, python3, perl, openssl and sqlite3"]
fn stacks_by_table_are_those_by_cfi() {
    for (program, package) in [
        ("perf", "linux-perf"),
        ("g++", "g++"),
        ("python3", "python3"),
        ("openssl", "openssl"),
        ("sqlite3", "sqlite3"),
    ] {
        needs::program(program, package);
    }
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("recorded");
    std::fs::create_dir_all(&scratch).expect("the target's directory can be written to");
    for workload in workloads(Path::new(env!("CARGO_BIN_EXE_sweep")), &scratch) {
        let path = workload.record(&scratch).unwrap_or_else(|error| panic!("{}: {error}", workload.name));
        check(&workload, &scratch, &Recording::read(&path).expect("perf wrote it"));
    }
}

fn check(workload: &Workload, scratch: &Path, recording: &Recording) {
    let name = workload.name;
    let paths = recording.paths();
    let mut files: Vec<_> = paths.iter().filter_map(|path| File::read(path).ok()).collect();
    let images: Vec<_> = files.iter_mut().map(|file| file.image().expect("a file with CFI")).collect();
    let by_path: HashMap<_, _> = images.iter().map(|image| (image.path, image)).collect();
    for image in &images {
        let is_copy = Path::new(image.path).starts_with(workload.directory(scratch));
        assert!(image.is_embedded || !is_copy, "{name}: {}", image.path);
    }
    let image = |path: &str| by_path.get(path).copied();
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, image)).collect();
    let unwinders: Vec<_> = spaces.iter().map(hop::unwinder).collect();

    let (mut in_kernel, mut in_vdso) = (0, 0);
    let (mut comparison, mut walks, mut folded) =
        (Comparison::default(), Walks::default(), Folded::default());
    let mut frames = Vec::new();
    for sample in &recording.samples {
        let space = &spaces[sample.space];
        comparison.add(sample, space, &unwinders[sample.space], &mut walks);
        let end = table::walk_by_table(sample, space, &mut frames);
        folded.add(sample, space, &frames, &end);
        let is_vdso = |frame: &StackFrame| {
            space.find(frame.lookup_address()).is_some_and(|(image, _)| image.path == "[vdso]")
        };
        in_kernel += usize::from(sample.in_kernel && end == End::Outermost);
        in_vdso += usize::from(end == End::Outermost && frames.iter().any(is_vdso));
    }
    println!("{name}: {comparison}  complete: {in_kernel} of the kernel, {in_vdso} through the vDSO");
    // Python often asks for the time, which the vDSO answers.
    assert!(name != "python3" || in_kernel > 0 && in_vdso > 0, "{name}: {in_kernel}, {in_vdso}");
    assert_eq!(comparison.different, 0, "{name}: {comparison}");
    assert!(comparison.samples > 30, "{name}: too little was recorded: {comparison}");
    assert!(comparison.frames > 3 * comparison.samples && comparison.equal > 10, "{name}: {comparison}");
    let complete = comparison.ends.get(&End::Outermost).copied().unwrap_or_default();
    assert!(2 * complete > comparison.samples, "{name}: {comparison}");

    for place in comparison.omitted.keys() {
        let reasons = omitted_with_reason(&place.path);
        assert!(reasons.contains(&place.start), "{name}: missing without a reason: {place}");
    }

    let mut text = Vec::new();
    folded.write(&mut text).expect("memory");
    let text = String::from_utf8(text).expect("names are text");
    let count = |line: &str| line.rsplit_once(' ').and_then(|(_, count)| count.parse::<usize>().ok());
    let counted: Option<usize> = text.lines().map(count).sum();
    assert_eq!(counted, Some(recording.samples.len()), "{name}: {text}");
}

/// Returns the starts of functions that the encoder says the format cannot represent.
fn omitted_with_reason(path: &str) -> Vec<u64> {
    let bytes = std::fs::read(path).expect("it was recorded");
    let file = cfipack_container::File::parse(&bytes).expect("an ELF file");
    let sections = file.call_frame_sections().expect("its CFI");
    let (_, unsupported, _) = build(cfi_of(&sections), file.arch(), Options::new());
    unsupported.iter().map(|unsupported| unsupported.function.0).collect()
}
