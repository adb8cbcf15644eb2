//! Merges random objects: small, empty, damaged and large, of every version. Some functions have the same key. Large
//! tables are divided among threads.

use core::cell::Cell;

use cfipack_encoder::sframe::At;
use cfipack_format::pool::{Pool, Task};
use cfipack_testkit::random::Random;

use super::*;

/// A pool of one thread. It runs the last `tasks` tasks, the last task first, and drops all others.
struct Backwards {
    threads: usize,
    tasks: usize,
}

impl Pool for Backwards {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        tasks.into_iter().rev().take(self.tasks).for_each(|task| task());
    }
}

/// A pool that runs every other task, and runs the others only after all of these, on a thread of their own.
struct Late(usize);

impl Pool for Late {
    fn threads(&self) -> usize {
        self.0
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        let (late, first): (Vec<_>, Vec<_>) =
            tasks.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        first.into_iter().for_each(|(_, task)| task());
        std::thread::scope(|scope| {
            scope.spawn(|| late.into_iter().for_each(|(_, task)| task()));
        });
    }
}

/// Returns an `.eh_frame` like [`eh_frame`] with some functions. Sometimes a byte is damaged.
fn any_eh_frame(numbers: &mut Random, functions: u64) -> Vec<u8> {
    let mut bytes = eh_frame()[..24].to_vec();
    for number in 0..functions as u32 {
        let words =
            [20, 28 + 24 * number, 0, 16 + numbers.below(5) as u32, u32::from_le_bytes([0, 0x42, 0x0e, 24])];
        bytes.extend(words.into_iter().flat_map(u32::to_le_bytes));
        bytes.extend([0x40 + numbers.below(4) as u8, 0x0e, 8 * numbers.below(12) as u8, 0]);
    }
    if numbers.below(4) == 0 {
        let at = 24 + numbers.below(bytes.len() as u64 - 23) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = numbers.below(256) as u8;
        }
    }
    bytes
}

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
    let (mut copied, mut from_cfi) = (0, 0);
    for case in 0..30 {
        let tables: Vec<_> = (0..1 + numbers.below(9))
            .map(|_| {
                let version = VERSIONS[numbers.below(3) as usize];
                let functions = [0, 1, 30, 700, 14_000][numbers.below(5) as usize];
                let table = any_table(&mut numbers, version, functions);
                let cfi = [2, 3, functions][numbers.below(3) as usize];
                (version, table, any_eh_frame(&mut numbers, cfi), numbers.below(4))
            })
            .collect();
        let objects: Vec<_> = tables
            .iter()
            .map(|(_, table, cfi, has)| match has {
                0 => Object::new().with_eh_frame(cfi),
                1 => Object::new().with_sframe(table),
                _ => Object::new().with_sframe(table).with_eh_frame(cfi),
            })
            .collect();
        // Some objects have functions with the same key, and some functions are cut or discarded.
        let live = |number: usize| {
            let mut all = all(tables[number].0);
            move |field| {
                if matches!(field, Field::EhFrame(at) if (at.0 - 32) % 24 != 0) {
                    // A damaged record.
                    return None;
                }
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
        let merged = |pool: &dyn Pool| {
            let (mut merger, mut notes) = (Merger::new(Arch::Amd64, options).unwrap(), Vec::new());
            let sum = merger.push_objects(pool, &objects, live, |number, note| notes.push((number, note)));
            (merger, notes, sum)
        };
        let (mut serial, mut notes, mut sum) =
            (Merger::new(Arch::Amd64, options).unwrap(), Vec::new(), Contribution::default());
        for (number, object) in objects.iter().enumerate() {
            sum += serial.push_object(object, live(number), |note| notes.push((number, note)));
        }
        let bytes_of = |section: &Section<'_>, pool: &dyn Pool| {
            let mut bytes = vec![0; section.len()];
            // Functions of later objects lie before functions of earlier objects.
            let address = |key: Key| address(Key(key.0 * 7919 % 100_003));
            let written = section.write(&mut bytes, At::on(Address(0x10_0000), pool), address).unwrap();
            (bytes, written.conflicts)
        };
        copied += sum.copied;
        from_cfi += sum.from_cfi;
        let expected = bytes_of(&serial.clone().finish(), &Serial);
        for cut in [0, objects.len() / 2, objects.len()] {
            let mut merger = Merger::new(Arch::Amd64, options).unwrap();
            for part in [0..cut, cut..objects.len()] {
                let mut shard = merger.shard();
                for number in part {
                    shard.push_object(&objects[number], live(number), |_| ());
                }
                merger.absorb(shard, &Serial).unwrap();
            }
            assert!(bytes_of(&merger.finish(), &Serial) == expected, "case {case}, shards cut at {cut}");
        }
        let threads = [0, 1, 2, 3, 64, 1000].map(Threads);
        let backwards =
            [(2, 1), (7, usize::MAX), (300, 0)].map(|(threads, tasks)| Backwards { threads, tasks });
        let late = [Late(4), Late(40)];
        let pools = threads.iter().map(|pool| pool as &dyn Pool);
        let pools =
            pools.chain(backwards.iter().map(|pool| pool as _)).chain(late.iter().map(|pool| pool as _));
        for (number, pool) in pools.enumerate() {
            let (merger, other_notes, other_sum) = merged(pool);
            assert!((&other_notes, other_sum) == (&notes, sum), "case {case}, pool {number}");
            let copy = merger.clone();
            let section = merger.finish_with(Finish::on(pool));
            assert!(bytes_of(&section, pool) == expected, "case {case}, pool {number}");
            assert!(bytes_of(&section.into_owned(), pool) == expected, "case {case}, pool {number}, owned");
            assert!(bytes_of(&copy.finish(), &Serial) == expected, "case {case}, pool {number}, copied");
        }
    }
    assert!(copied > 10_000 && from_cfi > 10_000, "{copied} {from_cfi}");
}
