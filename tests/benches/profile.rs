//! Measures the cost of a frame for a profiler. perf records stacks of real programs when the bench starts. They are
//! walked by `.sframe` table (without a cache, with all rows cached, with none cached), by framehop with and without
//! its cache, and by gimli. A few stacks are walked at a time, by turns; the fastest round of each counts.
//!
//!     cargo bench -p cfipack-tests --bench profile

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use cfipack_decoder::walk::{Cache, CacheEntry, StackFrame};
use cfipack_tests::figures;
use cfipack_tests::profile::file::File;
use cfipack_tests::profile::hop::Unwinder;
use cfipack_tests::profile::recording::{FP, Recording, SP, Sample};
use cfipack_tests::profile::table::ByTable;
use cfipack_tests::profile::walk::Space;
use cfipack_tests::profile::{cfi, hop, table};
use cfipack_tests::recorded::workloads;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64};
use framehop::{FrameAddress, Unwinder as _};
use gimli::UnwindContext;

const ROUNDS: usize = 15;

/// Stacks that are walked at a time. They are few, so that their bytes stay in the core's cache.
const BATCH: usize = 16;

fn main() {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded-benches");
    std::fs::create_dir_all(&scratch).expect("the target's directory can be written to");
    println!("nanoseconds a frame, and how many times as long as by table");
    println!(
        "{:8} {:>8} {:>8} {:>7}{:>15}{:>15}{:>20}{:>20}{:>20}",
        "", "samples", "frames", "table", "cached", "missed", "framehop uncached", "framehop cached", "gimli"
    );
    for workload in workloads(Path::new(env!("CARGO_BIN_EXE_sweep")), &scratch) {
        match workload.record(&scratch) {
            Ok(path) => measure(workload.name, &Recording::read(&path).expect("perf wrote it")),
            Err(error) => println!("benches: {}: not measured: {error}", workload.name),
        }
    }
}

fn measure(name: &str, recording: &Recording) {
    let paths = recording.paths();
    let mut files: Vec<_> = paths.iter().filter_map(|path| File::read(path).ok()).collect();
    let images: Vec<_> = files.iter_mut().filter_map(|file| file.image().ok()).collect();
    let by_path: HashMap<_, _> = images.iter().map(|image| (image.path, image)).collect();
    let image = |path: &str| by_path.get(path).copied();
    let spaces: Vec<_> = recording.spaces.iter().map(|space| Space::new(space, image)).collect();
    let unwinders: Vec<_> = spaces.iter().map(hop::unwinder).collect();
    let samples: Vec<_> = recording
        .samples
        .iter()
        .map(|sample| Stack { sample, space: &spaces[sample.space], unwinder: &unwinders[sample.space] })
        .collect();

    let mut walks = Walks::default();
    let lookups: Vec<_> = samples.iter().map(|stack| stack.lookups(&mut walks.cache)).collect();
    let frames: usize = lookups.iter().map(Vec::len).sum();
    let mut sums = [0.0; WAYS.len()];
    for (samples, lookups) in samples.chunks(BATCH).zip(lookups.chunks(BATCH)) {
        let mut least = [f64::INFINITY; WAYS.len()];
        for _ in 0..ROUNDS {
            for (least, way) in least.iter_mut().zip(WAYS) {
                samples.iter().for_each(Stack::touch);
                let start = Instant::now();
                way.walk(samples, lookups, &mut walks);
                *least = least.min(start.elapsed().as_nanos() as f64);
            }
        }
        sums.iter_mut().zip(least).for_each(|(sum, least)| *sum += least);
    }
    // An eviction overwrites the PC's place in framehop's cache, so few lookups may be hits.
    let stats = [walks.uncached, walks.evicted].map(|cache| cache.stats());
    assert!(stats.iter().all(|stats| stats.hits() * 50 < stats.total()), "a cache that is off: {stats:?}");
    let [table, hits, misses, with_eviction, evictions, cached, gimli] = sums.map(|sum| sum / frames as f64);
    let uncached = with_eviction - evictions / FAR.len() as f64;
    for (peer, time) in
        [("framehop, uncached", uncached), ("framehop, all PCs cached", cached), ("gimli", gimli)]
    {
        figures::nanoseconds(name, "a frame by table", table, peer, time);
    }
    figures::nanoseconds(name, CACHED, hits, "framehop, all PCs cached", cached);
    figures::nanoseconds(name, "a frame by table, none in its cache", misses, "a frame by table", table);
    let figure = |time: f64| format!("{time:.1} ({:.2})", time / table);
    println!(
        "{name:8} {:>8} {frames:>8} {table:>7.1}{:>15}{:>15}{:>20}{:>20}{:>20}",
        samples.len(),
        figure(hits),
        figure(misses),
        figure(uncached),
        figure(cached),
        figure(gimli)
    );
}

const CACHED: &str = "a frame by table, all in its cache";

/// Number of places of the cache.
const PLACES: usize = 4096;

