//! Tests functions that a linker identifies by keys: equal offsets in several objects, dead functions, size before
//! addresses.

use cfipack_cfi::write::{Cie, InstructionWriter, Writer};
use cfipack_cfi::{Excluded, Exclusion, Functions, Instruction, Section, SectionKind};
use cfipack_encoder::sframe::{At, Builder, Finish, OmittedFunction, Options, Parallel, WriteError};
use cfipack_format::pool::{Pool, Serial, Task, Threads};
use cfipack_format::{Address, Arch, Key, Reason, Register, SectionOffset};
use cfipack_roundtrip::{Table, verify};
use cfipack_testkit::random::Random;
use cfipack_tests::convert::all_options;

const TABLE: Address = Address(0x800_0000);
const ARCH: Arch = Arch::Amd64;

/// A function of an object: the start field of its FDE, and the size of the code.
#[derive(Clone, Copy)]
struct Function {
    fde: SectionOffset,
    start_field: SectionOffset,
    size: u64,
    is_dead: bool,
}

/// The `.eh_frame` of an object. Its start fields are zero, as compilers leave them for relocations.
struct Object {
    eh_frame: Vec<u8>,
    functions: Vec<Function>,
}

impl Object {
    /// Makes functions that push different numbers of words. One in five is dead.
    fn random(random: &mut Random, count: u64) -> Self {
        let mut writer = Writer::new(SectionKind::EhFrame, ARCH, Address(0));
        let mut at_entry = InstructionWriter::new(ARCH, 1, -8);
        at_entry.put(Instruction::DefCfa(Register(7), 8)).unwrap();
        at_entry.put(Instruction::Offset(Register(16), -8)).unwrap();
        let cie = writer.cie(&Cie::new(ARCH, at_entry.as_bytes())).unwrap();
        let functions = (0..count).map(|_| {
            let mut body = InstructionWriter::new(ARCH, 1, -8);
            let pushes = random.below(6) as i64;
            for push in 0..pushes {
                body.put(Instruction::Advance(1 + random.below(3))).unwrap();
                body.put(Instruction::DefCfaOffset(16 + 8 * push)).unwrap();
            }
            let (fde, size) = (writer.offset(), 32 + random.below(32));
            let start_field = writer.fde(&cie, Address(0), size, None, body.as_bytes()).unwrap();
            Function { fde, start_field, size, is_dead: random.chance(20) }
        });
        let functions: Vec<_> = functions.collect();
        let mut eh_frame = writer.as_bytes().to_vec();
        functions.iter().for_each(|it| eh_frame[it.start_field.0..][..4].fill(0));
        Self { eh_frame, functions }
    }

    fn section(&self) -> Section<'_> {
        Section::new(SectionKind::EhFrame, &self.eh_frame, Address(0), ARCH)
    }

    /// Returns the key of a start field: the object's number, and the field's.
    fn key(&self, number: u64, start_field: SectionOffset) -> Option<Key> {
        let found = self.functions.binary_search_by_key(&start_field, |it| it.start_field);
        let function = found.expect("a start field");
        (!self.functions[function].is_dead).then_some(Key(number << 32 | function as u64))
    }

    /// Relocates the section as a linker does (`S + A - P`). Returns it with its dead FDEs.
    fn relocated(&self, address: Address, starts: &[u64]) -> (Vec<u8>, Vec<Excluded>) {
        let mut bytes = self.eh_frame.clone();
        for (it, start) in self.functions.iter().zip(starts) {
            let place = address.0 + it.start_field.0 as u64;
            bytes[it.start_field.0..][..4].copy_from_slice(&(start.wrapping_sub(place) as u32).to_le_bytes());
        }
        let dead = self.functions.iter().filter(|it| it.is_dead);
        (bytes, dead.map(|it| Excluded { fde: it.fde, reason: Exclusion::Discarded }).collect())
    }
}

/// Chooses addresses for the functions of each object, in random order and at random distances.
fn layout(random: &mut Random, objects: &[Object]) -> Vec<Vec<u64>> {
    let mut starts: Vec<_> = objects.iter().map(|object| vec![0; object.functions.len()]).collect();
    let all = objects
        .iter()
        .enumerate()
        .flat_map(|(object, it)| (0..it.functions.len()).map(move |at| (object, at)));
    let mut all: Vec<_> = all.map(|place| (random.next(), place)).collect();
    all.sort_unstable();
    let mut address = 0x40_0000 + 16 * random.below(1000);
    for (_, (object, at)) in all {
        starts[object][at] = address;
        address += objects[object].functions[at].size + random.below(40);
    }
    starts
}

/// A caller's pool that starts a thread for each task.
struct EachItsThread;

impl Pool for EachItsThread {
    fn threads(&self) -> usize {
        3
    }

