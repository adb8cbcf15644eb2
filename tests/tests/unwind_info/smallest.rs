//! Compares layout `small` with the optimum that an exhaustive search finds.

use std::collections::{BTreeMap, HashSet};

use cfipack_encoder::unwind_info::{Entry, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, ImageOffset};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::random_entries;
use cfipack_tests::unwind_table::{Table, lay_out};

/// An entry: its start, and its encoding with the personality's number.
type Key = (u32, u32);

fn keys(table: &Table) -> Vec<Key> {
    let number = |personality: Option<std::num::NonZeroU32>| personality.map_or(0, |number| number.get());
    let key =
        |entry: &Entry| (entry.function.image_offset().0, entry.encoding.0 | number(entry.personality) << 28);
    table.entries.iter().map(key).collect()
}

/// The most encodings that layout `small` makes common.
const MAX_COMMON: usize = 127;

/// Returns the fewest bytes of pages and their index entries for a common palette. For each start of the first page it
/// takes the best end. Encodings of `spare` may be common too if that makes room in a page; each page counts them for
/// itself.
fn best_pages(keys: &[Key], common: &HashSet<u32>, spare: &HashSet<u32>) -> usize {
    let mut best = vec![usize::MAX; keys.len() + 1];
    best[0] = 0;
    for first in 0..keys.len() {
        let before = best[first];
        for (best, entries) in best[first + 1..].iter_mut().zip(1..=511) {
            *best = (*best).min(before + 12 + 8 + 8 * entries);
        }
        let mut locals = HashSet::new();
        let mut spared = 0;
        for (at, &(function, encoding)) in keys.iter().enumerate().skip(first) {
            if !common.contains(&encoding) && locals.insert(encoding) && spare.contains(&encoding) {
                spared += 1;
            }
            let page = 12 + 4 * (at + 1 - first + locals.len());
            let needed = page - 4 * spared.min(MAX_COMMON - common.len());
            let far = function - keys[first].0 > 0xff_ffff;
            if needed > 4096 || common.len() + locals.len() > 256 || far {
                break;
            }
            best[at + 1] = best[at + 1].min(before + 12 + page);
        }
    }
    best[keys.len()]
}

/// Returns the bytes of a table without its pages, their index entries and its common palette.
fn head(table: &Table) -> usize {
    let lsdas = table.entries.iter().filter(|entry| entry.lsda.is_some()).count();
    28 + 12 + 4 * table.slots.len() + 8 * lsdas
}

fn small(random: &mut Random, most: u64) -> Option<(usize, Table)> {
    let entries = random_entries::random(random, Arch::Amd64, most);
    let bytes =
        lay_out(Arch::Amd64, Options::default(), &entries, None, |personality| ImageOffset(8 * personality));
    (!bytes.is_empty()).then(|| (bytes.len(), Table::read(&bytes)))
}

#[test]
fn boundaries_are_the_best_for_the_palette() {
    let (seed, count) = cases("page boundaries of layout small against all others", 60);
    let mut random = Random::new(seed);
    for number in 0..count {
        let Some((size, table)) = small(&mut random, 2500) else { continue };
        let common: HashSet<_> = table.common.iter().map(|encoding| encoding.0).collect();
        let pages = best_pages(&keys(&table), &common, &HashSet::new());
        let best = head(&table) + 4 * common.len() + pages;
        assert_eq!(size, best, "table {number}");
    }
}

/// Returns a size that no palette can undercut, or `None` if there are too many palettes to try.
///
/// Tries every selection of the encodings that several entries have. An encoding of a single entry costs 4 bytes in either
/// palette, and is common only to make room in its page. We allow in each page as many of them as the table may have.
fn least(table: &Table) -> Option<usize> {
    let keys = keys(table);
    let mut uses = BTreeMap::<u32, u32>::new();
    for &(_, encoding) in &keys {
        *uses.entry(encoding).or_default() += 1;
    }
    let (repeated, once): (Vec<_>, Vec<_>) = uses.into_iter().partition(|&(_, uses)| uses > 1);
    if repeated.len() > 7 {
        return None;
    }
    let once = once.into_iter().map(|(encoding, _)| encoding).collect();
    let sizes = (0..1_usize << repeated.len()).map(|choice| {
        let chosen = repeated.iter().enumerate().filter(|&(at, _)| choice >> at & 1 == 1);
        let common: HashSet<_> = chosen.map(|(_, &(encoding, _))| encoding).collect();
        head(table) + 4 * common.len() + best_pages(&keys, &common, &once)
    });
    sizes.min()
}

