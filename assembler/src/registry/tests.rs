//! Compares changes in any order with a map of the standard library, while other threads read.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use cfipack_decoder::sframe::Frame;
use cfipack_format::{Address, Arch, Cfa, Reason, Register, Row, Rule};

use super::Registry;
use super::arenas::LEAST;
use crate::Directives;
use crate::region::{Error, Region};

const BASE: u64 = 0x7000_0000_0000;

/// A region of functions of 16 bytes, with a hole of 16 after each. The CFA's offset in their bodies is `mark`.
fn region(base: u64, functions: u64, mark: u64) -> Region {
    let mut region = Region::new(Arch::Amd64, Address(base), 32 * functions.max(1)).unwrap();
    let mut directives = Directives::new(Arch::Amd64, 16);
    directives.at(4).def_cfa_offset(mark as i64).at(15).def_cfa_offset(8);
    for number in 0..functions {
        region.push("", 32 * number, &directives).unwrap();
    }
    region
}

/// The offset of the CFA.
fn mark(frame: Option<Frame>) -> Option<u64> {
    frame.map(|frame| match frame.row.cfa {
        Cfa::Register { register: Register(7), offset } => offset as u64,
        cfa => panic!("{cfa:?}"),
    })
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }
}

/// Regions of 1 to 4 functions at any of 600 places come and go. In the end all are removed.
#[test]
fn as_a_map_has_it() {
    const PLACES: u64 = 600;
    let mut random = Random(25);
    let mut registry = Registry::new(Arch::Amd64);
    let reader = registry.reader();
    let mut model: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut most = 0;
    for round in 0..6000 {
        let (place, functions) = (random.below(PLACES), 1 + random.below(4));
        let is_free = |place, functions| {
            let before = model.range(..place + functions).next_back();
            before.is_none_or(|(other, (length, _))| other + length <= place)
        };
        let base = BASE + 32 * place;
        // First more regions come than go, then the other way round.
        if random.below(3) < if round < 3000 { 2 } else { 1 } {
            let new = region(base, functions, 8 * round + 16);
            match registry.add(&new, round) {
                Ok(omitted) => {
                    assert!(omitted.is_empty() && is_free(place, functions));
                    model.insert(place, (functions, round));
                }
                Err(Error::Registered { base: refused, .. }) => {
                    assert!(refused.0 == base && !is_free(place, functions));
                }
                Err(error) => panic!("{error}"),
            }
        } else {
            let at = model.range(place..).next().map(|(&at, _)| at);
            let removed = registry.remove(Address(BASE + 32 * at.unwrap_or(place)));
            match at {
                Some(at) => assert_eq!(removed, Ok(model.remove(&at).unwrap().1)),
                None => assert!(matches!(removed, Err(Error::NotFound { .. }))),
            }
        }
        assert_eq!(registry.len(), model.len());
        for _ in 0..8 {
            let pc = random.below(32 * PLACES + 64);
            let (place, within) = (pc / 32, pc % 32);
            let owner = model.range(..=place).next_back().filter(|(at, (length, _))| *at + length > place);
            let expected = owner.filter(|_| within < 16).map(|(_, &(_, round))| match within {
                0..4 | 15 => 8,
                _ => 8 * round + 16,
            });
            assert_eq!(mark(reader.lookup(Address(BASE + pc))), expected, "round {round}, +{pc:#x}");
        }
        most = most.max(registry.memory_size());
    }
    assert!(registry.regions().map(|(base, _, _)| (base.0 - BASE) / 32).eq(model.keys().copied()));
    let bases: Vec<_> = registry.regions().map(|(base, ..)| base).collect();
    bases.into_iter().for_each(|base| _ = registry.remove(base).unwrap());
    assert!(registry.memory_size() < 8 * 4 * LEAST && most > 4 * registry.memory_size());
}

