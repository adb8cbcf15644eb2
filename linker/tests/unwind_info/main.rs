//! Tests the linker's `__unwind_info` for functions that are dead, folded, described twice or not at all, and for too
//! many personalities. macho-unwind-info reads the tables.

mod unlinked;

use cfipack_encoder::unwind_info::{Layout, Options};
use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Address, Arch, ImageOffset, Key, LsdaKey, PersonalityKey, SectionOffset};
use cfipack_linker::unwind_info::{Builder, Fde, Input, Section, Warning};
use macho_unwind_info::UnwindInfo;
use unlinked::{EH_FRAME, Moved, NO_LSDA, Unlinked, key};

const FRAME: u32 = 0x0100_0000;
const DWARF: u32 = 0x0400_0000;
const LSDA: u32 = 0x4000_0000;
const NOTHING: u32 = 0;

fn builder(layout: Layout) -> Builder {
    Builder::new(Arch::Amd64, Options::new().with_layout(layout)).unwrap()
}

fn section(objects: &mut [Unlinked]) -> Section {
    let mut builder = builder(Layout::Small);
    objects.iter_mut().for_each(|object| object.push(&mut builder));
    builder.finish()
}

/// Returns starts and encodings, as macho-unwind-info reads them, and the warnings.
fn table(section: &Section, addresses: &Moved) -> (Vec<(u32, u32)>, Vec<Warning>) {
    let table = section.place(None, None, addresses).unwrap();
    assert!(table.len() <= section.max_len());
    // If there is more room than the table needs, the rest is zero.
    let mut bytes = vec![0xaa; table.len() + 5];
    table.write(&mut bytes, |personality| ImageOffset(0x8000 + 8 * personality.0 as u32)).unwrap();
    assert_eq!(bytes[table.len()..], [0; 5]);
    let mut found = Vec::new();
    if !table.is_empty() {
        let table = UnwindInfo::parse(&bytes).unwrap();
        let mut functions = table.functions();
        while let Some(function) = functions.next().unwrap() {
            found.push((function.start_address, function.opcode));
        }
    }
    (found, table.warnings().to_vec())
}

