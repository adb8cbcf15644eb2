//! A table's size is promised before anything has an address. Wherever its functions are placed, the table fits.

use std::collections::{BTreeSet, HashMap};

use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options, Places, Section};
use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::{Arch, ImageOffset, Key, LsdaKey};
use cfipack_testkit::random::{Random, cases};
use cfipack_tests::random_entries;

/// Entries whose keys are their numbers. Numbers follow the first addresses.
struct Functions {
    section: Section,
    /// First addresses by number.
    addresses: Vec<u32>,
}

fn functions(random: &mut Random, layout: Layout, entries: Vec<Entry>) -> Functions {
    let arch = Arch::Amd64;
    let keep_dwarf_lsda = random.chance(50);
    let options = Options::new()
        .with_layout(layout)
        .with_keep_dwarf_lsda(keep_dwarf_lsda)
        .with_eh_frame_len(random.below(9000) as u32);
    let mut builder = Builder::new(arch, options).unwrap();
    let addresses = entries.iter().map(|entry| entry.function.image_offset().0).collect();
    for (entry, number) in entries.into_iter().zip(0..) {
        builder.push(Entry { function: Key(number), ..entry });
    }
    Functions { section: builder.finish(), addresses }
}

/// Addresses that a test gives, by number.
struct Given<'a> {
    addresses: &'a [Option<u32>],
    has_lsdas: bool,
}

impl Places for Given<'_> {
    fn function(&self, function: Key) -> Option<ImageOffset> {
        self.addresses[function.0 as usize].map(ImageOffset)
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        self.has_lsdas.then(|| lsda.image_offset())
    }
}

/// Returns entries that make tables large: many encodings, all equally frequent.
fn adversarial(random: &mut Random, most: u64) -> Vec<Entry> {
    let count = 1 + random.below(most);
    let encodings = random.pick(&[2, 127, 128, 129, 255, 256, 257, 300, 600, 5000]);
    let in_turn = random.chance(50);
    let mut at = 0x1000;
    let entries = (0..count).map(|number| {
        let encoding = if in_turn { number % encodings } else { random.below(encodings) };
        let mut entry = Entry::new(ImageOffset(at), 4, Encoding(0x0200_0000 | (encoding as u32) << 4));
        if random.chance(10) {
            entry.lsda = LsdaKey::at(ImageOffset(0x4000_0000 + at));
            entry.encoding = entry.encoding.with_flags(Flags::HAS_LSDA);
        }
        at += 4 * (1 + random.below(40) as u32);
        entry
    });
    entries.collect()
}

fn any(random: &mut Random) -> Vec<Entry> {
    let most = random.pick(&[3, 40, 600, 4000, 9000]);
    if random.chance(50) {
        adversarial(random, most)
    } else {
        random_entries::random(random, Arch::Amd64, most)
    }
}

/// Returns distinct addresses in no order: all over 4 GiB, or close together with gaps.
fn anywhere(random: &mut Random, count: usize) -> Vec<u32> {
    let mut places = BTreeSet::new();
    let gaps = random.pick(&[0, 3, 300]);
    let mut at = 0_u64;
    while places.len() < count {
        at += 1 + random.below(64);
        if random.chance(gaps.min(100)) {
            at += 0xff_ffc0 + random.below(128);
        }
        // Addresses beyond the end start again, between the others.
        places.insert((at % 0xffff_0000) as u32);
    }
    let mut places: Vec<u32> = places.into_iter().collect();
    for at in (1..places.len()).rev() {
        places.swap(at, random.below(at as u64 + 1) as usize);
    }
    places
}

/// `max_len` holds for any addresses in any order, even equal or missing ones.
#[test]
fn any_layout_fits() {
    let (seed, count) = cases("the bound for any order", 250);
    let mut random = Random::new(seed);
    let mut tightest = 0.0_f64;
    for number in 0..count {
        let layout = Layout::ALL[if random.chance(60) { 0 } else { random.below(4) as usize }];
        let entries = any(&mut random);
        let Functions { section, addresses } = functions(&mut random, layout, entries);
        let mut places: Vec<_> =
            if random.chance(30) { addresses } else { anywhere(&mut random, addresses.len()) }
                .into_iter()
                .map(Some)
                .collect();
        let (absent, equal) = (random.pick(&[0, 0, 5, 60]), random.pick(&[0, 0, 5, 60]));
        for at in 1..places.len() {
            if random.chance(equal) {
                places[at] = places[at - 1];
            } else if random.chance(absent) {
                places[at] = None;
            }
        }
        let given = Given { addresses: &places, has_lsdas: random.chance(80) };
        let placed = section.place_planned(None, None, &given).unwrap();
        let (len, most) = (placed.len(), section.max_len());
        assert!(len <= most, "table {number}, {layout:?}: {len} bytes, {most} promised");
        if layout == Layout::Small && places.len() > 500 {
            tightest = tightest.max(len as f64 / most as f64);
        }
    }
    println!("at most {:.1} % of the bound for any order", 100.0 * tightest);
}