#[test]
fn palettes_are_near_the_best() {
    let (seed, count) = cases("palettes of layout small against all others", 60);
    let mut random = Random::new(seed);
    let (mut drawn, mut tried, mut exact, mut worst) = (0, 0, 0, 0.0_f64);
    while tried < count {
        drawn += 1;
        assert!(drawn <= 100 * count, "only {tried} of {drawn} tables had few enough encodings to try all");
        // Small tables are quick to search, and a wrong palette is a larger part of them.
        let most = if tried % 10 == 0 { 3000 } else { random.pick(&[10, 30, 100, 300]) };
        let Some((size, table)) = small(&mut random, most) else { continue };
        let Some(least) = least(&table) else { continue };
        assert!(size >= least, "a table of {size} bytes, though none can have fewer than {least}");
        let over = 100.0 * (size as f64 / least as f64 - 1.0);
        assert!(over < 1.0, "{over:.2} % over the optimum, {size} bytes for {least}");
        tried += 1;
        exact += usize::from(size == least);
        worst = worst.max(over);
    }
    println!(
        "{tried} of {drawn} tables tried; {exact} as small as can be, the others at most {worst:.2} % more"
    );
}

/// Sizes of palettes that consist of the most frequent encodings.
const LENGTHS: [usize; 9] = [0, 4, 8, 16, 32, 48, 64, 96, MAX_COMMON];

/// These tables are too large to fit palette and boundaries to each other. None may be larger than with the best
/// palette of frequent encodings, nor larger than before. Each table grows if a choice is worse.
#[test]
fn palettes_of_frequent_encodings_are_no_better() {
    for (seed, known) in [
        (14, 17_664),
        (30, 15_732),
        (36, 12_056),
        (52, 8_628),
        (88, 12_324),
        (108, 12_752),
        (128, 13_760),
        (148, 15_200),
    ] {
        let mut random = Random::new(seed);
        let most = random.pick(&[30, 300, 3000]);
        let (size, table) = small(&mut random, most).expect("it has entries");
        assert!(size <= known, "table {seed}: {size} bytes, which were {known}");
        let keys = keys(&table);
        let mut uses = BTreeMap::<u32, usize>::new();
        for &(_, encoding) in &keys {
            *uses.entry(encoding).or_default() += 1;
        }
        let mut ranked: Vec<_> = uses.into_iter().filter(|&(_, uses)| uses > 1).collect();
        ranked.sort_by_key(|&(encoding, uses)| (std::cmp::Reverse(uses), encoding));
        for length in LENGTHS {
            let common: HashSet<_> = ranked.iter().take(length).map(|&(encoding, _)| encoding).collect();
            let other = head(&table) + 4 * common.len() + best_pages(&keys, &common, &HashSet::new());
            assert!(size <= other, "table {seed}: {size} bytes, {other} with {length} common encodings");
        }
    }
}

/// Returns entries of many pages but few encodings, so that every palette can be tried. The groups of functions are too
/// far apart for one compressed page. Each group shares encodings with its neighbours and with all groups, so palette
/// and boundaries depend on each other.
fn in_groups(random: &mut Random) -> Vec<Entry> {
    let encodings = random.between(2, 7) as u32;
    let (groups, most) = random.pick(&[(12, 6), (40, 12), (40, 40), (6, 300), (3, 1400)]);
    let (stray, rare) = (random.pick(&[0, 20, 60]), random.pick(&[0, 0, 5, 30]));
    let mut entries = Vec::new();
    for group in 0..1 + random.below(groups) as u32 {
        let own = random.below(encodings.into()) as u32;
        let mut function = 0x1000 + group * 0x110_0000;
        for _ in 0..1 + random.below(most) {
            let number = if random.chance(rare) {
                1000 + entries.len() as u32
            } else if random.chance(stray) {
                random.below(encodings.into()) as u32
            } else {
                (own + u32::from(random.chance(50))) % encodings
            };
            entries.push(Entry::new(ImageOffset(function), 4, Encoding(0x0200_0000 | number << 10)));
            function += 4;
        }
    }
    entries
}

