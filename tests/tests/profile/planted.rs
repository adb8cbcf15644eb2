//! Plants a fault: changes a function's CFA offsets in the table of a recorded file. The comparison must find it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use cfipack_container::File as ElfFile;
use cfipack_decoder::sframe::Section;
use cfipack_format::Address;
use cfipack_testkit::needs;
use cfipack_tests::recorded::workloads;

use cfipack_tests::profile::compare::{Comparison, Walks};
use cfipack_tests::profile::file::File;
use cfipack_tests::profile::recording::Recording;
use cfipack_tests::profile::walk::Space;
use cfipack_tests::profile::{hop, table};

/// Callers on stacks, by path and address in the file, with the number of stacks.
type Callers = HashMap<(String, u64), usize>;

#[test]
#[ignore = "needs perf and perl"]
fn a_wrong_row_is_found() {
    let scratch = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("recorded-planted");
    fs::create_dir_all(&scratch).expect("the target's directory can be written to");
    let all = workloads(Path::new(env!("CARGO_BIN_EXE_sweep")), &scratch);
    let workload = all.iter().find(|workload| workload.name == "perl").expect("it is in the list");
    needs::program("perf", "linux-perf");
    needs::program("perl", "perl");
    let path = workload.record(&scratch).unwrap_or_else(|error| panic!("{error}"));
    let recording = Recording::read(&path).expect("perf wrote it");
    let (before, callers) = compare(&recording);
    assert_eq!(before.different, 0, "{before}");
    let copies = workload.directory(&scratch);
    let ((path, address), stacks) = callers
        .into_iter()
        .filter(|((path, _), _)| Path::new(path).starts_with(&copies))
        .max_by_key(|(_, stacks)| *stacks)
        .expect("stacks through copies");
    plant(&path, Address(address));
    let (after, _) = compare(&recording);
    assert!(after.different >= stacks, "{stacks} stacks through {path} {address:#x}: {after}");
}

fn compare(recording: &Recording) -> (Comparison, Callers) {
    let paths = recording.paths();
    let mut files: Vec<_> = paths.iter().filter_map(|path| File::read(path).ok()).collect();
    let images: Vec<_> = files.iter_mut().map(|file| file.image().expect("a file with CFI")).collect();
    let by_path: HashMap<_, _> = images.iter().map(|image| (image.path, image)).collect();
    let image = |path: &str| by_path.get(path).copied();
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, image)).collect();
    let unwinders: Vec<_> = spaces.iter().map(hop::unwinder).collect();
    let (mut comparison, mut walks) = (Comparison::default(), Walks::default());
    let (mut callers, mut frames) = (Callers::new(), Vec::new());
    for sample in &recording.samples {
        let space = &spaces[sample.space];
        comparison.add(sample, space, &unwinders[sample.space], &mut walks);
        table::walk_by_table(sample, space, &mut frames);
        // We take the innermost caller, because its own caller is found by its row.
        if let [_, caller, _, ..] = frames[..]
            && let Some((image, address)) = space.find(caller.lookup_address())
        {
            *callers.entry((image.path.to_string(), address)).or_default() += 1;
        }
    }
    (comparison, callers)
}

/// Adds 8 to the first data word of each row of a function, the CFA's offset.
fn plant(path: &str, pc: Address) {
    let mut bytes = fs::read(path).expect("it was recorded");
    let file = ElfFile::parse(&bytes).expect("an ELF file");
    let section = file.sframe_sections().expect("sections").remove(0);
    let table = Section::parse(&section.bytes, section.address).expect("our own table");
    let function = table.find(pc).expect("our own table").expect("a function on a stack");
    let head = function.fre_type().width() + 1;
    let words: Vec<_> = function.fres().map(|fre| fre.expect("our own table").offset.0 + head).collect();
    let at = section.bytes.as_ptr().addr() - bytes.as_ptr().addr();
    words.iter().for_each(|word| bytes[at + word] = bytes[at + word].wrapping_add(8));
    fs::write(path, bytes).expect("a copy of ours");
}
