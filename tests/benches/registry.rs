//! Measures a registry of generated code: functions are replaced and looked up. Beside it: making a table again, a map
//! in a lock, and lookups in a table that does not change.
//!
//!     cargo bench -p cfipack-tests --bench registry

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::RwLock;
use std::time::Duration;

use cfipack_assembler::Directives;
use cfipack_assembler::region::Region;
use cfipack_assembler::registry::Registry;
use cfipack_decoder::sframe::{Frame, Section};
use cfipack_encoder::sframe::Options;
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Row};
use cfipack_testkit::random::Random;
use cfipack_tests::figures;
use cfipack_tests::timing::{median, time};

const BASE: u64 = 0x7000_0000_0000;
const SLOT: u64 = 64;
const SLOTS: usize = 20_000;
const ROUNDS: usize = 9;
const REPLACED: usize = 20_000;
const REBUILT: usize = 3;
const LOOKUPS: usize = 200_000;

/// Directives for a function of three rows.
fn directives() -> Directives {
    let mut directives = Directives::new(Arch::Amd64, 60);
    directives.at(4).def_cfa_offset(32).at(50).def_cfa_offset(8);
    directives
}

/// A map from starts to sizes and rows, as a host might write it without cfipack.
type Map = RwLock<BTreeMap<u64, (u64, Vec<Row>)>>;

fn rows() -> Vec<Row> {
    let row = |(start, offset)| {
        let cfa = Cfa::Register { register: Arch::Amd64.stack_pointer(), offset };
        Row { start: FunctionOffset(start), cfa, ..Row::at_entry(Arch::Amd64) }
    };
    [(0, 8), (4, 32), (50, 8)].map(row).to_vec()
}

fn find(map: &Map, pc: u64) -> Option<Frame> {
    let map = map.read().unwrap();
    let (start, (size, rows)) = map.range(..=pc).next_back()?;
    let offset = pc - start;
    let after = rows.partition_point(|row| u64::from(row.start.0) <= offset);
    (offset < *size).then(|| Frame::new(rows[after - 1], false))
}

fn main() {
    let directives = directives();
    let at = |slot: u64| Address(BASE + SLOT * slot);
    let mut region = Region::new(Arch::Amd64, at(0), SLOT).unwrap();
    let (mut registry, map) = (Registry::new(Arch::Amd64), Map::default());
    let mut add = |registry: &mut Registry, slot| {
        region.clear(at(slot), SLOT).unwrap();
        region.push("f", 0, &directives).unwrap();
        registry.add(&region, ()).unwrap();
    };
    for slot in 0..SLOTS as u64 {
        add(&mut registry, slot);
        map.write().unwrap().insert(at(slot).0, (60, rows()));
    }
    let mut all = Region::new(Arch::Amd64, at(0), SLOT * SLOTS as u64).unwrap();
    (0..SLOTS as u64).for_each(|slot| all.push("f", SLOT * slot, &directives).unwrap());
    let table = || {
        let table = all.sframe(Options::new()).unwrap();
        let mut bytes = vec![0; table.len()];
        table.write(&mut bytes, Address(0x1000)).unwrap();
        bytes
    };
    let bytes = table();
    let section = Section::parse(&bytes, Address(0x1000)).unwrap();
    let reader = registry.reader();

    let mut random = Random::new(25);
    let slots: Vec<u64> = (0..REPLACED).map(|_| random.below(SLOTS as u64)).collect();
    let pcs: Vec<u64> = (0..LOOKUPS).map(|_| BASE + random.below(SLOT * SLOTS as u64)).collect();
    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(time(|| {
            for &slot in &slots {
                registry.remove(at(slot)).unwrap();
                add(&mut registry, slot);
            }
        }));
        times[1].push(time(|| (0..REBUILT).for_each(|_| _ = black_box(table()))));
        times[2].push(time(|| {
            for &slot in &slots {
                map.write().unwrap().remove(&at(slot).0);
                map.write().unwrap().insert(at(slot).0, (60, rows()));
            }
        }));
        times[3].push(time(|| pcs.iter().for_each(|&pc| _ = black_box(reader.lookup(Address(pc))))));
        times[4].push(time(|| pcs.iter().for_each(|&pc| _ = black_box(find(&map, pc)))));
        times[5].push(time(|| pcs.iter().for_each(|&pc| _ = black_box(section.lookup_frame(Address(pc))))));
    }
    assert!(pcs.iter().all(|&pc| {
        let frame = reader.lookup(Address(pc));
        frame == find(&map, pc) && frame == section.lookup_frame(Address(pc)).unwrap()
    }));
    let counts = [REPLACED, REBUILT, REPLACED, LOOKUPS, LOOKUPS, LOOKUPS];
    let [replaced, rebuilt, in_map, found, found_in_map, found_in_table] = std::array::from_fn(|number| {
        median(times[number].clone()).as_secs_f64() * 1e9 / counts[number] as f64
    });
    let subject = format!("{SLOTS} functions");
    let report = |figure: &str, ours: f64, yardstick: &str, theirs: f64| {
        figures::nanoseconds(&subject, figure, ours, yardstick, theirs);
        println!("{figure:<24} {ours:>10.0} ns   {yardstick:<28} {theirs:>10.0} ns   {:.3}", ours / theirs);
    };
    report("a function replaced", replaced, "a table made again", rebuilt);
    report("a function replaced", replaced, "a map in a lock, rows known", in_map);
    report("a lookup", found, "a map in a lock", found_in_map);
    report("a lookup", found, "a table that does not change", found_in_table);
    println!("{} bytes for each function", registry.memory_size() / SLOTS);
}
