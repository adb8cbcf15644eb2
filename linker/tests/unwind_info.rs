//! Several descriptions of a function: the table has the description that counts, as `cfipack-decoder` reads it.

use std::num::NonZeroU64;

use cfipack_decoder::unwind_info::Section as Read;
use cfipack_encoder::unwind_info::Options;
use cfipack_format::compact_unwind::{Encoding, Entry as Row};
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey, SectionOffset};
use cfipack_linker::unwind_info::{Addresses, Builder, Fde, Field, Input, Resolve, Section, Warning};

const ARCH: Arch = Arch::Amd64;
/// The distance from a function's key to its image offset in the output.
const TEXT: u32 = 0x1000;
/// The address of `__eh_frame` in an object.
const EH_FRAME: Address = Address(0x9000);

/// LSDAs with this key or a greater key have no address in the output.
const NO_LSDA: u32 = 0x8000;

const FIRST: Encoding = Encoding::frame(0, [0; 5]);
const SECOND: Encoding = Encoding::frameless(2, 0, 0);
const THIRD: Encoding = Encoding::frameless(3, 0, 0);

/// Each field leads to the key that it stores. The functions in the list are dead.
struct Places<'d>(&'d [u64]);

impl Resolve for Places<'_> {
    fn function(&mut self, field: Field) -> Option<Key> {
        let place = field.target?.0;
        (!self.0.contains(&place)).then_some(Key(place))
    }

    fn personality(&mut self, field: Field) -> Option<PersonalityKey> {
        Some(PersonalityKey(field.target?.0))
    }

    fn lsda(&mut self, field: Field) -> Option<LsdaKey> {
        NonZeroU64::new(field.target?.0).map(LsdaKey)
    }
}

struct Output;

impl Addresses for Output {
    fn function(&self, key: Key) -> Option<ImageOffset> {
        Some(ImageOffset(TEXT + key.0 as u32))
    }

    fn lsda(&self, lsda: LsdaKey) -> Option<ImageOffset> {
        (lsda.0.get() < u64::from(NO_LSDA)).then_some(ImageOffset(lsda.0.get() as u32))
    }

    fn fde(&self, fde: Fde) -> Option<u32> {
        Some(0x100 * (fde.object + 1) + fde.offset.0 as u32)
    }
}

fn row(function: u64, encoding: Encoding) -> Vec<u8> {
    with_personality(function, encoding, 0)
}

fn with_personality(function: u64, encoding: Encoding, personality: u64) -> Vec<u8> {
    Row { function, length: 0x10, encoding, personality, ..Row::default() }.write(8).to_vec()
}

fn dwarf() -> Encoding {
    Encoding::dwarf(ARCH, 0)
}

/// Returns an `__eh_frame` with a CIE of 0x18 bytes, and an FDE of 0x20 bytes for each of these functions.
fn eh_frame(functions: &[u64]) -> Vec<u8> {
    let mut bytes =
        vec![0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1, 0, 0];
    for function in functions {
        bytes.extend(0x1c_u32.to_le_bytes());
        bytes.extend((bytes.len() as u32).to_le_bytes());
        bytes.extend(function.to_le_bytes());
        bytes.extend(0x10_u64.to_le_bytes());
        bytes.extend([0; 8]);
    }
    bytes
}

fn fde(object: u32, number: usize) -> Fde {
    Fde { object, offset: SectionOffset(0x18 + 0x20 * number) }
}

fn builder() -> Builder {
    Builder::new(ARCH, Options::default()).expect("an architecture of the format")
}

/// Builds the section from the rows and FDEs of objects.
fn linked(objects: &[(Vec<u8>, Vec<u8>)], dead: &[u64]) -> Section {
    let mut builder = builder();
    for ((rows, eh_frame), number) in objects.iter().zip(0..) {
        let input = Input::new(number).with_compact_unwind(rows).with_eh_frame(eh_frame, EH_FRAME);
        builder.push(&input, &mut Places(dead));
    }
    builder.finish()
}

fn bytes(section: &Section) -> Vec<u8> {
    let table = section.place(None, None, &Output).expect("a small table");
    assert!(table.warnings().is_empty(), "{:?}", table.warnings());
    let mut out = vec![0; table.len()];
    table.write(&mut out, |personality| ImageOffset(0x4000 + personality.0 as u32)).expect("room");
    out
}