#[test]
fn rows_fdes_and_nothing() {
    let mut object = Unlinked::new(0);
    object.row(0x100, 0x10, FRAME, 0, 0);
    object.row(0x110, 0x10, DWARF, 0, 0);
    object.row(0x120, 0x10, DWARF, 0, 0);
    // 0x100 has a row and an FDE, 0x110 a row in DWARF mode, 0x130 only an FDE, and 0x120 only a row.
    object.fdes(0, &[(0x100, 0x10, 0), (0x110, 0x10, 0), (0x130, 0x10, 0)]);
    let section = section(&mut [object]);
    assert_eq!(section.warnings(), [Warning::NoFde { function: key(0, 0x120) }]);
    let fdes: Vec<_> = section.fdes().map(|(function, fde)| (function.0, fde.offset.0)).collect();
    let [second, third] = [fdes[0].1, fdes[1].1];
    assert_eq!(fdes, [(0x110, second), (0x130, third)]);
    assert!(0 < second && second < third);
    let (entries, warnings) = table(&section, &Moved::default());
    let expected =
        [(0x100, FRAME), (0x110, DWARF | second as u32), (0x120, NOTHING), (0x130, DWARF | third as u32)];
    assert_eq!((entries, warnings), (expected.to_vec(), vec![]));
    // The places of FDEs are asked for again. One FDE is gone, and another is out of reach.
    let [second, third] = [second, third].map(|offset| Fde { object: 0, offset: SectionOffset(offset) });
    let fdes = [(second, None), (third, Some(0x0100_0000))].into();
    let (entries, warnings) = table(&section, &Moved { fdes, ..Moved::default() });
    assert_eq!(entries, [(0x100, FRAME), (0x110, NOTHING), (0x130, DWARF)]);
    let expected = [
        Warning::FdeUnplaced { function: key(0, 0x110), fde: second },
        Warning::FdeOutOfReach { function: key(0, 0x130), fde: third, offset: 0x0100_0000 },
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn dead_and_folded_functions() {
    let [mut first, mut second] = [Unlinked::new(0), Unlinked::new(1)];
    for object in [&mut first, &mut second] {
        object.row(0x100, 0x10, FRAME, 0, 0);
        object.row(0x110, 0x10, 0x0201_0000, 0, 0);
        object.row(0x120, 0x10, 0x0202_0000, 0, 0);
        object.fdes(0, &[(0x130, 0x10, 0)]);
    }
    // In the second object 0x110 and 0x130 are dead, and 0x120 was folded into the first object's function.
    second.dead.extend([0x110, 0x130]);
    second.folded.insert(0x120, key(0, 0x120));
    second.rows[2 * 32 + 12] = 0xff;
    let section = section(&mut [first, second]);
    let apart = Moved { apart: 0x1000, ..Moved::default() };
    let fde = DWARF | section.fdes().next().unwrap().1.offset.0 as u32;
    let expected =
        [(0x100, FRAME), (0x110, 0x0201_0000), (0x120, 0x0202_0000), (0x130, fde), (0x1100, FRAME)];
    assert_eq!(table(&section, &apart).0, expected);
    // Functions that are folded only by address: the first one that is not empty counts.
    let functions = [(key(1, 0x100), Some(0x110)), (key(0, 0x130), None)].into();
    let (entries, warnings) = table(&section, &Moved { functions, ..apart });
    assert_eq!(entries, [(0x100, FRAME), (0x110, 0x0201_0000), (0x120, 0x0202_0000)]);
    assert_eq!(warnings, [Warning::Unaddressed { function: key(0, 0x130) }]);
}

#[test]
fn an_empty_function_hides_none() {
    let mut object = Unlinked::new(0);
    object.row(0x100, 0, FRAME, 0, 0);
    object.row(0x110, 0x10, 0x0201_0000, 0, 0);
    let mut builder = builder(Layout::Small);
    object.push(&mut builder);
    builder.push_code(key(0, 0x110), 0);
    builder.push_code(key(0, 0x120), 4);
    let functions = [(key(0, 0x100), Some(0x110))].into();
    let (entries, _) = table(&builder.finish(), &Moved { functions, ..Moved::default() });
    assert_eq!(entries, [(0x110, 0x0201_0000), (0x120, NOTHING)]);
}

/// A label or an alternative entry is no hole, unless the bytes are those of ld64.lld.
#[test]
fn a_symbol_inside_a_function_is_no_hole() {
    for (layout, end) in [(Layout::Small, 0x120), (Layout::Lld, 0x118)] {
        let mut object = Unlinked::new(0);
        object.row(0x110, 0x10, 0x0201_0000, 0, 0);
        let mut builder = builder(layout);
        object.push(&mut builder);
        for symbol in [0x108, 0x118, 0x120] {
            builder.push_code(key(0, symbol), 0);
        }
        let (entries, _) = table(&builder.finish(), &Moved::default());
        assert_eq!(entries, [(0x108, NOTHING), (0x110, 0x0201_0000), (end, NOTHING)]);
    }
}

/// The functions of the object that comes first lie after those of the other object.
#[test]
fn a_symbol_is_inside_a_function_in_any_order_of_objects() {
    let mut builder = builder(Layout::Small);
    for number in [1, 0] {
        let mut object = Unlinked::new(number);
        object.row(0x110, 0x10, 0x0201_0000, 0, 0);
        object.push(&mut builder);
        builder.push_code(key(number, 0x118), 0);
        builder.push_code(key(number, 0x120), 0);
    }
    let (entries, _) = table(&builder.finish(), &Moved { apart: 0x1000, ..Moved::default() });
    let expected = [(0x110, 0x0201_0000), (0x120, NOTHING), (0x1110, 0x0201_0000), (0x1120, NOTHING)];
    assert_eq!(entries, expected);
}

/// The format has encodings for x86 and little-endian AArch64, as `<mach-o/compact_unwind_encoding.h>` lists them.
#[test]
fn other_architectures_are_refused() {
    let is_refused = |arch| Builder::new(arch, Options::new()).is_err();
    assert_eq!([Arch::S390x, Arch::Aarch64Be].map(is_refused), [true, true]);
    assert_eq!([Arch::Amd64, Arch::Aarch64, Arch::I386].map(is_refused), [false; 3]);
}

#[test]
fn which_of_several_rows_counts() {
    let mut object = Unlinked::new(0);
    object.row(0x110, 0x10, 0x0201_0000, 0, 0);
    object.row(0x100, 0x10, 0x0202_0000, 0, 0);
    object.row(0x100, 0x10, FRAME, 0, 0);
    object.row(0x100, 0x10, DWARF, 0, 0);
    object.row(0x100, 0x10, NOTHING, 0, 0);
    let mut later = Unlinked::new(1);
    later.row(0x200, 0x10, 0x0203_0000, 0, 0);
    later.folded.insert(0x200, key(0, 0x110));
    let section = section(&mut [object, later]);
    assert_eq!(table(&section, &Moved::default()).0, [(0x100, FRAME), (0x110, 0x0201_0000)]);
}

#[test]
fn of_several_objects_the_first_that_describes_a_function_counts() {
    let mut objects = [0, 1, 2].map(Unlinked::new);
    for object in &mut objects[1..] {
        object.folded.extend([0x110, 0x120].map(|function| (function, key(0, function))));
    }
    let [first, second, third] = &mut objects;
    first.row(0x110, 0x10, NOTHING, 0, 0);
    second.row(0x110, 0x10, FRAME, 0, 0);
    second.fdes(0, &[(0x120, 0x10, 0)]);
    third.row(0x110, 0x10, 0x0201_0000, 0, 0);
    third.row(0x120, 0x10, 0x0201_0000, 0, 0);
    let section = section(&mut objects);
    let fde = section.fdes().next().unwrap().1;
    let addresses = Moved { fdes: [(fde, Some(0x118))].into(), ..Moved::default() };
    assert_eq!(table(&section, &addresses).0, [(0x110, FRAME), (0x120, DWARF | 0x118)]);
}

#[test]
fn a_row_counts_before_code_without_unwind_information() {
    let mut object = Unlinked::new(0);
    object.row(0x100, 0x10, FRAME, 0, 0);
    object.row(0x120, 0x10, FRAME, 0, 0);
    let mut builder = builder(Layout::Small);
    object.push(&mut builder);
    builder.push_code(key(0, 0x110), 0x10);
    let entries = |builder: &Builder| table(&builder.clone().finish(), &Moved::default()).0;
    assert_eq!(entries(&builder), [(0x100, FRAME), (0x110, NOTHING), (0x120, FRAME)]);
    let mut later = Unlinked::new(0);
    later.row(0x110, 0x10, 0x0201_0000, 0, 0);
    later.push(&mut builder);
    assert_eq!(entries(&builder), [(0x100, FRAME), (0x110, 0x0201_0000), (0x120, FRAME)]);
}

#[test]
fn an_lsda_without_an_address_is_named() {
    let mut object = Unlinked::new(0);
    for (function, lsda) in [(0x100, 0x700), (0x110, NO_LSDA), (0x120, 0x500)] {
        object.row(function, 0x10, FRAME | LSDA, 0, lsda);
    }
    let section = section(&mut [object]);
    let placed = section.place(None, None, &Moved::default()).unwrap();
    let lsda = LsdaKey::new(NO_LSDA).unwrap();
    assert_eq!(placed.warnings(), [Warning::LsdaUnaddressed { lsda }]);
    let mut bytes = vec![0; placed.len()];
    placed.write(&mut bytes, |_| unreachable!("no personality")).unwrap();
    let read = cfipack_decoder::unwind_info::Section::parse(&bytes).unwrap();
    let lsdas: Vec<_> =
        read.entries().map(|entry| read.lsda(&entry.unwrap()).unwrap().map(|at| at.0)).collect();
    assert_eq!(lsdas, [Some(0x700), None, Some(0x500)]);
}

/// Of five personalities, three stay. Of the functions with the other two, one has no FDE.
#[test]
fn five_personalities() {
    for layout in Layout::ALL {
        let mut object = Unlinked::new(0);
        let mut fdes = Vec::new();
        let uses = [2, 1, 7, 2, 3];
        for at in 0..15_u64 {
            let personality = (0..5).find(|&number| at < uses[..=number].iter().sum()).unwrap() as u64 + 0x51;
            let (start, lsda) = (0x100 + 0x10 * at, 0x900 + 4 * at);
            object.row(start, 0x10, FRAME | LSDA, personality, lsda);
            if start != 0x1a0 {
                fdes.push((start, 0x10, lsda));
            }
        }
        object.fdes(0x51, &fdes);
        let mut builder = builder(layout);
        object.push(&mut builder);
        let section = builder.finish();
        // 0x52 is used once. 0x54 is used twice, once by a function without FDE, which therefore keeps 0x54.
        let fell_back: Vec<_> = section
            .warnings()
            .iter()
            .map(|warning| match warning {
                Warning::PersonalityOverflow { function, personality, fde: Some(_) } => {
                    (function.0, personality.0)
                }
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(fell_back, [(0x100, 0x51), (0x110, 0x51), (0x120, 0x52)]);
        let named: Vec<_> = section.personalities().map(|personality| personality.0).collect();
        let mut sorted = named.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0x53, 0x54, 0x55], "{layout:?}");
        let plan = section.plan(|key| Some(key.image_offset()), 0x1000).unwrap();
        let placed = section.place(Some(&plan), None, &Moved::default()).unwrap();
        assert!(placed.len() <= plan.max_len());
        let mut bytes = vec![0; placed.len()];
        placed.write(&mut bytes, |personality| ImageOffset(0x8000 + 8 * personality.0 as u32)).unwrap();
        let read = cfipack_decoder::unwind_info::Section::parse(&bytes).unwrap();
        let fdes: std::collections::HashMap<Key, Fde> = section.fdes().collect();
        for entry in read.entries().map(Result::unwrap) {
            let function = Key(entry.start.0.into());
            if let Some(fde) = fdes.get(&function) {
                assert_eq!(entry.encoding.dwarf_offset() as usize, fde.offset.0, "{layout:?}");
                continue;
            }
            // Each other function has its own personality and LSDA.
            let at = (entry.start.0 - 0x100) / 0x10;
            let personality = (0..5).find(|&number| u64::from(at) < uses[..=number].iter().sum()).unwrap();
            let slot = ImageOffset(0x8000 + 8 * (personality as u32 + 0x51));
            assert_eq!(read.personality(&entry).unwrap(), Some(slot), "{layout:?}");
            assert_eq!(read.lsda(&entry).unwrap(), Some(ImageOffset(0x900 + 4 * at)), "{layout:?}");
        }
    }
}

/// Without FDEs, functions with the least used personalities are reported and get no unwind information.
#[test]
fn personalities_without_fdes() {
    let mut object = Unlinked::new(0);
    for at in 0..9_u64 {
        object.row(0x100 + 0x10 * at, 0x10, FRAME, 1 + at / 2, 0);
    }
    let section = section(&mut [object]);
    let named = |(at, personality)| Warning::PersonalityOverflow {
        function: key(0, at),
        personality: PersonalityKey(personality),
        fde: None,
    };
    assert_eq!(section.warnings(), [(0x160, 4), (0x170, 4), (0x180, 5)].map(named));
    let (entries, _) = table(&section, &Moved::default());
    let personality = |number: u32| FRAME | number << 28;
    let expected =
        [(0x100, personality(1)), (0x120, personality(2)), (0x140, personality(3)), (0x160, NOTHING)];
    assert_eq!(entries, expected);
}

/// Shards, absorbed in the order of objects, make the same table, even if each meets personalities in another order. A
/// section makes the same table each time.
#[test]
fn shards_and_relayouts() {
    let mut objects: Vec<_> = (0..4).map(Unlinked::new).collect();
    for (object, number) in objects.iter_mut().zip(0_u64..) {
        for at in 0..20 {
            object.row(0x100 + 0x10 * at, 0x10, FRAME | (at % 5) as u32, 1 + (at + number) % 3, 0);
        }
        object.fdes(2, &[(0x300, 0x10, 0x5000)]);
        // This object's last row is incomplete.
        object.rows.extend([1; 9]);
    }
    let whole = section(&mut objects);
    let mut sharded = builder(Layout::Small);
    for object in &mut objects {
        let mut shard = sharded.shard();
        object.push(&mut shard);
        sharded.absorb(shard);
    }
    let sharded = sharded.finish();
    assert_eq!((sharded.warnings(), whole.warnings().len()), (whole.warnings(), 4));
    let tables: Vec<_> = [0x1000, 0x4000, 0x1000]
        .into_iter()
        .map(|apart| {
            let moved = Moved { apart, ..Moved::default() };
            assert_eq!(table(&whole, &moved), table(&sharded, &moved));
            table(&whole, &moved)
        })
        .collect();
    assert_eq!(tables[0], tables[2]);
    assert_ne!(tables[0], tables[1]);
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut object = Unlinked::new(7);
    object.row(0x100, 0x10, FRAME, 0, 0);
    object.rows.extend([1; 9]);
    object.fdes(0, &[(0x110, 0x10, 0), (0x120, 0x10, 0)]);
    let first = 4 + u32::from_le_bytes(object.eh_frame[..4].try_into().unwrap()) as usize;
    // Damages the CIE pointer of the first FDE.
    object.eh_frame[first + 4] ^= 0x40;
    let section = section(&mut [object]);
    let [Warning::IncompleteRow { object: 7, offset: SectionOffset(32), bytes: 9 }, cfi] = section.warnings()
    else {
        panic!("{:?}", section.warnings())
    };
    assert!(cfi.to_string().starts_with("object 7: __eh_frame: "), "{cfi}");
    let (entries, _) = table(&section, &Moved::default());
    assert_eq!(entries.iter().map(|entry| entry.0).collect::<Vec<_>>(), [0x100, 0x120]);
}

/// Checks the arguments of the trait's methods.
#[test]
fn fields_carry_their_targets() {
    struct Asked(Vec<(usize, Option<u64>)>);
    impl cfipack_linker::unwind_info::Resolve for Asked {
        fn function(&mut self, field: cfipack_linker::unwind_info::Field) -> Option<Key> {
            self.0.push((field.offset.0, field.target.map(|target| target.0)));
            Some(Key(0x100))
        }
        fn personality(&mut self, field: cfipack_linker::unwind_info::Field) -> Option<PersonalityKey> {
            self.0.push((field.offset.0, field.target.map(|target| target.0)));
            None
        }
        fn lsda(&mut self, field: cfipack_linker::unwind_info::Field) -> Option<LsdaKey> {
            self.0.push((field.offset.0, field.target.map(|target| target.0)));
            None
        }
    }
    let mut object = Unlinked::new(0);
    object.row(0, 0x10, FRAME, 0, 0x40);
    object.fdes(0x77, &[(0x110, 0x10, 0x900)]);
    let mut asked = Asked(Vec::new());
    let mut builder = builder(Layout::Small);
    let input = Input::new(0).with_compact_unwind(&object.rows).with_eh_frame(&object.eh_frame, EH_FRAME);
    builder.push(&input, &mut asked);
    let cie = 4 + u32::from_le_bytes(object.eh_frame[..4].try_into().unwrap()) as usize;
    let fde = [(cie + 8, Some(0x110)), (19, Some(0x77)), (cie + 25, Some(0x900))];
    let row = [(0, Some(0)), (16, None), (24, Some(0x40))];
    assert_eq!(asked.0, [row, fde].concat());
    assert_eq!(EH_FRAME, Address(0x10_0000));
    assert_eq!(Encoding(FRAME).mode_number(), 1);
}
