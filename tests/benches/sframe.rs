//! Measures conversion, lookup, dump and verification of the toolchain's libraries, each beside its yardstick. The
//! `ratios` bench prints the ratios.

use std::sync::LazyLock;

use cfipack_decoder::sframe::{Index, Section};
use cfipack_encoder::sframe::{Layout, Options};
use cfipack_roundtrip::{Table, verify};
use cfipack_tests::workload::{Fresh, Library, libraries};
use divan::Bencher;
use divan::counter::ItemsCount;

static LIBRARY: LazyLock<Library> =
    LazyLock::new(|| libraries().into_iter().next().expect("a toolchain with librustc_driver or libLLVM"));
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| LIBRARY.convert(Options::default(), 1));

/// Lookups of one iteration.
const PCS: usize = 100_000;

fn main() {
    if Fresh::Output.is_here() {
        divan::main();
    } else {
        Fresh::Output.run();
    }
}

fn table() -> Section<'static> {
    Section::parse(&TABLE, LIBRARY.table_address()).expect("our own table")
}

#[divan::bench(args = [1, 2], sample_count = 20, sample_size = 1)]
fn convert_small(bencher: Bencher<'_, '_>, threads: usize) {
    bencher.bench(|| LIBRARY.convert(Options::default(), threads));
}

#[divan::bench(args = [1, 2], sample_count = 20, sample_size = 1)]
fn convert_gnu(bencher: Bencher<'_, '_>, threads: usize) {
    bencher.bench(|| LIBRARY.convert(Options::new().with_layout(Layout::Gnu), threads));
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn convert_yardstick_gimli_walks_all_rows(bencher: Bencher<'_, '_>) {
    let mut gimli = LIBRARY.gimli();
    bencher.bench_local(|| gimli.walk());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn lookup_in_place(bencher: Bencher<'_, '_>) {
    let (table, pcs) = (table(), LIBRARY.pcs(PCS));
    bencher
        .counter(ItemsCount::new(PCS))
        .bench(|| pcs.iter().filter(|&&pc| table.lookup(pc).is_ok_and(|row| row.is_some())).count());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn lookup_with_index(bencher: Bencher<'_, '_>) {
    let (table, pcs) = (table(), LIBRARY.pcs(PCS));
    let mut memory = vec![0; Index::len_for(&table)];
    let index = Index::build(&table, &mut memory).expect("a sorted table");
    bencher
        .counter(ItemsCount::new(PCS))
        .bench(|| pcs.iter().filter(|&&pc| index.lookup(pc).is_ok_and(|row| row.is_some())).count());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn lookup_yardstick_binary_search(bencher: Bencher<'_, '_>) {
    let ((first, starts), pcs) = (LIBRARY.starts(), LIBRARY.pcs(PCS));
    bencher.counter(ItemsCount::new(PCS)).bench(|| {
        pcs.iter()
            .map(|pc| starts.partition_point(|&start| u64::from(start) <= pc.0 - first))
            .fold(0, usize::wrapping_add)
    });
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn lookup_yardstick_gimli_search_table_and_row(bencher: Bencher<'_, '_>) {
    let (mut gimli, pcs) = (LIBRARY.gimli(), LIBRARY.pcs(PCS));
    if gimli.has_search_table() {
        bencher
            .counter(ItemsCount::new(PCS))
            .bench_local(|| pcs.iter().filter(|&&pc| gimli.lookup(pc)).count());
    }
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn dump_to_text(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let mut text = String::new();
        table().dump(&mut text, ".sframe").expect("a String takes everything");
        text.len()
    });
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn verify_against_cfi(bencher: Bencher<'_, '_>) {
    let tables = [table()];
    bencher.bench(|| verify(&[LIBRARY.cfi()], &Table::new(&tables), &Default::default()).pcs_different);
}