/// Returns the start of each entry, counted from `TEXT`, and its encoding without a personality.
fn entries(section: &Section) -> Vec<(u32, Encoding)> {
    let bytes = bytes(section);
    let read = Read::parse(&bytes).expect("a table");
    let entries = read.entries().map(|entry| entry.expect("an entry"));
    entries.map(|entry| (entry.start.0 - TEXT, entry.encoding.with_personality(0))).collect()
}

#[test]
fn of_an_objects_rows_the_last_that_is_not_in_dwarf_mode_counts() {
    // Rows are not in order, and some functions have several rows.
    let rows = [
        row(0x40, THIRD),
        row(0x20, FIRST),
        row(0x20, SECOND),
        row(0x20, dwarf()),
        row(0x20, Encoding::NONE),
        row(0, dwarf()),
        row(0, Encoding::NONE),
    ];
    let section = linked(&[(rows.concat(), eh_frame(&[0, 0x20]))], &[]);
    assert_eq!(section.warnings(), []);
    let in_dwarf_mode = Encoding::dwarf(ARCH, 0x118);
    assert_eq!(entries(&section), [(0, in_dwarf_mode), (0x20, SECOND), (0x40, THIRD)]);
    // The function at 0x20 does not need its FDE.
    assert_eq!(section.fdes().collect::<Vec<_>>(), [(Key(0), fde(0, 0))]);
}

#[test]
fn of_several_objects_the_first_that_describes_a_function_counts() {
    let objects = [
        (row(0x20, Encoding::NONE), Vec::new()),
        (row(0x20, FIRST), eh_frame(&[0x40])),
        ([row(0, SECOND), row(0x20, THIRD), row(0x40, THIRD)].concat(), Vec::new()),
    ];
    let section = linked(&objects, &[]);
    assert_eq!(section.warnings(), []);
    let of_fde = Encoding::dwarf(ARCH, 0x218);
    assert_eq!(entries(&section), [(0, SECOND), (0x20, FIRST), (0x40, of_fde)]);
    // A dead function has no entry, neither from a row nor from an FDE.
    let section = linked(&objects, &[0x20, 0x40]);
    assert_eq!(entries(&section), [(0, SECOND)]);
    assert_eq!(section.fdes().count(), 0);
}

#[test]
fn functions_without_unwind_information_end_the_entries_before_them() {
    let mut builder = builder();
    builder.push(&Input::new(0).with_compact_unwind(&row(0, FIRST)), &mut Places(&[]));
    builder.push_code(Key(0x10), 0x10);
    builder.push(&Input::new(1).with_compact_unwind(&row(0x20, FIRST)), &mut Places(&[]));
    let none = Encoding::NONE;
    assert_eq!(entries(&builder.clone().finish()), [(0, FIRST), (0x10, none), (0x20, FIRST)]);
    // A row takes precedence over code without unwind information.
    builder.push(&Input::new(2).with_compact_unwind(&row(0x10, SECOND)), &mut Places(&[]));
    assert_eq!(entries(&builder.finish()), [(0, FIRST), (0x10, SECOND), (0x20, FIRST)]);
}

#[test]
fn what_cannot_be_taken_is_named() {
    let rows = [row(0, FIRST), row(0x20, dwarf()), vec![1; 5]].concat();
    let mut damaged = eh_frame(&[0x40]);
    damaged[0x18 + 4] = 0x77; // the CIE pointer
    let section = linked(&[(rows, damaged)], &[]);
    let (object, function) = (0, Key(0x20));
    let found = section.warnings();
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], Warning::IncompleteRow { object, offset: SectionOffset(64), bytes: 5 });
    assert!(matches!(found[1], Warning::Cfi { object: 0, .. }), "{found:?}");
    assert_eq!(found[2], Warning::NoFde { function });
    assert_eq!(entries(&section), [(0, FIRST), (0x20, Encoding::NONE)]);
}

