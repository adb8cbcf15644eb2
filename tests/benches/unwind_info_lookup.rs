//! Measures lookups of random PCs in `__unwind_info` tables of 40 000 entries. Beside them, by turns: a binary search
//! over as many `u32`s, and the crate macho-unwind-info. The best run of each counts.
//!
//!     cargo bench -p cfipack-tests --bench unwind_info_lookup

use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, ImageOffset, LsdaKey};
use cfipack_testkit::random::Random;
use cfipack_tests::figures;
use cfipack_tests::unwind_table::lay_out;
use macho_unwind_info::UnwindInfo;

const ENTRIES: u32 = 40_000;
const LOOKUPS: usize = 1_000_000;
const RUNS: usize = 15;

/// Entries as in large C++ libraries: a few encodings for most functions. Of 100 functions 40 have an LSDA, and of 1000
/// functions `dwarf` are in DWARF mode.
fn entries(dwarf: u64) -> Vec<Entry> {
    let mut random = Random::new(1);
    let (mut function, mut fde) = (0x1000, 0x18);
    let entry = |_| {
        let length = 16 * (1 + random.below(40) as u32);
        let rank = random.below(1000).pow(3) * 40 / 1_000_000_000;
        let mut entry = Entry::new(ImageOffset(function), length, Encoding(0x0101_0000 | (rank as u32) << 3));
        if random.below(1000) < dwarf {
            fde += 8 * (3 + random.below(3) as u32);
            entry.encoding = Encoding::dwarf(Arch::Amd64, fde);
        } else if random.chance(40) {
            entry.lsda = LsdaKey::at(ImageOffset(0x800_0000 + function / 4));
            entry.personality = NonZeroU32::new(1);
        }
        function += length;
        entry
    };
    (0..ENTRIES).map(entry).collect()
}

fn time(run: impl Fn() -> u64) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn main() {
    for dwarf in [0, 5, 50] {
        for layout in [Layout::Lld, Layout::LdPrime, Layout::Ld64, Layout::Small] {
            compare(dwarf, layout);
        }
    }
}

fn compare(dwarf: u64, layout: Layout) {
    let options = Options::new().with_layout(layout);
    let table = lay_out(Arch::Amd64, options, &entries(dwarf), None, |_| ImageOffset(8));
    let (ours, theirs) = (Section::parse(&table).unwrap(), UnwindInfo::parse(&table).unwrap());
    let starts: Vec<u32> = ours.entries().map(|entry| entry.unwrap().start.0).collect();
    let end = ours.index().last().unwrap().function.0;
    let mut random = Random::new(2);
    let mut pc = || starts[0] + random.below(u64::from(end - starts[0])) as u32;
    let pcs: Vec<u32> = (0..LOOKUPS).map(|_| pc()).collect();

    let (mut search, mut lookup, mut macho) = (Duration::MAX, Duration::MAX, Duration::MAX);
    for _ in 0..RUNS {
        search = search
            .min(time(|| pcs.iter().map(|&pc| starts.partition_point(|&start| start <= pc) as u64).sum()));
        lookup = lookup.min(time(|| {
            let entries = pcs.iter().map(|&pc| ours.lookup(ImageOffset(pc)).unwrap().unwrap());
            entries.map(|entry| u64::from(entry.start.0 ^ entry.end.0 ^ entry.encoding.0)).sum()
        }));
        macho = macho.min(time(|| {
            let functions = pcs.iter().map(|&pc| theirs.lookup(pc).unwrap().unwrap());
            functions.map(|f| u64::from(f.start_address ^ f.end_address ^ f.opcode)).sum()
        }));
    }
    let ns = |duration: Duration| duration.as_secs_f64() * 1e9 / LOOKUPS as f64;
    let (search, lookup, macho) = (ns(search), ns(lookup), ns(macho));
    let subject = format!("{layout:?}, {dwarf} of 1000 functions in DWARF mode");
    figures::nanoseconds(&subject, "lookup", lookup, "macho-unwind-info", macho);
    figures::nanoseconds(&subject, "lookup", lookup, "binary search over u32 starts", search);
    println!(
        "{layout:?}, {dwarf}/1000 DWARF, {} entries: {lookup:.1} ns; u32 search {search:.1} ns: {:.2}x; macho-unwind-info {macho:.1} ns: {:.2}x",
        starts.len(),
        lookup / search,
        lookup / macho
    );
}