/// Trees of many levels, with keys in ascending and in descending order.
#[test]
fn ascending_and_descending() {
    const COUNT: u64 = 5000;
    for descending in [false, true] {
        let place = |number| if descending { COUNT - 1 - number } else { number };
        let mut registry = Registry::new(Arch::Amd64);
        let reader = registry.reader();
        let found = |number| mark(reader.lookup(Address(BASE + 32 * place(number) + 8)));
        for number in 0..COUNT {
            registry.add(&region(BASE + 32 * place(number), 1, 8 * number), ()).unwrap();
            assert_eq!(found(number / 2), Some(8 * (number / 2)));
        }
        // Each region has 15 words of rows and 3 words of the tree. Memory has four times as many at most.
        assert!(registry.memory_size() as u64 <= COUNT * 8 * 18 * 4, "{}", registry.memory_size());
        for number in 0..COUNT {
            registry.remove(Address(BASE + 32 * place(number))).unwrap();
            assert_eq!((found(number), found(COUNT - 1).is_some()), (None, number + 1 < COUNT));
        }
    }
}

/// A region takes the place of several smaller ones, wherever a node of the tree ends.
#[test]
fn a_region_over_removed_ones() {
    const COUNT: u64 = 60;
    for start in 0..COUNT - 4 {
        let mut registry = Registry::new(Arch::Amd64);
        let reader = registry.reader();
        for number in 0..COUNT {
            registry.add(&region(BASE + 32 * number, 1, 8 * number), ()).unwrap();
        }
        for number in start..start + 4 {
            registry.remove(Address(BASE + 32 * number)).unwrap();
        }
        registry.add(&region(BASE + 32 * start, 4, 8000), ()).unwrap();
        for number in 0..COUNT {
            let is_replaced = (start..start + 4).contains(&number);
            let expected = if is_replaced { 8000 } else { 8 * number };
            let found = mark(reader.lookup(Address(BASE + 32 * number + 8)));
            assert_eq!(found, Some(expected), "{start} {number}");
        }
    }
}

