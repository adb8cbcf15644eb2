//! Measures time and memory per function, from a thousand functions to a million. If the work is proportional to its input,
//! both stay level. gimli's walk over the same functions is the yardstick. Runs take turns in one process; medians.
//!
//!     cargo bench -p cfipack-tests --bench scaling

use std::hint::black_box;
use std::time::{Duration, Instant};

use cfipack_cfi::{Section as Cfi, SectionKind};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::{Address, Arch, Key};
use cfipack_roundtrip::{Table, verify};
use cfipack_testkit::random::Random;
use cfipack_tests::allocated::{Counting, peak};
use cfipack_tests::figures;
use cfipack_tests::many_functions::eh_frame;
use cfipack_tests::timing::median;
use cfipack_tests::workload::{Gimli, build};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Numbers of functions, two for each power of ten.
const COUNTS: [usize; 7] = [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000];

/// Functions that a round works on, in one table or in many.
const A_ROUND: usize = 100_000;
const ROUNDS: usize = 7;

const EH_FRAME: Address = Address(0x1000);
const TEXT: Address = Address(0x1000_0000);
const TABLE: Address = Address(0x800_0000);

fn main() {
    println!("nanoseconds and bytes a function");
    for count in COUNTS {
        measure(count);
    }
}

fn convert(cfi: &Cfi<'_>, layout: Layout) -> Vec<u8> {
    let section = build(cfi, Options::new().with_layout(layout), 1);
    section.into_bytes(TABLE, Key::address).expect("a table in reach")
}

fn measure(count: usize) {
    let bytes: &'static [u8] = eh_frame(&mut Random::new(1), count, EH_FRAME, TEXT).leak();
    let cfi = Cfi::new(SectionKind::EhFrame, bytes, EH_FRAME, Arch::Amd64);
    let mut gimli = Gimli::new(bytes, EH_FRAME);
    let table = convert(&cfi, Layout::Small);
    let tables = [Section::parse(&table, TABLE).expect("our own table")];
    let verified = || verify(&[cfi], &Table::new(&tables), &Default::default());
    let report = verified();
    assert!(report.pcs_equal > 0 && report.pcs_equal == report.pcs, "a table that differs");

    let mut times: [Vec<Duration>; 4] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(count, || gimli.walk()));
        times[1].push(time(count, || convert(&cfi, Layout::Small)));
        times[2].push(time(count, || convert(&cfi, Layout::Gnu)));
        times[3].push(time(count, || verified().pcs_equal));
    }
    let [walk, small, gnu, verify] = times.map(median);
    let subject = format!("{count}");
    for (what, time) in [("convert, small", small), ("convert, gnu", gnu), ("verify", verify)] {
        figures::times(&subject, what, time, "gimli walks all rows", walk, count);
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / count as f64;
    print!("{count:>8} functions: gimli's walk {:6.1}, small {:6.1}", each(walk), each(small));
    print!(", gnu {:6.1}, verify {:6.1}", each(gnu), each(verify));

    for (what, size, memory) in [
        ("convert, small", table.len(), peak(|| convert(&cfi, Layout::Small))),
        ("convert, gnu", convert(&cfi, Layout::Gnu).len(), peak(|| convert(&cfi, Layout::Gnu))),
        ("verify", 0, peak(|| verified().pcs_equal)),
    ] {
        let beside = (memory.saturating_sub(size)) as f64 / count as f64;
        figures::number(&subject, &format!("memory of {what}"), format!("{beside:.1}"), "bytes");
        print!("; memory of {what} beside its output {beside:.1}");
    }
    println!();
}

/// Measures the work, which is repeated for small inputs.
fn time<T>(count: usize, mut work: impl FnMut() -> T) -> Duration {
    let repeated = (A_ROUND / count).max(1);
    let start = Instant::now();
    for _ in 0..repeated {
        black_box(work());
    }
    start.elapsed() / repeated as u32
}
