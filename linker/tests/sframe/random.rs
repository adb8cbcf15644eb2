//! Merges random objects: small, empty, damaged and large, of every version. Some functions have the same key. Large
//! tables are divided among threads.

use core::cell::Cell;

use super::*;
use cfipack_testkit::random::Random;

/// Returns a table. Sometimes a function is damaged, and sometimes functions share rows.
fn any_table(numbers: &mut Random, version: Version, functions: u64) -> Vec<u8> {
    if numbers.below(6) == 0 {
        // Every tenth function has rows, and the nine functions after it share these rows.
        let last = Cell::new(0);
        return table_with(version, &vec![plain(16); functions as usize], |number, end| {
            last.replace(if number % 10 == 0 { end } else { last.get() });
            last.get()
        });
    }
    let damaged = if numbers.below(6) == 0 { numbers.below(functions + 1) } else { functions };
    let mut all = Vec::new();
    for number in 0..functions {
        let mut function = plain(16 + numbers.below(5) as u32);
        function.fres[5] = 8 * numbers.below(25) as u8;
        match numbers.below(40) {
            0 => (function.num_fres, function.fres) = (0, Vec::new()),
            1 => function.fres = vec![0, 7, 8, 8, 8, 1, 3, 16],
            2 => (function.num_fres, function.fres) = (1, vec![0, 3, 8]),
            3 if version == Version::V3 => function.info = FdeInfo::SIGNAL.bits(),
            _ => {}
        }
        if number == damaged
            && let Some(info) = function.fres.get_mut(1)
        {
            // The info byte claims more offsets than there are bytes.
            *info = 0x7f;
        }
        all.push(function);
    }
    table(version, &all)
}

#[test]
fn threads_pools_shards_copies_and_owners_make_the_same() {
    let mut numbers = Random::new(7);
    let cfi = eh_frame();
    for case in 0..20 {
        let tables: Vec<_> = (0..1 + numbers.below(9))
            .map(|_| {
                let version = VERSIONS[numbers.below(3) as usize];
                let functions = [0, 1, 30, 700, 14_000][numbers.below(5) as usize];
                (version, any_table(&mut numbers, version, functions), numbers.below(3))
            })
            .collect();
        let objects: Vec<_> = tables
            .iter()
            .map(|(_, bytes, has)| {
                let object = Object::new().with_sframe(bytes);
                if *has == 0 { object.with_eh_frame(&cfi) } else { object }
            })
            .collect();
        // Some objects have functions with the same key, and some functions are cut or discarded.
        let live = |number: usize| {
            let mut all = all(tables[number].0);
            move |field| {
                let key = all(field)?.key.0 + 9_000 * number as u64;
                match key % 31 {
                    3 => None,
                    4 | 5 => Some(Live::new(Key(key)).with_extent(key as u32 % 3 * 2 + 1)),
                    _ => Some(Live::new(Key(key))),
                }
            }
        };
        let version = [Version::V2, Version::V3][numbers.below(2) as usize];
        let layout = LAYOUTS[numbers.below(LAYOUTS.len() as u64) as usize];
        let prefer = [Prefer::Table, Prefer::Cfi, Prefer::TableOnly][numbers.below(3) as usize];
        let options = options(version, layout, prefer);
        let merged = |threads| {
            let (mut merger, mut notes) = (Merger::new(Arch::Amd64, options).unwrap(), Vec::new());
            let sum = merger
                .push_objects(&Threads(threads), &objects, live, |number, note| notes.push((number, note)));
            (merger, notes, sum)
        };
        let (mut serial, mut notes, mut sum) =
            (Merger::new(Arch::Amd64, options).unwrap(), Vec::new(), Contribution::default());
        for (number, object) in objects.iter().enumerate() {
            sum += serial.push_object(object, live(number), |note| notes.push((number, note)));
        }
        let bytes_of = |section: &Section<'_>| {
            let mut bytes = vec![0; section.len()];
            let written = section.write(&mut bytes, Address(0x10_0000), address).unwrap();
            (bytes, written.conflicts)
        };
        let expected = bytes_of(&serial.clone().finish());
        for cut in [0, objects.len() / 2, objects.len()] {
            let mut merger = Merger::new(Arch::Amd64, options).unwrap();
            for part in [0..cut, cut..objects.len()] {
                let mut shard = merger.shard();
                for number in part {
                    shard.push_object(&objects[number], live(number), |_| ());
                }
                merger.absorb(shard, &Serial).unwrap();
            }
            assert!(bytes_of(&merger.finish()) == expected, "case {case}, shards cut at {cut}");
        }
        for threads in [0, 1, 2, 3, 64, 1000] {
            let (merger, other_notes, other_sum) = merged(threads);
            assert!((&other_notes, other_sum) == (&notes, sum), "case {case}, {threads} threads");
            let copy = merger.clone();
            let pool = Threads(threads);
            let section = merger.finish_with(Finish::on(&pool));
            assert!(bytes_of(&section) == expected, "case {case}, {threads} threads");
            assert!(bytes_of(&section.into_owned()) == expected, "case {case}, {threads} threads, owned");
            assert!(bytes_of(&copy.finish()) == expected, "case {case}, {threads} threads, copied");
        }
    }
}