/// Layout `small` nearly always finds the optimum of the exhaustive search, and is never far from it.
#[test]
fn palettes_of_many_pages_are_the_best() {
    palettes_of_many_pages(500);
}

#[test]
#[ignore = "takes minutes"]
fn palettes_of_many_pages_are_the_best_slow() {
    palettes_of_many_pages(usize::MAX);
}

/// Compares random tables of at most this many entries.
fn palettes_of_many_pages(most: usize) {
    let (seed, count) = cases("palettes of layout small where pages are many", 60);
    let mut random = Random::new(seed);
    let (mut exact, mut worst) = (0, 0);
    let tables = std::iter::repeat_with(|| in_groups(&mut random)).filter(|entries| entries.len() <= most);
    for (number, entries) in tables.take(count).enumerate() {
        let bytes = lay_out(Arch::Amd64, Options::default(), &entries, None, |_| unreachable!());
        let least = least(&Table::read(&bytes)).expect("few encodings are repeated");
        let over = bytes.len().checked_sub(least).expect("no table is smaller than the smallest");
        assert!(
            over <= 32 && over * 100 <= least,
            "table {number}: {over} bytes over the optimum of {least}"
        );
        exact += usize::from(over == 0);
        worst = worst.max(over);
    }
    println!("{exact} of {count} as small as can be, the others at most {worst} bytes more");
    assert!((exact + 1) * 50 >= count * 49, "only {exact} of {count} are as small as can be");
}

/// Returns the size of a table of these groups of encodings. Groups are too far apart to share a compressed page.
fn size_of(groups: &[Vec<u32>]) -> usize {
    let mut entries = Vec::new();
    for (group, start) in groups.iter().zip((0x1000..).step_by(0x110_0000)) {
        let entry = |(&encoding, function): (&u32, u32)| {
            Entry::new(ImageOffset(function), 4, Encoding(0x0200_0000 | encoding << 12))
        };
        entries.extend(group.iter().zip((start..).step_by(4)).map(entry));
    }
    let bytes = lay_out(Arch::Amd64, Options::default(), &entries, None, |_| unreachable!());
    assert_eq!(least(&Table::read(&bytes)), Some(bytes.len()));
    bytes.len()
}

/// Bytes of the header and of the sentinel.
const FRAME: usize = 28 + 12;

#[test]
fn no_palette_without_a_compressed_page() {
    // While two pages seem best, it is better to make both encodings common.
    let groups = [vec![0, 1, 0, 1, 2], vec![0]];
    assert_eq!(size_of(&groups), FRAME + 12 + 8 + 8 * 6);
}

#[test]
fn an_expensive_first_page() {
    // One regular page of all entries costs less per entry than the first page, but more in total.
    let alternating = |from: u32, to: u32| (from..to).map(|at| at % 2).collect();
    let groups = [alternating(0, 1), alternating(1, 9), alternating(9, 17), alternating(17, 24)];
    assert_eq!(size_of(&groups), FRAME + 2 * 4 + 4 * (12 + 12) + 4 * 24);
}

#[test]
fn rare_encodings_are_common_to_make_room() {
    // The page is one word too long, unless an encoding of a single entry leaves it.
    let rare = 1021 - 990 + 1;
    let group = (0..990).map(|at| if at < 2 * rare && at % 2 == 1 { at } else { 2000 + at % 2 }).collect();
    assert_eq!(size_of(&[group]), FRAME + 12 + 12 + 4 * (990 + rare as usize + 2));
}