    fn run<'t>(&self, tasks: Vec<Task<'t>>) {
        std::thread::scope(|scope| tasks.into_iter().rev().for_each(|task| drop(scope.spawn(task))));
    }
}

fn refuse(omitted: OmittedFunction) {
    panic!("{omitted:?}");
}

/// The size is known first. Then the table is written for two layouts, each with the rows that gimli reads from the
/// relocated CFI. Input with addresses gives the same bytes, and so does every pool.
#[test]
fn objects_with_equal_offsets_are_linked() {
    let random = &mut Random::new(12);
    for round in 0..12 {
        let count = 1 + random.below(if round % 4 == 3 { 900 } else { 20 });
        let objects = [Object::random(random, count), Object::random(random, count)];
        assert_eq!(objects[0].functions[0].start_field, objects[1].functions[0].start_field);
        let layouts = [layout(random, &objects), layout(random, &objects)];
        for options in all_options() {
            let pools: [&dyn Pool; 3] = [&Serial, &Threads(2), &EachItsThread];
            let mut tables = Vec::new();
            for pool in pools {
                let mut builder = Builder::new(ARCH, options).unwrap();
                for (number, object) in (0..).zip(&objects) {
                    // Each object has a shard. Shards may run in any order.
                    let mut shard = builder.shard();
                    let key_of = |field| object.key(number, field);
                    let count = shard.push_all(Parallel::keyed(&object.section(), pool, key_of), refuse);
                    assert_eq!(count, object.functions.iter().filter(|it| !it.is_dead).count() as u64);
                    builder.absorb(shard, pool).unwrap();
                }
                let section = builder.finish_with(Finish::on(pool));
                let written = layouts.each_ref().map(|starts| {
                    let mut bytes = vec![0; section.len()];
                    let address_of =
                        |key: Key| Address(starts[(key.0 >> 32) as usize][key.0 as u32 as usize]);
                    section.write(&mut bytes, At::on(TABLE, pool), address_of).unwrap();
                    bytes
                });
                tables.push(written);
            }
            assert!(tables.windows(2).all(|pair| pair[0] == pair[1]), "{options:?}: pools differ");
            for (starts, bytes) in layouts.iter().zip(&tables[0]) {
                check(&objects, starts, bytes, options);
            }
        }
    }
}

/// Compares a table with the linked CFI, and with the table that is made of functions with addresses.
fn check(objects: &[Object; 2], starts: &[Vec<u64>], bytes: &[u8], options: Options) {
    let addresses = [Address(0x600_0000), Address(0x700_0000)];
    let relocated = [0, 1].map(|number| objects[number].relocated(addresses[number], &starts[number]));
    let sections = [0, 1].map(|number| {
        let (bytes, excluded) = &relocated[number];
        Section::new(SectionKind::EhFrame, bytes, addresses[number], ARCH).with_excluded(excluded)
    });
    let tables = [cfipack_decoder::sframe::Section::parse(bytes, TABLE).unwrap()];
    let report = verify(&sections, &Table::new(&tables), &Default::default());
    let living = objects.iter().flat_map(|object| &object.functions).filter(|it| !it.is_dead).count() as u64;
    assert!(report.is_faultless(), "{options:?}: {:?}", report.differences.first());
    assert_eq!((report.equal, report.missing), (living, 0), "{options:?}");
    let mut builder = Builder::new(ARCH, options).unwrap();
    sections.iter().for_each(|section| {
        builder.push_all(Parallel::new(section, &Serial), refuse);
    });
    assert!(
        builder.finish().into_bytes(TABLE, Key::address).unwrap() == bytes,
        "{options:?}: placed differs"
    );
}

