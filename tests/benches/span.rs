//! Counts the instructions of each task of a merge, and from them the longest chain of work for a number of threads. A
//! pool runs the tasks one after the other, and callgrind writes its counts between two tasks. So the figures do not
//! depend on the machine's load. Needs valgrind.
//!
//!     cargo bench -p cfipack-tests --bench span [-- KIND LAYOUT OBJECTS]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::{env, fs, process};

use cfipack_cfi::{Section as Cfi, SectionKind};
use cfipack_encoder::sframe::{At, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::{Pool, Task};
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options};
use cfipack_testkit::random::Random;
use cfipack_tests::allocated::{Counting, peak};
use cfipack_tests::figures;
use cfipack_tests::many_functions::eh_frame;
use cfipack_tests::workload::build;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FUNCTIONS: usize = 100_000;
const OBJECTS: [usize; 3] = [50, 500, 5_000];
const THREADS: [usize; 4] = [1, 2, 8, 32];
const SECTION: Address = Address(0x800_0000);

/// The pool's run of each piece of work that callgrind counts; 0 for work between two runs.
static PIECES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Ends a piece of work of `run`. Callgrind writes its counts before this function.
#[inline(never)]
fn end_of_piece(run: usize) {
    PIECES.lock().expect("one thread").push(black_box(run));
}

/// Runs tasks one after the other.
struct OneByOne {
    threads: usize,
    runs: Mutex<usize>,
}

impl Pool for OneByOne {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        let mut runs = self.runs.lock().expect("runs are not nested");
        *runs += 1;
        end_of_piece(0);
        for task in tasks {
            task();
            end_of_piece(*runs);
        }
    }
}

/// The objects of a link, in some order of addresses.
struct Link {
    sections: Vec<Vec<u8>>,
    are_tables: bool,
    options: Options,
    /// The length of the longest section.
    room: u64,
}

/// Returns the number of functions of each object. Of unequal objects, half have a number of functions, a quarter twice
/// this number, and so on.
fn sizes(objects: usize, are_equal: bool) -> Vec<usize> {
    let weights: Vec<_> =
        (1..=objects).map(|n| if are_equal { 1 } else { 1 << n.trailing_zeros() }).collect();
    let sum = weights.iter().sum::<usize>();
    weights.into_iter().map(|weight| FUNCTIONS * weight / sum).collect()
}

impl Link {
    fn new(kind: &str, layout: Layout, objects: usize) -> Self {
        let (mut random, are_tables) = (Random::new(1), kind.ends_with("tables"));
        let sections: Vec<_> = sizes(objects, !kind.starts_with("unequal"))
            .into_iter()
            .map(|functions| {
                let text = Address(0x1000_0000);
                let bytes = eh_frame(&mut random, functions, Address(0x1000), text);
                if !are_tables {
                    return bytes;
                }
                let cfi = Cfi::new(SectionKind::EhFrame, &bytes, Address(0x1000), Arch::Amd64);
                let section = build(&cfi, TableOptions::new().with_layout(Layout::Gnu), 1);
                let mut table = vec![0; section.len()];
                section.write_relocatable(&mut table).expect("a small table");
                table
            })
            .collect();
        let room = sections.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let options = Options::new().with_table(TableOptions::new().with_layout(layout));
        Self { sections, are_tables, options, room }
    }

    /// Returns the key of the function whose start field is in an object.
    fn live(object: usize, field: Field) -> Option<Live> {
        let (Field::Sframe(at) | Field::EhFrame(at)) = field;
        Some(Live::new(Key((object as u64) << 32 | at.0 as u64)))
    }

    fn address_of(&self, key: Key) -> Address {
        // Objects do not lie in their order.
        let place = (key.0 >> 32) * 7919 % self.sections.len() as u64;
        Address(0x1000_0000 + (place * self.room + (key.0 & 0xffff_ffff)) * 32)
    }

    fn run(&self, pool: &dyn Pool) -> Vec<u8> {
        let objects = self.sections.iter().map(|bytes| {
            if self.are_tables {
                Object::new().with_sframe(bytes)
            } else {
                Object::new().with_eh_frame(bytes)
            }
        });
        let objects: Vec<_> = objects.collect();
        let mut merger = Merger::new(Arch::Amd64, self.options).expect("amd64");
        let live = |object| move |field| Self::live(object, field);
        merger.push_objects(pool, &objects, live, |_, note| panic!("{note}"));
        let section = merger.finish_with(Finish::on(pool));
        let mut out = vec![0; section.len()];
        let written = section.write(&mut out, At::on(SECTION, pool), |key| self.address_of(key));
        assert!(written.expect("a table in reach").conflicts.is_empty());
        out
    }

