//! Prints how many times as long as its yardstick each work takes. Both run by turns in one process; medians.
//!
//!     cargo bench -p cfipack-tests --bench ratios

use std::time::Duration;

use cfipack_decoder::sframe::{Index, Section};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_format::pool::Threads;
use cfipack_format::sframe::Version;
use cfipack_roundtrip::{Table, verify, verify_on};
use cfipack_tests::figures;
use cfipack_tests::timing::by_turns;
use cfipack_tests::workload::{Fresh, Library, libraries};

const ROUNDS: usize = 15;
const PCS: usize = 200_000;

fn main() {
    if !Fresh::Output.is_here() && !Fresh::Everything.is_here() {
        Fresh::Output.run();
        Fresh::Everything.run();
        return;
    }
    let libraries = libraries();
    if libraries.is_empty() {
        println!("benches: not measured: the toolchain has neither librustc_driver nor libLLVM");
    }
    for library in Box::leak(libraries.into_boxed_slice()) {
        println!("\n{}", library.name);
        if Fresh::Everything.is_here() {
            conversion(library, "all memory fresh");
            continue;
        }
        conversion(library, "fresh output");
        layers(library);
        sizes(library);
        lookup(library);
        whole_tables(library);
    }
}

/// Prints a comparison. With `speed` it says how many times as fast as the yardstick, else how many times as long.
fn report(library: &Library, what: &str, yardstick: &str, times: (Duration, Duration), speed: bool) {
    report_each(library, what, yardstick, times, 1, speed);
}

/// The same as [`report`] for `count` equal pieces of work, with times of one piece.
fn report_each(
    library: &Library,
    what: &str,
    yardstick: &str,
    (time, yard): (Duration, Duration),
    count: usize,
    speed: bool,
) {
    figures::times(library.name, what, time, yardstick, yard, count);
    // A division of `Duration`s gives whole nanoseconds, which is too coarse for ratios.
    let ratio = if speed {
        format!("{:.2} times as fast", yard.as_secs_f64() / time.as_secs_f64())
    } else {
        format!("{:.2} times as long", time.as_secs_f64() / yard.as_secs_f64())
    };
    let [time, yard] = [time, yard].map(|total| total / count as u32);
    println!("  {what:<34} {time:>10.1?}   {yardstick:<38} {yard:>10.1?}   {ratio}");
}

fn conversion(library: &'static Library, memory: &str) {
    let small = Options::default();
    let mut gimli = library.gimli();
    for (what, options) in [
        ("small", small),
        ("gnu", small.with_layout(Layout::Gnu)),
        ("version 2", small.with_version(Version::V2)),
    ] {
        let times = by_turns(ROUNDS, || library.convert(options, 1), || gimli.walk());
        report(library, &format!("convert, {what}, {memory}"), "gimli walks all rows", times, true);
    }
    let times = by_turns(
        ROUNDS,
        || library.convert_each(small, |builder, function| builder.push_general(function)),
        || gimli.walk(),
    );
    report(library, &format!("general path, {memory}"), "gimli walks all rows", times, true);
    let times = by_turns(ROUNDS, || library.convert(small, 2), || library.convert(small, 1));
    report(library, &format!("convert, small, two threads, {memory}"), "one thread", times, true);
}

/// Measures what each layer of the fast path gains, by leaving out one more layer each time.
fn layers(library: &'static Library) {
    let small = Options::default();
    let direct = || library.convert_each(small, |builder, function| builder.push(function));
    let times = by_turns(ROUNDS, || library.convert(small, 1), direct);
    report(library, "direct runs and memo", "direct runs", times, true);
    let times = by_turns(ROUNDS, direct, || {
        library.convert_each(small, |builder, function| builder.push_general(function))
    });
    report(library, "direct runs", "general path", times, true);
}

fn sizes(library: &'static Library) {
    let small = Options::default();
    let general = library.convert_each(small, |builder, function| builder.push_general(function));
    let gnu = small.with_layout(Layout::Gnu);
    let [one, two, gnu] =
        [(small, 1), (small, 2), (gnu, 1)].map(|(options, threads)| library.convert(options, threads));
    let [two, general] = [two, general].map(|other| if one == other { "identical" } else { "DIFFERENT" });
    let share = 100.0 * one.len() as f64 / gnu.len() as f64;
    figures::compared(library.name, "size, small", one.len() as f64, "bytes", "gnu", gnu.len() as f64);
    println!("  bytes: small {} ({share:.1} % of gnu's {})", one.len(), gnu.len());
    println!("  by two threads {two}; by the general path {general}");
}

fn lookup(library: &'static Library) {
    let bytes = library.convert(Options::default(), 1);
    let table = Section::parse(&bytes, library.table_address()).expect("our own table");
    let mut memory = vec![0; Index::len_for(&table)];
    let index = Index::build(&table, &mut memory).expect("a sorted table");
    let ((first, starts), pcs) = (library.starts(), library.pcs(PCS));
    let search = || {
        let place = |pc: u64| starts.partition_point(|&start| u64::from(start) <= pc);
        pcs.iter().map(|pc| place(pc.0 - first)).fold(0, usize::wrapping_add)
    };
    let in_place = || pcs.iter().filter(|&&pc| table.lookup(pc).is_ok_and(|row| row.is_some())).count();
    let indexed = || pcs.iter().filter(|&&pc| index.lookup(pc).is_ok_and(|row| row.is_some())).count();
    report_each(
        library,
        "lookup in place",
        "binary search over u32 starts",
        by_turns(ROUNDS, in_place, search),
        PCS,
        false,
    );
    report_each(
        library,
        "lookup with index",
        "binary search over u32 starts",
        by_turns(ROUNDS, indexed, search),
        PCS,
        false,
    );
    let mut gimli = library.gimli();
    if gimli.has_search_table() {
        let times = by_turns(ROUNDS, in_place, || pcs.iter().filter(|&&pc| gimli.lookup(pc)).count());
        report_each(library, "lookup in place", "gimli, .eh_frame_hdr and row", times, PCS, true);
    }
}

fn whole_tables(library: &'static Library) {
    let bytes = library.convert(Options::default(), 1);
    let tables = [Section::parse(&bytes, library.table_address()).expect("our own table")];
    let (mut gimli, mut again) = (library.gimli(), library.gimli());
    let text = || {
        let mut text = String::new();
        tables[0].dump(&mut text, ".sframe").expect("a String takes everything");
        text
    };
    report(library, "dump to text", "gimli walks all rows", by_turns(ROUNDS, text, || gimli.walk()), false);
    let verified = || verify(&[library.cfi()], &Table::new(&tables), &Default::default()).pcs_different;
    report(library, "verify", "gimli walks all rows", by_turns(ROUNDS, verified, || again.walk()), false);
    let pool = Threads(2);
    let by_two = || verify_on(&pool, &[library.cfi()], &Table::new(&tables), &Default::default());
    let times = by_turns(ROUNDS, || by_two().pcs_different, || again.walk());
    report(library, "verify, two threads", "gimli walks all rows", times, false);
}