#[test]
fn three_personalities_that_functions_need_most_are_named() {
    // Two functions use 0xa, but they have FDEs. 0xb, 0xc and 0xd each have one function without an FDE.
    let rows = [
        with_personality(0, FIRST, 0xa),
        with_personality(0x10, FIRST, 0xa),
        with_personality(0x20, FIRST, 0xb),
        with_personality(0x30, FIRST, 0xc),
        with_personality(0x40, FIRST, 0xd),
    ]
    .concat();
    let section = linked(&[(rows.clone(), eh_frame(&[0, 0x10]))], &[]);
    let named: Vec<_> = section.personalities().map(|key| key.0).collect();
    assert_eq!(named, [0xb, 0xc, 0xd]);
    let warning = |function, personality, fde| Warning::PersonalityOverflow {
        function: Key(function),
        personality: PersonalityKey(personality),
        fde,
    };
    assert_eq!(section.warnings(), [warning(0, 0xa, Some(fde(0, 0))), warning(0x10, 0xa, Some(fde(0, 1)))]);
    assert_eq!(section.fdes().count(), 2);
    let (first, second) = (Encoding::dwarf(ARCH, 0x118), Encoding::dwarf(ARCH, 0x138));
    assert_eq!(entries(&section)[..2], [(0, first), (0x10, second)]);
    // Without FDEs, 0xa stays because two functions use it, and the last personality is dropped.
    let section = linked(&[(rows, Vec::new())], &[]);
    assert_eq!(section.personalities().map(|key| key.0).collect::<Vec<_>>(), [0xa, 0xb, 0xc]);
    assert_eq!(section.warnings(), [warning(0x40, 0xd, None)]);
    assert_eq!(entries(&section).last(), Some(&(0x40, Encoding::NONE)));
}

#[test]
fn lsdas_are_found_by_function() {
    let with_lsda = |function, lsda| {
        Row { function, length: 0x10, encoding: FIRST, lsda, ..Row::default() }.write(8).to_vec()
    };
    let rows = [with_lsda(0, 0x700), with_lsda(0x10, NO_LSDA.into()), with_lsda(0x20, 0x500)].concat();
    let section = linked(&[(rows, Vec::new())], &[]);
    let table = section.place(None, None, &Output).expect("a small table");
    let lsda = LsdaKey(NonZeroU64::new(NO_LSDA.into()).expect("not 0"));
    assert_eq!(table.warnings(), [Warning::LsdaUnaddressed { lsda }]);
    let mut out = vec![0; table.len()];
    table.write(&mut out, |_| unreachable!("no personality")).expect("room");
    let read = Read::parse(&out).expect("a table");
    let entries: Vec<_> = read.entries().map(|entry| entry.expect("an entry")).collect();
    let lsdas: Vec<_> =
        entries.iter().map(|entry| read.lsda(entry).expect("an index").map(|at| at.0)).collect();
    assert_eq!(lsdas, [Some(0x700), None, Some(0x500)]);
}

#[test]
fn shards_give_the_table_of_one_builder() {
    let objects: Vec<Vec<u8>> = (0..6)
        .map(|object| {
            let personality = if object % 2 == 0 { 0xb } else { 0xa };
            let rows =
                [row(0x100 * object, FIRST), with_personality(0x100 * object + 0x10, SECOND, personality)];
            [rows.concat(), vec![0; object as usize % 2]].concat()
        })
        .collect();
    let push = |builder: &mut Builder, number: usize| {
        let input = Input::new(number as u32).with_compact_unwind(&objects[number]);
        builder.push(&input, &mut Places(&[]));
    };
    let mut whole = builder();
    (0..6).for_each(|number| push(&mut whole, number));
    let mut parts = builder();
    for numbers in [0..1, 1..4, 4..6] {
        let mut shard = parts.shard();
        numbers.for_each(|number| push(&mut shard, number));
        parts.absorb(shard);
    }
    let (whole, parts) = (whole.finish(), parts.finish());
    assert_eq!(whole.warnings().len(), 3);
    assert_eq!(parts.warnings(), whole.warnings());
    assert_eq!(bytes(&parts), bytes(&whole));
    // Each function has the pointer slot of its personality.
    let bytes = bytes(&whole);
    let read = Read::parse(&bytes).expect("a table");
    let slots =
        read.entries().map(|entry| read.personality(&entry.expect("an entry")).expect("one that is there"));
    let slots: Vec<_> = slots.flatten().map(|slot| slot.0 - 0x4000).collect();
    assert_eq!(slots, [0xb, 0xa, 0xb, 0xa, 0xb, 0xa]);
}
