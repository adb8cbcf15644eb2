//! Measures building `__unwind_info` from 1 000 000 sorted entries: time and memory per entry, by layout. The yardstick
//! is copying the entries into a fresh vector.
//!
//!     cargo bench -p cfipack-tests --bench unwind_info_build

use std::hint::black_box;
use std::num::NonZeroU32;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
use cfipack_testkit::random::Random;
use cfipack_tests::figures;

const ENTRIES: u32 = 1_000_000;
const RUNS: usize = 7;
const LAYOUTS: [Layout; 4] = [Layout::Lld, Layout::LdPrime, Layout::Ld64, Layout::Small];

/// Entries as in large C++ libraries: some 60 encodings, few of them frequent. Of 100 functions, 30 have an LSDA and
/// `dwarf` are in DWARF mode.
fn entries(dwarf: u64) -> Vec<Entry> {
    let mut random = Random::new(1);
    let (mut function, mut fde) = (0x1000, 0x18);
    let entry = |_| {
        let length = 16 * (1 + random.below(12) as u32);
        let encoding = if random.chance(dwarf) {
            fde += 8 * (3 + random.below(3) as u32);
            Encoding::dwarf(Arch::Amd64, fde)
        } else {
            let rank = random.below(1000).pow(3) * 60 / 1_000_000_000;
            Encoding(0x0100_0000 | (rank as u32 * 0x1_0001))
        };
        let mut entry = Entry::new(ImageOffset(function), length, encoding);
        if random.chance(30) {
            entry.lsda = LsdaKey::at(ImageOffset(0x800_0000 + function / 4));
            entry.personality = NonZeroU32::new(1);
        }
        function += length;
        entry
    };
    (0..ENTRIES).map(entry).collect()
}

/// Builds a table in fresh memory, from entries to bytes. Returns its size.
fn build(entries: &[Entry], layout: Layout) -> usize {
    let mut builder = Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap();
    for &entry in entries {
        builder.push(entry);
    }
    let placed = builder.finish().place(None, Key::image_offset, LsdaKey::image_offset).unwrap();
    let mut bytes = vec![0; placed.len()];
    placed.write(&mut bytes, |_| ImageOffset(8)).unwrap();
    black_box(bytes).len()
}

fn copy(entries: &[Entry]) -> usize {
    let mut copied = Vec::new();
    for &entry in entries {
        copied.push(entry);
    }
    size_of_val(&black_box(copied)[..])
}

fn best(mut run: impl FnMut() -> usize) -> (Duration, usize) {
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        let size = run();
        (start.elapsed(), size)
    });
    runs.min().unwrap()
}

/// Returns this process's memory now and at its peak, in bytes. Only on Linux.
fn memory() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix(" kB"))?;
        Some(1024 * line.trim().parse::<u64>().ok()?)
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

/// Builds a table in another process. Returns the line that it prints: the memory beside input and output.
fn memory_of(layout: Layout, dwarf: u64) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args(["memory", &format!("{layout:?}"), &dwarf.to_string()])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn print_memory(layout: &str, dwarf: u64) {
    let entries = entries(dwarf);
    let layout = LAYOUTS.into_iter().find(|known| format!("{known:?}") == layout).unwrap();
    let before = memory();
    let size = build(&entries, layout) as u64;
    match (before, memory()) {
        (Some((before, _)), Some((_, peak))) => {
            println!("{:.1}", (peak - before - size) as f64 / f64::from(ENTRIES));
        }
        _ => println!("?"),
    }
}

fn main() {
    let arguments: Vec<_> = env::args().collect();
    if let [_, memory, layout, dwarf] = &arguments[..]
        && memory == "memory"
    {
        return print_memory(layout, dwarf.parse().unwrap());
    }
    let each = |time: Duration| time.as_nanos() as f64 / f64::from(ENTRIES);
    for dwarf in [0, 5, 20] {
        let entries = entries(dwarf);
        let yardstick = each(best(|| copy(&entries)).0);
        println!("{dwarf} % in DWARF mode; copying the entries: {yardstick:.1} ns an entry");
        for layout in LAYOUTS {
            let (time, size) = best(|| build(&entries, layout));
            let (time, memory) = (each(time), memory_of(layout, dwarf));
            let name = format!("{layout:?}");
            let subject = format!("{name}, {dwarf} of 100 functions in DWARF mode");
            figures::nanoseconds(&subject, "an entry", time, "copying it", yardstick);
            if memory != "?" {
                figures::number(&subject, "memory beside input and output", &memory, "bytes an entry");
            }
            println!(
                "  {name:8} {time:6.1} ns an entry ({:.1} x copying), {memory} bytes an entry beside \
                 input and output, {size} bytes",
                time / yardstick
            );
        }
    }
}