/// A way to walk stacks. One way is only the cost of the evictions, to be subtracted.
#[derive(Clone, Copy)]
enum Way {
    Table,
    TableCached,
    TableMissed,
    Uncached,
    Evictions,
    Cached,
    Gimli,
}

const WAYS: [Way; 7] =
    [Way::Table, Way::TableCached, Way::TableMissed, Way::Uncached, Way::Evictions, Way::Cached, Way::Gimli];

/// The memory that all ways share.
struct Walks {
    frames: Vec<StackFrame>,
    pcs: Vec<u64>,
    rows: Vec<CacheEntry>,
    cache: CacheX86_64,
    uncached: CacheX86_64,
    evicted: CacheX86_64,
    context: UnwindContext<usize>,
}

impl Default for Walks {
    fn default() -> Self {
        let [cache, uncached, evicted] = [(); 3].map(|()| CacheX86_64::new());
        let (frames, pcs, rows) = (Vec::new(), Vec::new(), vec![CacheEntry::EMPTY; PLACES]);
        Self { frames, pcs, rows, cache, uncached, evicted, context: UnwindContext::new() }
    }
}

impl Way {
    fn walk(self, stacks: &[Stack<'_, '_, '_>], lookups: &[Vec<u64>], walks: &mut Walks) {
        let Walks { frames, pcs, rows, cache, uncached, evicted, context } = walks;
        let mut one = [CacheEntry::EMPTY];
        // A cache of one place can only have the PC of a function that calls itself.
        let mut rows = Cache::new(if matches!(self, Self::TableMissed) { &mut one } else { rows });
        for (Stack { sample, space, unwinder }, lookups) in stacks.iter().zip(lookups) {
            match self {
                Self::Table => _ = black_box(table::walk_by_table(sample, space, frames)),
                Self::TableCached | Self::TableMissed => {
                    let by_table = ByTable { cache: Some(&mut rows), has_frame_pointers: false };
                    _ = black_box(by_table.walk(sample, space, frames));
                }
                Self::Gimli => drop(black_box(cfi::walk_by_cfi(sample, space, context, frames))),
                Self::Cached => hop::walk_by_framehop(sample, unwinder, cache, pcs),
                Self::Uncached => Stack { sample, space, unwinder }.walk_uncached(uncached, pcs),
                Self::Evictions => {
                    for &address in lookups {
                        FAR.iter().for_each(|&far| evict(address, far, unwinder, evicted));
                    }
                }
            }
        }
    }
}

/// A stack, and the state to walk it with.
struct Stack<'s, 'i, 'f> {
    sample: &'s Sample,
    space: &'s Space<'i, 'f>,
    unwinder: &'s Unwinder<'f>,
}

impl Stack<'_, '_, '_> {
    /// Walks with framehop. Returns the PCs that it looks up.
    fn lookups(&self, cache: &mut CacheX86_64) -> Vec<u64> {
        let mut lookups = Vec::new();
        self.walk_each(cache, |frame, _| lookups.push(frame.address_for_lookup()));
        lookups
    }

    /// Walks with framehop as if it had no cache. Its cache cannot be turned off, so the entries that it would find are
    /// evicted first.
    fn walk_uncached(&self, cache: &mut CacheX86_64, pcs: &mut Vec<u64>) {
        pcs.clear();
        self.walk_each(cache, |frame, cache| {
            pcs.push(frame.address());
            evict(frame.address_for_lookup(), FAR[0], self.unwinder, cache);
        });
    }

    /// Reads the recorded bytes into the core's cache, where a profiler that has just copied them would find them.
    fn touch(&self) {
        black_box(self.sample.stack.iter().step_by(64).map(|&byte| usize::from(byte)).sum::<usize>());
    }

    #[inline]
    fn walk_each(&self, cache: &mut CacheX86_64, mut visit: impl FnMut(FrameAddress, &mut CacheX86_64)) {
        let sample = self.sample;
        let mut registers = UnwindRegsX86_64::new(sample.pc, sample.registers[SP], sample.registers[FP]);
        let mut read = |address| sample.word(address).ok_or(());
        let mut frame = FrameAddress::from_instruction_pointer(sample.pc);
        loop {
            visit(frame, cache);
            let caller = self.unwinder.unwind_frame(frame, &mut registers, cache, &mut read);
            let Ok(Some(pc)) = caller else { break };
            let Some(caller) = FrameAddress::from_return_address(pc) else { break };
            frame = caller;
        }
    }
}

/// Addresses outside all code. Both are multiples of the number of the cache's places.
const FAR: [u64; 2] = [509 << 39, 509 << 40];

/// Overwrites the cache's place for `address` with the rule of an address that has no code.
#[inline]
fn evict(address: u64, far: u64, unwinder: &Unwinder<'_>, cache: &mut CacheX86_64) {
    let other = FrameAddress::from_instruction_pointer(address.wrapping_add(far));
    let mut registers = UnwindRegsX86_64::new(0, 0, 0);
    let _ = unwinder.unwind_frame(other, &mut registers, cache, &mut |_| Err(()));
}
