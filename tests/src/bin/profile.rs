//! Does a profiler's second half: unwinds the stacks of a recording by `.sframe` tables, and prints them for
//! flame-graph tools.
//!
//! ```sh
//! perf record -e cpu-clock --call-graph dwarf PROGRAM
//! cargo run --release -p cfipack-tests --bin profile -- perf.data | inferno-flamegraph > graph.svg
//! cargo run --release -p cfipack-tests --bin profile -- --with-cfi perf.data   # stacks that a table cuts short by CFI
//! cargo run --release -p cfipack-tests --bin profile -- --compare perf.data    # each stack by table, by CFI and by framehop
//! ```
//!
//! The tables are found by `PT_GNU_SFRAME` of the recorded files. For a file without a table, one is made of its CFI.
//! Successes and failures are counted on standard error. Recordings must be of x86-64, and read on the machine that
//! made them, because the files must still exist.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use cfipack_decoder::walk::{Cache, CacheEntry, FoundBy};
use cfipack_tests::profile::compare::{Comparison, Walks};
use cfipack_tests::profile::file::{File, Image};
use cfipack_tests::profile::folded::Folded;
use cfipack_tests::profile::recording::Recording;
use cfipack_tests::profile::table::ByTable;
use cfipack_tests::profile::walk::{End, Space};
use cfipack_tests::profile::{cfi, hop};
use gimli::UnwindContext;

/// What the program does with the stacks.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Fold,
    /// Where a table omits a function, a second walk uses the CFI.
    FoldWithCfi,
    Compare,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (task, path) = match arguments[..] {
        ["--with-cfi", path] => (Task::FoldWithCfi, path),
        ["--compare", path] => (Task::Compare, path),
        [path] => (Task::Fold, path),
        _ => return Err("usage: profile [--with-cfi | --compare] RECORDING".into()),
    };
    let recording = Recording::read(path.as_ref())?;
    let mut files = read_files(&recording);
    let images = read_images(&mut files);
    let image = |path: &str| images.get(path);
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, image)).collect();
    match task {
        Task::Compare => Ok(compare(&recording, &spaces)),
        task => fold(task, &recording, &spaces),
    }
}

/// Reads the mapped files. If a file cannot be read, it has no image, and its code no rows.
fn read_files(recording: &Recording) -> Vec<File> {
    let paths = recording.paths();
    let is_file = |path: &&std::rc::Rc<str>| path.starts_with('/') || &***path == "[vdso]";
    let read =
        |path: &std::rc::Rc<str>| File::read(path).inspect_err(|error| eprintln!("{path}: {error}")).ok();
    paths.iter().filter(is_file).filter_map(read).collect()
}

fn read_images(files: &mut [File]) -> BTreeMap<&str, Image<'_>> {
    let mut images = BTreeMap::new();
    for file in files {
        let path = file.path.clone();
        match file.image() {
            Ok(image) => drop(images.insert(image.path, image)),
            Err(error) => eprintln!("{path}: {error}"),
        }
    }
    let (own, packed): (Vec<_>, Vec<_>) = images.values().partition(|image| image.is_embedded);
    eprintln!("{} files have tables, {} get theirs from their CFI", own.len(), packed.len());
    images
}

fn fold(task: Task, recording: &Recording, spaces: &[Space<'_, '_>]) -> Result<ExitCode, Box<dyn Error>> {
    let (mut folded, mut frames, mut context) = (Folded::default(), Vec::new(), UnwindContext::new());
    let (mut ends, mut by_cfi): (BTreeMap<End, usize>, usize) = (BTreeMap::new(), 0);
    let (mut found, mut guessed) = (0, 0);
    let mut memory = vec![CacheEntry::EMPTY; 4096];
    let mut cache = Cache::new(&mut memory);
    // If a table omits code, its frame is left by the CFI, or else by the frame pointer, which the code may not have.
    let has_frame_pointers = task != Task::FoldWithCfi;
    for sample in &recording.samples {
        let space = &spaces[sample.space];
        let by_table = ByTable { cache: Some(&mut cache), has_frame_pointers };
        let mut end = by_table.walk(sample, space, &mut frames);
        // The second walk starts anew: tables do not restore all registers that the CFI may need.
        if task == Task::FoldWithCfi && matches!(end, End::NoRow | End::Register(_)) {
            end = cfi::walk_by_cfi(sample, space, &mut context, &mut frames);
            by_cfi += 1;
        }
        folded.add(sample, space, &frames, &end);
        found += frames.len();
        guessed += frames.iter().filter(|frame| frame.found_by == FoundBy::FramePointer).count();
        *ends.entry(end).or_default() += 1;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    folded.write(&mut out)?;
    out.flush()?;
    eprintln!("{} samples, {} without a user's stack", recording.samples.len(), recording.without_stack);
    eprintln!("  {by_cfi} walked by CFI");
    eprintln!("  {found} frames, {guessed} of them found by frame pointers");
    ends.iter().for_each(|(end, count)| eprintln!("  {count} end: {end}"));
    Ok(ExitCode::SUCCESS)
}

/// Compares each stack. Fails if one differs.
fn compare(recording: &Recording, spaces: &[Space<'_, '_>]) -> ExitCode {
    let unwinders: Vec<_> = spaces.iter().map(hop::unwinder).collect();
    let (mut comparison, mut walks) = (Comparison::default(), Walks::default());
    for sample in &recording.samples {
        comparison.add(sample, &spaces[sample.space], &unwinders[sample.space], &mut walks);
    }
    print!("{comparison}");
    ExitCode::from(u8::from(comparison.different != 0))
}