/// A plan holds if functions keep the promised order and move apart at most as far as promised.
#[test]
fn functions_in_order_fit() {
    let (seed, count) = cases("the bound for a known order", 400);
    let mut random = Random::new(seed);
    let mut exact = 0;
    for number in 0..count {
        let layout = Layout::ALL[if random.chance(60) { 0 } else { random.below(4) as usize }];
        let entries = any(&mut random);
        let Functions { section, mut addresses } = functions(&mut random, layout, entries);
        // The tentative addresses are ranks, or those of a first layout.
        let final_addresses = addresses.clone();
        if random.chance(30) {
            addresses = (0..addresses.len() as u32).collect();
        }
        let mut growth = 0;
        let (mut moved, mut at) = (Vec::new(), 0x1000_u64);
        let often = random.pick(&[0, 1, 20]);
        for (step, pair) in addresses.iter().zip(&final_addresses).enumerate() {
            let before = step.checked_sub(1);
            let [tentative, first] = before.map_or([1, 1], |before| {
                [u64::from(pair.0 - addresses[before]), u64::from(pair.1 - final_addresses[before])]
            });
            let mut distance = first;
            if random.chance(often) {
                distance += random.pick(&[4, 0x100, 0x10_0000, 0xff_fff0, 0x100_0000]);
            } else if random.chance(10) {
                distance = 1 + random.below(first);
            }
            if at + distance > 0xffff_0000 {
                distance = 1;
            }
            at += distance;
            growth += distance.saturating_sub(tentative);
            moved.push(Some(at as u32));
        }
        growth += random.pick(&[0, 0, 16, 0x20_0000]);
        let growth = u32::try_from(growth).unwrap_or(u32::MAX);
        let mut tentative: Vec<_> = addresses.into_iter().map(Some).collect();
        // In layout `small` a function may have no address in the end, or its neighbour's.
        if layout == Layout::Small && random.chance(40) {
            for at in 1..moved.len() {
                if random.chance(10) {
                    moved[at] = None;
                } else if random.chance(10) && moved[at - 1].is_some() {
                    moved[at] = moved[at - 1];
                }
            }
        } else if random.chance(20) {
            for at in 0..moved.len() {
                if random.chance(30) {
                    (moved[at], tentative[at]) = (None, None);
                }
            }
        }
        let plan = section.plan(&Given { addresses: &tentative, has_lsdas: true }, growth).unwrap();
        let places = Given { addresses: &moved, has_lsdas: true };
        let placed = section.place_planned(Some(&plan), None, &places).unwrap();
        let (len, most) = (placed.len(), plan.max_len());
        assert!(len <= most, "table {number}, {layout:?}: {len} bytes, {most} planned, growth {growth:#x}");
        assert!(
            most <= section.max_len(),
            "table {number}: {most} planned, {} for any order",
            section.max_len()
        );
        exact += usize::from(len == most);
    }
    println!("{exact} of {count} tables have exactly the planned size");
    assert!(exact * 3 > count, "{exact} of {count}");
}

/// A plan for the final addresses is exact: it is what is written.
#[test]
fn a_plan_of_final_addresses_is_exact() {
    let (seed, count) = cases("plans of final addresses", 100);
    let mut random = Random::new(seed);
    for number in 0..count {
        let layout = Layout::ALL[random.below(4) as usize];
        let entries = any(&mut random);
        let Functions { section, addresses } = functions(&mut random, layout, entries);
        let places: Vec<_> = addresses.into_iter().map(Some).collect();
        let given = Given { addresses: &places, has_lsdas: true };
        let plan = section.plan(&given, 0).unwrap();
        let placed = section.place_planned(Some(&plan), None, &given).unwrap();
        assert_eq!(placed.len(), plan.max_len(), "table {number}, {layout:?}");
    }
}

/// If functions come in another order than promised, the table may be larger, but it is right.
#[test]
fn a_broken_promise_costs_bytes_only() {
    let mut random = Random::new(5);
    for _ in 0..60 {
        let entries = any(&mut random);
        let expected: HashMap<u64, Encoding> =
            entries.iter().zip(0..).map(|(entry, number)| (number, entry.encoding)).collect();
        let Functions { section, addresses } = functions(&mut random, Layout::Small, entries);
        let first: Vec<_> = addresses.iter().copied().map(Some).collect();
        let plan = section.plan(&Given { addresses: &first, has_lsdas: true }, 0).unwrap();
        let moved: Vec<_> = anywhere(&mut random, addresses.len()).into_iter().map(Some).collect();
        let given = Given { addresses: &moved, has_lsdas: true };
        let placed = section.place_planned(Some(&plan), None, &given).unwrap();
        assert!(placed.len() <= section.max_len());
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |_| ImageOffset(8)).unwrap();
        if bytes.is_empty() {
            continue;
        }
        let table = cfipack_decoder::unwind_info::Section::parse(&bytes).unwrap();
        for (at, number) in moved.iter().zip(0..) {
            let entry = table.lookup(ImageOffset(at.unwrap())).unwrap().expect("every function has an entry");
            let mask = !(Flags::HAS_LSDA.bits() | 0x3000_0000);
            assert_eq!(entry.encoding.0 & mask, expected[&number].0 & mask);
        }
    }
}
