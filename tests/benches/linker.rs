//! Measures merging of tables against the additional time that GNU `ld` takes with `.sframe`, and building a table from
//! functions with keys against converting a finished file. Runs take turns in one process; medians.
//!
//!     CFIPACK_REFERENCE_TOOLS=DIR cargo bench -p cfipack-tests --bench linker

use std::time::Duration;

use cfipack_cfi::Functions;
use cfipack_encoder::sframe::{At, Finish, Layout, Options as TableOptions};
use cfipack_format::pool::Threads;
use cfipack_format::{Address, Arch, Key};
use cfipack_linker::sframe::{Field, Live, Merger, Object, Options, Prefer};
use cfipack_testkit::random::Random;
use cfipack_tests::allocated::{Counting, peak};
use cfipack_tests::elf_object::{ElfObject, Place};
use cfipack_tests::figures;
use cfipack_tests::many_functions::source;
use cfipack_tests::reference::Tools;
use cfipack_tests::timing::{median, time};
use cfipack_tests::workload::{Library, build as build_finished, libraries};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const OBJECTS: usize = 10;
const FUNCTIONS: usize = 10_000;
const ROUNDS: usize = 9;

fn main() {
    merging(&Tools::find());
    for library in Box::leak(libraries().into_boxed_slice()) {
        keyed(library);
    }
}

fn merging(tools: &Tools) {
    let mut random = Random::new(1);
    let (mut objects, mut bytes) = (Vec::new(), 0);
    for number in 0..OBJECTS {
        tools.write("f.s", source(&mut random, FUNCTIONS));
        tools.run_well(&["as", "--gsframe=no", "f.s", "-o", &format!("without{number}.o")]);
        tools.run_well(&["as", "--gsframe", "f.s", "-o", &format!("with{number}.o")]);
        let object = tools.read(&format!("with{number}.o"));
        bytes += object.len();
        objects.push(ElfObject::parse(&object));
    }
    let link = |kind: &str| {
        let files: Vec<_> = (0..OBJECTS).map(|number| format!("{kind}{number}.o")).collect();
        let mut command = vec!["ld", "-shared", "-o", "out"];
        command.extend(files.iter().map(String::as_str));
        time(|| tools.run_well(&command))
    };
    // The address where a linker would put each object's text.
    let text: Vec<u64> = objects
        .iter()
        .scan(0x1000, |at, object| {
            let size =
                object.names.iter().position(|name| name == ".text").map_or(0, |text| object.sizes[text]);
            let here = *at;
            *at += size.next_multiple_of(16);
            Some(here)
        })
        .collect();
    let address_of = |key: Key| {
        let (object, place) = Place::from_key(key);
        Address(text[object] + place.offset)
    };
    let merge = |options: Options, threads: usize, inputs: fn(&ElfObject) -> Object<'_>| {
        let pool = Threads(threads);
        let mut merger = Merger::new(Arch::Amd64, options).unwrap();
        let inputs: Vec<_> = objects.iter().map(inputs).collect();
        if threads == 1 {
            merger.reserve(&inputs);
            for (number, (object, input)) in objects.iter().zip(&inputs).enumerate() {
                let mut walk = object.walk();
                let live = |field| Some(Live::new(walk.target(field)?.key(number)));
                merger.push_object(input, live, |note| panic!("{note}"));
            }
        } else {
            let live = |number: usize| {
                let mut walk = objects[number].walk();
                move |field| Some(Live::new(walk.target(field)?.key(number)))
            };
            merger.push_objects(&pool, &inputs, live, |_, note| panic!("{note}"));
        }
        let section = merger.finish_with(Finish::on(&pool));
        let mut out = vec![0; section.len()];
        section.write(&mut out, At::on(Address(0x100_0000), &pool), address_of).unwrap();
        out
    };
    let mut gnu = TableOptions::default();
    gnu.layout = Layout::Gnu;
    let gnu = Options::new().with_prefer(Prefer::TableOnly).with_table(gnu);
    let small = Options::new();
    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(link("with"));
        times[1].push(link("without"));
        times[2].push(time(|| drop(merge(gnu, 1, ElfObject::table))));
        times[3].push(time(|| drop(merge(small, 1, ElfObject::input))));
        times[4].push(time(|| drop(merge(gnu, 2, ElfObject::table))));
        times[5].push(time(|| drop(merge(small.with_prefer(Prefer::Cfi), 1, ElfObject::input))));
    }
    let [with, without, ours, small_time, two, cfi] = times.map(median);
    let sizes = [merge(gnu, 1, ElfObject::table).len(), merge(small, 1, ElfObject::input).len()];
    let by_cfi = merge(small.with_prefer(Prefer::Cfi), 1, ElfObject::cfi).len();
    println!("\n{OBJECTS} objects of {FUNCTIONS} functions, {bytes} bytes");
    println!("  ld with .sframe {with:.1?}, without {without:.1?}");
    let more = with.saturating_sub(without);
    let ratio = |time: Duration| more.as_secs_f64() / time.as_secs_f64();
    for (what, time) in [
        ("merge, gnu", ours),
        ("merge, gnu, two threads", two),
        ("merge, small, CFI present", small_time),
        ("small, from CFI", cfi),
    ] {
        let all = OBJECTS * FUNCTIONS;
        figures::times("functions of 10 objects", what, time, "ld, with .sframe less without", more, all);
        println!(
            "  {what:<34} {time:>10.1?}   ld's difference {more:.1?}   {:.2} times as fast",
            ratio(time)
        );
    }
    println!("  bytes: gnu {}, small {}, from CFI {by_cfi}", sizes[0], sizes[1]);
    for (what, size) in [("merge, small", sizes[1]), ("small, from CFI", by_cfi)] {
        figures::compared("10 objects", what, size as f64, "bytes", "ld", sizes[0] as f64);
    }
    let section = |options: Options| {
        let mut merger = Merger::new(Arch::Amd64, options).unwrap();
        let inputs: Vec<_> = objects.iter().map(ElfObject::table).collect();
        merger.reserve(&inputs);
        for (number, (object, input)) in objects.iter().zip(&inputs).enumerate() {
            let mut walk = object.walk();
            merger.push_object(input, |field| Some(Live::new(walk.target(field)?.key(number))), |_| ());
        }
        merger.finish()
    };
    for (what, options) in [("gnu", gnu), ("small", small)] {
        let in_place =
            || section(options).into_bytes(At::on(Address(0x100_0000), &Threads(1)), address_of).unwrap();
        let size = in_place().len();
        let written = || {
            let section = section(options);
            let mut out = vec![0; section.len()];
            section.write(&mut out, Address(0x100_0000), address_of).unwrap();
            out
        };
        for (how, peak) in [("in place", peak(in_place)), ("into the linker's memory", peak(written))] {
            let share = 100.0 * (bytes + peak) as f64 / (bytes + size) as f64;
            println!(
                "  memory, {what}, {how}: {peak} bytes with the output's {size}; with the objects {share:.1} % of objects and output"
            );
        }
    }
}