    /// Returns the bytes of the inputs and of the output, and the memory beside them.
    fn memory(&self, pool: &dyn Pool) -> (usize, usize) {
        let len = self.run(pool).len();
        let inputs: usize = self.sections.iter().map(Vec::len).sum();
        (inputs + len, peak(|| self.run(pool)).saturating_sub(len))
    }
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let texts: Vec<_> = arguments.iter().map(String::as_str).collect();
    match texts[..] {
        [kind, layout, objects, threads] => {
            let link = Link::new(kind, layout_of(layout), number(objects));
            let pool = OneByOne { threads: number(threads), runs: Mutex::new(0) };
            end_of_piece(0);
            black_box(link.run(&pool));
            end_of_piece(0);
            let pieces = PIECES.lock().expect("one thread").iter().map(usize::to_string).collect::<Vec<_>>();
            let (all, beside) = link.memory(&pool);
            println!("{}\n{all} {beside}", pieces.join(" "));
        }
        [kind, layout, objects] => compare(kind, layout, objects),
        _ => {
            for kind in ["tables", "unequal tables", "cfi", "unequal cfi"] {
                for layout in ["small", "gnu"] {
                    for objects in OBJECTS {
                        compare(kind, layout, &objects.to_string());
                    }
                }
            }
        }
    }
}

fn layout_of(name: &str) -> Layout {
    Layout::ALL.into_iter().find(|layout| layout.name() == name).expect("a layout")
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

/// Measures a link on each number of threads.
fn compare(kind: &str, layout: &str, objects: &str) {
    let mut one = None;
    for threads in THREADS {
        let Measured { all, chain, share } = measure(kind, layout, objects, threads);
        let of_one = all as f64 / *one.get_or_insert(all) as f64;
        let of_chain = all as f64 / chain as f64;
        let what = format!("{kind}, {layout}, {objects} objects, {threads} threads");
        println!(
            "{what:<40} {:7.1} instructions a function, {of_one:.3} of one; chain 1/{of_chain:.1}; memory {share:.1} %",
            all as f64 / FUNCTIONS as f64
        );
        figures::number(&what, "instructions, of one thread", format!("{of_one:.3}"), "×");
        figures::number(&what, "longest chain of all work", format!("1/{of_chain:.1}"), "");
        figures::number(&what, "memory beside inputs and output", format!("{share:.1}"), "%");
    }
}

struct Measured {
    all: u64,
    /// The instructions of the longest chain, if tasks begin in order as soon as a thread is free.
    chain: u64,
    /// Memory beside the inputs and the output, in percent of these.
    share: f64,
}

fn measure(kind: &str, layout: &str, objects: &str, threads: usize) -> Measured {
    let directory = env::temp_dir().join(format!("span-{}", process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let program = env::current_exe().expect("this program");
    // For the processor, `rep movsb` and `rep stosb` are an instruction; callgrind counts each byte. So glibc gets none.
    let copies =
        ["movsb", "stosb"].map(|name| format!("glibc.cpu.x86_rep_{name}_threshold=0x40000000")).join(":");
    let output = Command::new("valgrind")
        .env("GLIBC_TUNABLES", copies)
        .args(["--tool=callgrind", "--dump-before=*end_of_piece*", "--callgrind-out-file=counts"])
        .arg(program)
        .args([kind, layout, objects, &threads.to_string()])
        .current_dir(&directory)
        .output()
        .expect("valgrind");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let [pieces, memory] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let (mut all, mut chain, mut of_runs) = (0, 0, BTreeMap::<usize, Vec<u64>>::new());
    // The first counts are those of the preparations.
    for (piece, run) in pieces.split(' ').map(number).enumerate().skip(1) {
        let count =
            counted(&fs::read_to_string(directory.join(format!("counts.{}", piece + 1))).expect("counts"));
        all += count;
        match run {
            0 => chain += count,
            _ => of_runs.entry(run).or_default().push(count),
        }
    }
    for tasks in of_runs.values() {
        let mut free = vec![0; threads];
        for task in tasks {
            *free.iter_mut().min().expect("a thread") += task;
        }
        chain += free.into_iter().max().unwrap_or(0);
    }
    fs::remove_dir_all(directory).expect("a directory");
    let [inputs, beside] = memory.split(' ').map(number).collect::<Vec<_>>()[..] else { panic!("{memory}") };
    Measured { all, chain, share: 100.0 * beside as f64 / inputs as f64 }
}

/// Reads the sum of a file of callgrind.
fn counted(text: &str) -> u64 {
    let totals =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    totals.expect("totals").trim().parse().expect("a number")
}