/// Anything that needs addresses is refused by name.
#[test]
fn what_needs_addresses_is_refused() {
    let object = Object::random(&mut Random::new(3), 2);
    let keyed = |field: SectionOffset| Some(Key(field.0 as u64));
    let reasons = |options, first: &dyn Fn(&mut Builder<'_>)| {
        let mut builder = Builder::new(ARCH, options).unwrap();
        first(&mut builder);
        let mut reasons = Vec::new();
        builder.push_all(Functions::keyed(&object.section(), keyed), |omitted| match omitted {
            OmittedFunction::Unsupported(unsupported) => reasons.push(unsupported.reason),
            OmittedFunction::Malformed(error) => panic!("{error}"),
        });
        reasons
    };
    let merging = Options::new().with_merge_functions(16);
    assert_eq!(reasons(merging, &|_| ()), [Reason::PlaceUnknown; 2]);
    assert_eq!(reasons(Options::default(), &|_| ()), []);

    // A builder gets functions with and without addresses, in both orders, and by shards.
    let mut builder = Builder::new(ARCH, Options::default()).unwrap();
    builder.push_all(Functions::keyed(&object.section(), keyed), refuse);
    let placed = Functions::new(&object.section()).next().unwrap().unwrap();
    assert_eq!(builder.push(&placed).unwrap_err().reason, Reason::KeysMixed);
    let mut other = builder.shard();
    other.push(&placed).unwrap();
    assert_eq!(builder.absorb(other, &Serial), Err(Reason::KeysMixed));

    // The address of this `DW_CFA_set_loc` is known only to a relocation.
    let mut writer = Writer::new(SectionKind::EhFrame, ARCH, Address(0));
    let cie = writer.cie(&Cie::new(ARCH, &[0x0c, 7, 8, 0x90, 1])).unwrap();
    writer.fde(&cie, Address(0), 64, None, &[0x01, 0, 0, 0, 0, 0x0e, 16]).unwrap();
    let section = writer.section();
    let function = Functions::keyed(&section, keyed).next().unwrap().unwrap();
    let mut builder = Builder::new(ARCH, Options::default()).unwrap();
    let refused = builder.push(&function).unwrap_err();
    assert_eq!((refused.function, refused.reason), (function.key, Reason::PlaceUnknown));
    assert_eq!((function.start, function.end()), (None, None));

    // Two functions turn out to share PCs.
    let mut builder = Builder::new(ARCH, Options::default()).unwrap();
    builder.push_all(Functions::keyed(&object.section(), keyed), refuse);
    let overlapping = builder.finish().into_bytes(TABLE, |key| Address(0x1000 + key.0 / 16));
    assert!(matches!(overlapping, Err(WriteError::Overlap { .. })), "{overlapping:?}");
}

/// Functions of one input section may share PCs, if their keys are as far apart as they are. The table is the table of
/// the same functions with addresses, wherever the sections are placed.
#[test]
fn keys_tell_functions_apart() {
    let random = &mut Random::new(21);
    let mut omitted = 0;
    for _ in 0..40 {
        let objects = [Object::random(random, 12), Object::random(random, 12)];
        let mut offsets = Vec::new();
        for object in &objects {
            // Some functions start where the one before starts, or within it.
            let distances =
                object.functions.iter().map(|it| [0, 8, it.size, it.size + 16][random.below(4) as usize]);
            let sum = |at: &mut u64, distance: u64| Some(core::mem::replace(at, *at + distance));
            offsets.push(distances.scan(0, sum).collect::<Vec<_>>());
        }
        let key_of = |number: usize, field| {
            let key = objects[number].key(number as u64, field)?;
            Some(Key((number as u64) << 32 | offsets[number][key.0 as u32 as usize]))
        };
        let keyed = || {
            let mut builder = Builder::new(ARCH, Options::default()).unwrap();
            for (number, object) in objects.iter().enumerate() {
                builder.push_all(Functions::keyed(&object.section(), |field| key_of(number, field)), refuse);
            }
            builder
        };
        let section = keyed().finish_with(Finish::on(&Serial).with_placed_keys(true));
        omitted += section.omitted().len();
        for bases in [[0x1000, 0x9000], [0x9000, 0x1000]] {
            let address_of = |key: Key| Address(bases[(key.0 >> 32) as usize] + u64::from(key.0 as u32));
            let mut bytes = vec![0; section.len()];
            section.write(&mut bytes, TABLE, address_of).unwrap();

            let eh_frame = Address(0x600_0000);
            let relocated = [0, 1].map(|number: usize| {
                let starts: Vec<_> = offsets[number].iter().map(|offset| bases[number] + offset).collect();
                objects[number].relocated(eh_frame, &starts)
            });
            let mut builder = Builder::new(ARCH, Options::default()).unwrap();
            for (bytes, excluded) in &relocated {
                let section = Section::new(SectionKind::EhFrame, bytes, eh_frame, ARCH);
                builder.push_all(Parallel::new(&section.with_excluded(excluded), &Serial), refuse);
            }
            let placed = builder.finish();
            assert_eq!(section.omitted().len(), placed.omitted().len());
            let placed = placed.into_bytes(TABLE, Key::address).unwrap();
            let tables =
                [&bytes, &placed].map(|it| cfipack_decoder::sframe::Section::parse(it, TABLE).unwrap());
            for pc in 0x1000..0xa000 {
                let [found, expected] = tables.each_ref().map(|it| it.lookup(Address(pc)).unwrap());
                // Starts of rows count from the function's start, which depends on how functions are cut.
                assert_eq!(
                    found.map(|row| (row.cfa, row.return_address)),
                    expected.map(|row| (row.cfa, row.return_address)),
                    "{pc:#x}"
                );
            }
            if bases[0] < bases[1] {
                assert!(bytes == placed);
            }
        }
    }
    assert!(omitted > 20, "{omitted}");
}
