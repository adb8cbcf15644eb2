//! Layout `small` against the optimum, found by trying everything.

use std::collections::{BTreeMap, HashSet};

use cfipack_encoder::unwind_info::Options;
use cfipack_format::{Arch, ImageOffset};
use cfipack_tests::random::{Random, cases};
use cfipack_tests::random_entries;
use cfipack_tests::unwind_table::{Table, lay_out};

/// An entry's start and its encoding with the personality's number.
type Key = (u32, u32);

fn keys(table: &Table) -> Vec<Key> {
    let number = |personality: Option<std::num::NonZeroU32>| personality.map_or(0, |number| number.get());
    let key = |entry: &cfipack_encoder::unwind_info::Entry| {
        (entry.function.0, entry.encoding.0 | number(entry.personality) << 28)
    };
    table.entries.iter().map(key).collect()
}

/// The fewest bytes of pages and their index entries for a common palette: the best end of the
/// first page, for every place where it can start.
fn best_pages(keys: &[Key], common: &HashSet<u32>) -> usize {
    let mut best = vec![usize::MAX; keys.len() + 1];
    best[0] = 0;
    for first in 0..keys.len() {
        let before = best[first];
        for (best, entries) in best[first + 1..].iter_mut().zip(1..=511) {
            *best = (*best).min(before + 12 + 8 + 8 * entries);
        }
        let mut locals = HashSet::new();
        for (at, &(function, encoding)) in keys.iter().enumerate().skip(first) {
            if !common.contains(&encoding) {
                locals.insert(encoding);
            }
            let page = 12 + 4 * (at + 1 - first + locals.len());
            let far = function - keys[first].0 > 0xff_ffff;
            if page > 4096 || common.len() + locals.len() > 256 || far {
                break;
            }
            best[at + 1] = best[at + 1].min(before + 12 + page);
        }
    }
    best[keys.len()]
}

/// Bytes of a table but for its pages, their index entries and its common palette.
fn head(table: &Table) -> usize {
    let lsdas = table.entries.iter().filter(|entry| entry.lsda.is_some()).count();
    28 + 12 + 4 * table.slots.len() + 8 * lsdas
}

fn small(random: &mut Random, most: u64) -> Option<(usize, Table)> {
    let entries = random_entries::random(random, Arch::Amd64, most);
    let slot = |personality| ImageOffset(8 * personality);
    let bytes = lay_out(Arch::Amd64, Options::default(), &entries, None, slot);
    (!bytes.is_empty()).then(|| (bytes.len(), Table::read(&bytes)))
}

#[test]
fn boundaries_are_the_best_for_the_palette() {
    let (seed, count) = cases("page boundaries of layout small against all others", 60);
    let mut random = Random::new(seed);
    for number in 0..count {
        let Some((size, table)) = small(&mut random, 2500) else { continue };
        let common: HashSet<_> = table.common.iter().map(|encoding| encoding.0).collect();
        let best = head(&table) + 4 * common.len() + best_pages(&keys(&table), &common);
        assert_eq!(size, best, "table {number}");
    }
}

#[test]
fn palettes_are_near_the_best() {
    let (seed, count) = cases("palettes of layout small against all others", 12);
    let mut random = Random::new(seed);
    let (mut ours, mut least, mut worst) = (0, 0, 0.0_f64);
    let (mut drawn, mut tried) = (0, 0);
    while tried < count {
        drawn += 1;
        assert!(drawn <= 100 * count, "only {tried} of {drawn} tables had few enough encodings to try all");
        let Some((size, table)) = small(&mut random, 3000) else { continue };
        let keys = keys(&table);
        let mut uses = BTreeMap::<u32, u32>::new();
        for &(_, encoding) in &keys {
            *uses.entry(encoding).or_default() += 1;
        }
        let repeated: Vec<_> =
            uses.iter().filter(|&(_, &uses)| uses > 1).map(|(&encoding, _)| encoding).collect();
        if repeated.len() > 7 {
            continue;
        }
        let best = (0..1_usize << repeated.len()).map(|choice| {
            let chosen = repeated.iter().enumerate().filter(|&(at, _)| choice >> at & 1 == 1);
            let common: HashSet<_> = chosen.map(|(_, &encoding)| encoding).collect();
            head(&table) + 4 * common.len() + best_pages(&keys, &common)
        });
        let best = best.min().unwrap();
        assert!(
            size >= best,
            "a table of {size} bytes, but every palette was tried and the best gave {best}"
        );
        tried += 1;
        ours += size;
        least += best;
        worst = worst.max(size as f64 / best as f64 - 1.0);
    }
    let percent = 100.0 * worst;
    println!(
        "{tried} of {drawn} tables: layout small {ours} bytes, the best palettes {least}; at most {percent:.2} % more"
    );
    // A table of a few hundred bytes may be some of them longer, by chance.
    assert!(ours * 100 <= least * 101, "{ours} bytes, over the optimum of {least} by more than 1 %");
    assert!(worst < 0.1, "{percent:.2} % over the optimum");
}