/// Builds the table of a library's functions as a linker does, by keys.
fn keyed(library: &'static Library) {
    let cfi = library.cfi();
    let functions: Vec<_> = Functions::new(&cfi).flatten().collect();
    let fields: Vec<_> = functions.iter().map(|function| (function.start_field, function.key)).collect();
    let object = Object::new().with_eh_frame(cfi.bytes);
    let build = || {
        let mut merger = Merger::new(cfi.arch, Options::new()).unwrap();
        // The keys are found by one walk along sorted relocations.
        let mut next = 0;
        let live = |field| {
            let Field::EhFrame(at) = field else { return None };
            while fields.get(next)?.0 < at {
                next += 1;
            }
            (fields[next].0 == at).then(|| fields[next].1.into())
        };
        merger.push_object(&object, live, |_| ());
        let section = merger.finish();
        let mut out = vec![0; section.len()];
        section.write(&mut out, library.table_address(), |key| key.address()).unwrap();
        out
    };
    let (mut ours, mut finished) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time(build));
        finished.push(time(|| {
            let section = build_finished(&cfi, TableOptions::default(), 1);
            let mut out = vec![0; section.len()];
            section.write(&mut out, library.table_address(), Key::address).unwrap();
            out
        }));
    }
    let [ours, finished] = [ours, finished].map(median);
    let yardstick = "conversion of the finished file";
    figures::times(library.name, "functions with keys", ours, yardstick, finished, functions.len());
    let ratio = finished.as_secs_f64() / ours.as_secs_f64();
    println!("\n{}: {} functions with keys", library.name, functions.len());
    println!(
        "  build {ours:.1?}   conversion of the finished file {finished:.1?}   {ratio:.2} times as fast"
    );
}