/// A value is dropped with its region, if the region is refused, or with the registry.
#[test]
fn values_end_with_their_regions() {
    struct Counted(Rc<Cell<u32>>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let value = || Counted(Rc::clone(&dropped));
    let mut registry = Registry::new(Arch::Amd64);
    let reader = registry.reader();
    for base in [0, 64, 128] {
        registry.add(&region(BASE + base, 2, 32), value()).unwrap();
    }
    assert_eq!(dropped.get(), 0);
    let other = Address(BASE + 64);
    let error = registry.add(&region(BASE + 96, 1, 32), value()).err();
    assert_eq!((error, dropped.get()), (Some(Error::Registered { base: Address(BASE + 96), other }), 1));
    let aarch64 = Region::new(Arch::Aarch64, Address(0), 4).unwrap();
    assert!(matches!(registry.add(&aarch64, value()), Err(Error::Arch { arch: Arch::Aarch64, .. })));
    drop(registry.remove(other).unwrap());
    assert_eq!((dropped.get(), mark(reader.lookup(Address(BASE + 8)))), (3, Some(32)));
    drop(registry);
    assert_eq!((dropped.get(), reader.lookup(Address(BASE + 8))), (5, None));
}

/// Rules of every kind, offsets of every width, signal frames, and functions without rows.
#[test]
fn rules_of_every_kind() {
    let (rbp, rbx, rip) = (Register(6), Register(3), Register(16));
    let mut region = Region::new(Arch::Amd64, Address(BASE), 1 << 33).unwrap();
    let mut all = Directives::new(Arch::Amd64, 64);
    all.signal_frame();
    all.at(1).def_cfa(rbx, 1 << 40).offset(rbp, -(1 << 40));
    all.at(2).escape(&[0x0f, 3, 0x76, 0x70, 0x06]); // CFA: what rbp - 16 points to
    all.at(3).def_cfa(rbp, -8).register_in(rip, rbx);
    all.at(4).undefined(rbp);
    all.at(5).same_value(rbp);
    all.at(6).undefined(rip);
    region.push("", 16, &all).unwrap();
    let mut expression = Directives::new(Arch::Amd64, 16);
    expression.at(2).escape(&[0x0f, 3, 0x77, 8, 0x1f]); // CFA: -(rsp + 8)
    region.push("", 128, expression.at(3)).unwrap();
    let mut none = Directives::new(Arch::Amd64, 16).with_simple(true);
    none.at(8).def_cfa(rbp, 16);
    region.push("", 256, &none).unwrap();
    region.push("", 512, &Directives::new(Arch::Amd64, 1 << 32)).unwrap();
    let mut registry = Registry::new(Arch::Amd64);
    let omitted = registry.add(&region, ()).unwrap();
    let reasons: Vec<_> = omitted.iter().map(|omitted| (omitted.function.0 - BASE, omitted.reason)).collect();
    assert_eq!(reasons, [(128, Reason::CfaExpression), (512, Reason::FunctionSize)]);
    let reader = registry.reader();
    let frame = |offset: u64| reader.lookup(Address(BASE + offset));
    let row = |offset: u64| {
        frame(16 + offset).map(|Frame { row, .. }| (row.cfa, row.return_address, row.frame_pointer))
    };
    let (slot, saved) = (Rule::Cfa(-8), Rule::Cfa(-(1 << 40)));
    let memory = Cfa::Memory { register: rbp, offset: -16 };
    let by = |register, offset| Cfa::Register { register, offset };
    let in_rbx = Rule::Register { register: rbx, offset: 0 };
    assert_eq!(row(0), Some((by(Register(7), 8), slot, Rule::SameValue)));
    assert_eq!(row(1), Some((by(rbx, 1 << 40), slot, saved)));
    assert_eq!(row(2), Some((memory, slot, saved)));
    assert_eq!(row(3), Some((by(rbp, -8), in_rbx, saved)));
    assert_eq!(row(4), Some((by(rbp, -8), in_rbx, Rule::Undefined)));
    assert_eq!(row(5), Some((by(rbp, -8), in_rbx, Rule::SameValue)));
    assert_eq!(row(63), Some((Cfa::Undefined, Rule::Undefined, Rule::SameValue)));
    assert_eq!((row(64), frame(15), frame(128), frame(512), frame(1 << 33)), (None, None, None, None, None));
    assert!(frame(16).unwrap().is_signal_frame && !frame(264).unwrap().is_signal_frame);
    assert_eq!((frame(263), frame(264).map(|frame| frame.row.start.0)), (None, Some(8)));
    let at_entry = Row { cfa: by(Register(7), 8), ..Row::at_entry(Arch::Amd64) };
    assert_eq!(frame(16).unwrap().row, at_entry);
}

/// Rows with the same rules refer to these rules once, also if other rows are between them.
#[test]
fn rows_share_their_rules() {
    let rows = 1000;
    let mut directives = Directives::new(Arch::Amd64, rows + 1);
    for at in 0..rows {
        directives.at(at).def_cfa_offset(16 + 8 * (at % 2) as i64);
    }
    let mut region = Region::new(Arch::Amd64, Address(BASE), 4096).unwrap();
    region.push("", 0, &directives).unwrap();
    let mut registry = Registry::new(Arch::Amd64);
    registry.add(&region, ()).unwrap();
    // A row takes a word, and rules of its own would take two words or more.
    assert!(registry.memory_size() < 8 * 3 * rows as usize, "{}", registry.memory_size());
    let reader = registry.reader();
    assert_eq!([500, 501].map(|at| mark(reader.lookup(Address(BASE + at)))), [Some(16), Some(24)]);
}

/// Readers keep no memory of a registry that is gone.
#[test]
fn memory_ends_with_the_registry() {
    let mut registry = Registry::new(Arch::Amd64);
    registry.add(&region(BASE, 4, 16), ()).unwrap();
    let (reader, arenas) = (registry.reader(), registry.arenas.clone());
    assert!(arenas.len() > 0);
    drop(registry);
    assert_eq!((arenas.len(), mark(reader.lookup(Address(BASE + 8)))), (0, None));
}

/// Readers find every region that is there all the time, never a removed region, and only whole rows.
#[test]
fn readers_while_regions_come_and_go() {
    const SLOTS: u64 = 64;
    const ROUNDS: u64 = 4000;
    let mut registry = Registry::new(Arch::Amd64);
    // For each slot: the round of the region that is there, or 0, and the round of the last removed region.
    let slots: Vec<[AtomicU64; 2]> = (0..SLOTS).map(|_| Default::default()).collect();
    /// Ends the readers, even if the writer panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let is_over = AtomicBool::new(false);
    let lookups = AtomicU64::new(0);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        let mut readers = Vec::new();
        for number in 1..3 {
            let (reader, slots, is_over, lookups) = (registry.reader(), &slots, &is_over, &lookups);
            readers.push(scope.spawn(move || {
                let mut random = Random(number);
                while !is_over.load(Ordering::Relaxed) {
                    let slot = random.below(SLOTS);
                    let [there, gone] = &slots[slot as usize];
                    let (before, last) = (there.load(Ordering::Acquire), gone.load(Ordering::Acquire));
                    let found = mark(reader.lookup(Address(BASE + 64 * slot + 8))).map(|mark| mark / 8);
                    // A region that was removed before is not found.
                    assert!(found.is_none_or(|found| found % SLOTS == slot && found / SLOTS > last));
                    if before != 0 && there.load(Ordering::Acquire) == before {
                        assert_eq!(found, Some(before * SLOTS + slot));
                    }
                    lookups.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let mut random = Random(3);
        let mut round = 0;
        // On a busy machine readers begin late.
        let is_enough = |round| round >= ROUNDS && lookups.load(Ordering::Relaxed) >= ROUNDS;
        while !is_enough(round) && readers.iter().all(|reader| !reader.is_finished()) {
            round += 1;
            let slot = random.below(SLOTS);
            let [there, gone] = &slots[slot as usize];
            let base = BASE + 64 * slot;
            match there.load(Ordering::Relaxed) {
                0 => {
                    registry.add(&region(base, 1 + random.below(2), 8 * (round * SLOTS + slot)), ()).unwrap();
                    there.store(round, Ordering::Release);
                }
                old => {
                    there.store(0, Ordering::Release);
                    registry.remove(Address(base)).unwrap();
                    gone.store(old, Ordering::Release);
                }
            }
            // At times all regions are removed, which frees memory.
            if round % 500 == 0 {
                for slot in 0..SLOTS {
                    let [there, gone] = &slots[slot as usize];
                    let old = there.swap(0, Ordering::AcqRel);
                    if old != 0 {
                        registry.remove(Address(BASE + 64 * slot)).unwrap();
                        gone.store(old, Ordering::Release);
                    }
                }
                assert!(registry.memory_size() < 8 * 4 * LEAST);
            }
        }
    });
}

/// Adds and removes one region again and again, until the memory has been replaced several times. Returns the
/// largest size of the memory.
fn churn(registry: &mut Registry, rounds: u64) -> usize {
    let mut most = 0;
    for round in 0..rounds {
        registry.add(&region(BASE + (1 << 20), 4, 8 * round), ()).unwrap();
        most = most.max(registry.memory_size());
        registry.remove(Address(BASE + (1 << 20))).unwrap();
    }
    most
}

/// Lookups that never end, as in a child after a fork, keep no change waiting and only so much memory.
#[test]
fn readers_that_never_end() {
    let mut registry = Registry::new(Arch::Amd64);
    let reader = registry.reader();
    let mut most = 0;
    for number in 0..200 {
        registry.add(&region(BASE + 32 * number, 1, 8 * number), ()).unwrap();
        for _ in 0..3 {
            registry.arenas.hold();
            most = most.max(churn(&mut registry, 40));
        }
        let expected = (0..220).map(|other| (other <= number).then_some(8 * other));
        let found = (0..220).map(|other| mark(reader.lookup(Address(BASE + 32 * other + 8))));
        assert!(found.eq(expected));
        let kept = registry.arenas.len() * 8;
        assert!(kept <= 4 * most, "{kept} bytes are kept, where the largest memory has {most}");
    }
}

/// Where readers hold every place for memory, regions still go, and new ones are refused.
#[test]
fn readers_that_hold_every_place() {
    let mut registry = Registry::new(Arch::Amd64);
    let reader = registry.reader();
    let found = |number| mark(reader.lookup(Address(BASE + 32 * number + 8)));
    let mut added = 0;
    while registry.memory_size() < 8 * 4 * LEAST {
        registry.add(&region(BASE + 32 * added, 1, 8 * added), ()).unwrap();
        added += 1;
    }
    registry.arenas.hold_all();
    let refused = loop {
        match registry.add(&region(BASE + 32 * added, 1, 8 * added), ()) {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    assert_eq!((found(0), found(added - 1), found(added)), (Some(0), Some(8 * (added - 1)), None));
    for number in (0..added).rev() {
        registry.remove(Address(BASE + 32 * number)).unwrap();
        assert_eq!((found(number), found(number / 2).is_some()), (None, number > 0));
    }
}
