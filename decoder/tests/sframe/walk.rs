//! Walks over stacks that are laid out by hand according to the ABIs, with given rows.

use std::cell::Cell;

use cfipack_decoder::sframe::{Error, Frame, Registers, Section};
use cfipack_decoder::walk::{
    AddressSpace, Cache, CacheEntry, End, FoundBy, Generation, Module, Modules, ModulesError, StackFrame,
    Walk,
};
use cfipack_format::{Address, Arch};

/// A table at 0x2000 with a function of 0x100 bytes at 0x1000: from 0, CFA = sp + 8.
const NO_FRAME: [u8; 52] = table(3, 8);
/// The same table with CFA = sp + 24.
const LARGER: [u8; 52] = table(3, 24);

/// Returns a table of version 3 for x86-64 with one row: its info byte, and the CFA's offset.
const fn table(info: u8, offset: u8) -> [u8; 52] {
    [
        0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0,
        0, // header
        0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, // index
        1, 0, 0, 0, 0, 0, info, offset, // one row, of a function of 0x100 bytes
    ]
}

fn section(table: &[u8]) -> Section<'_> {
    Section::parse(table, Address(0x2000)).expect("a table by the format's document")
}

/// Returns a memory with these words from an address on.
fn words(start: u64, words: &[u64]) -> impl FnMut(Address) -> Option<u64> {
    move |address| {
        let offset = address.0.checked_sub(start).filter(|offset| offset % 8 == 0)?;
        words.get(usize::try_from(offset / 8).ok()?).copied()
    }
}

fn walk<S: AddressSpace, M: FnMut(Address) -> Option<u64>>(
    mut walk: Walk<'_, '_, S, M>,
) -> (Vec<(u64, u64, FoundBy)>, End) {
    let frames = walk.by_ref().map(|frame| (frame.pc.0, frame.sp, frame.found_by)).collect();
    (frames, walk.end().expect("the walk is over"))
}

fn registers(sp: u64, fp: u64) -> Registers<'static> {
    Registers { sp, fp: Some(fp), lr: None, others: &[] }
}

/// 0x5005 has no table and calls 0x1010. Its caller is 0x5105, whose frame pointer leads to zeros.
const STACK: [u64; 8] = [0x5005, 0, 0, 0x7030, 0x5105, 0, 0, 0];

#[test]
fn frame_pointers_lead_through_code_without_a_table() {
    let modules = [
        Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&NO_FRAME)),
        Module::new(Address(0x5000)..Address(0x6000), 0),
    ];
    let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
    let at = |fp| Walk::new(&modules, Address(0x1010), registers(0x7000, fp), words(0x7000, &STACK));
    let (first, second) = ((0x1010, 0x7000, FoundBy::Registers), (0x5005, 0x7008, FoundBy::Table));
    let third = (0x5105, 0x7028, FoundBy::FramePointer);
    // The frame pointer of 0x5105 is 0x7030, which leads to a return address of 0.
    assert_eq!(walk(at(0x7018)), (vec![first, second, third], End::Null));
    // Misaligned, below the stack pointer, beyond the memory, at words that are not code, and at a word of 0.
    for fp in [0x7019, 0x6ff8, 0x7000, 0x7010, 0x7038, 0x8000, u64::MAX - 7, 0x7008] {
        let end = if fp == 0x7008 { End::Null } else { End::NoRow };
        assert_eq!(walk(at(fp)), (vec![first, second], end), "{fp:#x}");
    }
    assert_eq!(walk(at(0)), (vec![first, second], End::Null));
    assert_eq!(walk(at(0x7018).with_frame_pointers(false)), (vec![first, second], End::NoRow));
    // The frame lies outside the bounds of the stack.
    let bounded = at(0x7018).with_stack(Address(0x7000)..Address(0x7020));
    assert_eq!(walk(bounded), (vec![first, second], End::NoRow));
    // In the innermost frame, the frame pointer may have any value, also 0.
    let innermost = Walk::new(&modules, Address(0x5005), registers(0x7000, 0), words(0x7000, &STACK));
    assert_eq!(walk(innermost).1, End::NoRow);
}

#[test]
fn stacks_end_where_they_start() {
    let starts = [Address(0x1000)..Address(0x1020)];
    let table = section(&NO_FRAME);
    let module = || Module::new(Address(0x9000)..Address(0xa000), 0x8000).with_table(table);
    let stack = [0x9041, 0x9011, 0x9051, 0x9061, 0];
    let ends = |module: Module<'_, '_>, pc| {
        let modules = [module];
        let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
        let (frames, end) =
            walk(Walk::new(&modules, Address(pc), registers(0x7000, 0), words(0x7000, &stack)));
        (frames.len(), end)
    };
    assert_eq!(ends(module(), 0x9030), (5, End::Null));
    assert_eq!(ends(module().with_starts(&starts), 0x9030), (3, End::Start));
    assert_eq!(ends(module().with_switches(&starts), 0x9030), (3, End::Start));
    // If a function that switches stacks is the innermost frame, it has a caller.
    assert_eq!(ends(module().with_starts(&starts), 0x9010), (1, End::Start));
    assert_eq!(ends(module().with_switches(&starts), 0x9010), (3, End::Start));
}

#[test]
fn the_stack_pointer_rises() {
    // CFA = fp + 16, and the frame pointers lead back to the same frame.
    let bytes = table(2, 16);
    let modules = [Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&bytes))];
    let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
    let stack = [0x1020, 0x1020, 0x1020, 0x1020];
    let at = Walk::new(&modules, Address(0x1010), registers(0x7010, 0x7000), words(0x7000, &stack));
    assert_eq!(walk(at), (vec![(0x1010, 0x7010, FoundBy::Registers)], End::NotRising));
}

#[test]
fn aarch64_leaves_its_leaf_by_the_link_register() {
    // Version 3, one function of 0x100 bytes at 0x1000: CFA = sp + 0, the return address in the link register.
    let mut bytes = table(3, 0);
    (bytes[4], bytes[6]) = (2, 0);
    let modules = [
        Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&bytes)),
        Module::new(Address(0x5000)..Address(0x6000), 0),
    ];
    let modules = Modules::new(Arch::Aarch64, &modules[..]).unwrap();
    // The caller has no table. Its frame record leads to 0x1050, with a signed return address. The stack
    // pointer there is not exactly known, so the row of 0x1050, which needs the stack pointer, is not used.
    let stack = [0, 0, 0x7040, 0x0042_0000_0000_1050, 0, 0, 0, 0, 0, 0x5088];
    let registers = Registers { sp: 0x7000, fp: Some(0x7010), lr: Some(0x5004), others: &[] };
    let at = Walk::new(&modules, Address(0x1010), registers, words(0x7000, &stack));
    let frames = vec![
        (0x1010, 0x7000, FoundBy::Registers),
        (0x5004, 0x7000, FoundBy::Table),
        (0x1050, 0x7020, FoundBy::FramePointer),
        (0x5088, 0x7050, FoundBy::FramePointer),
    ];
    assert_eq!(walk(at), (frames, End::Null));
}

#[test]
fn a_row_is_not_found_after_a_change() {
    let (first, second) = (section(&NO_FRAME), section(&LARGER));
    let mut memory = [CacheEntry::EMPTY; 64];
    let mut cache = Cache::new(&mut memory);
    let stack = [0, 0x1021, 0x1021, 0, 0, 0];
    let mut sps = |table| {
        let modules = [Module::new(Address(0x1000)..Address(0x2000), 0).with_table(table)];
        let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
        let mut all = Vec::new();
        for _ in 0..2 {
            let start = registers(0x7008, 0);
            let at =
                Walk::new(&modules, Address(0x1010), start, words(0x7000, &stack)).with_cache(&mut cache);
            all.push(walk(at));
        }
        assert_eq!(all[0], all[1], "with what the first walk has left in the cache");
        all.remove(0).0.iter().map(|frame| frame.1).collect::<Vec<_>>()
    };
    // Another table covers the same address, as after an unloaded file.
    assert_eq!(sps(first), [0x7008, 0x7010, 0x7018]);
    assert_eq!(sps(second), [0x7008]);
    assert_eq!(sps(first), [0x7008, 0x7010, 0x7018]);
}

/// An address space that counts lookups. A test can exchange its table and its generation.
struct Counted<'t> {
    table: Cell<Section<'t>>,
    generation: Cell<Generation>,
    lookups: Cell<usize>,
}

impl AddressSpace for Counted<'_> {
    fn arch(&self) -> Arch {
        Arch::Amd64
    }

    fn generation(&self) -> Generation {
        self.generation.get()
    }

    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        self.lookups.set(self.lookups.get() + 1);
        self.table.get().lookup_frame(pc)
    }

    fn is_start(&self, frame: &StackFrame) -> bool {
        frame.pc.0 == 0x1030
    }
}

#[test]
fn a_cache_asks_once_for_each_generation() {
    let mut memory = [CacheEntry::EMPTY; 100];
    let mut cache = Cache::new(&mut memory);
    assert_eq!(cache.len(), 64);
    let space = Counted {
        table: Cell::new(section(&NO_FRAME)),
        generation: Cell::new(Generation::new()),
        lookups: Cell::new(0),
    };
    let stack = [0x1021, 0x1021, 0x1021, 0x1030];
    let mut lookups = || {
        space.lookups.set(0);
        let at = Walk::new(&space, Address(0x1010), registers(0x7000, 0), words(0x7000, &stack));
        let (frames, end) = walk(at.with_cache(&mut cache));
        assert_eq!((frames.len(), end), (5, End::Start));
        space.lookups.get()
    };
    assert_eq!((lookups(), lookups()), (2, 0));
    space.generation.set(Generation::new());
    assert_eq!((lookups(), lookups()), (2, 0));
    space.generation.set(Generation::NONE);
    assert_eq!((lookups(), lookups()), (4, 4));
    let mut none = [];
    assert!(Cache::new(&mut none).is_empty());
}

#[test]
fn modules_are_in_order_and_of_one_architecture() {
    let module = |start, end| Module::new(Address(start)..Address(end), 0);
    let new = |modules: &[Module<'_, '_>]| Modules::new(Arch::Amd64, modules).map(drop);
    assert_eq!(new(&[module(1, 2), module(2, 2), module(2, 4)]), Ok(()));
    assert_eq!(new(&[module(1, 3), module(2, 4)]), Err(ModulesError::Order { module: 1 }));
    assert_eq!(new(&[module(3, 2)]), Err(ModulesError::Order { module: 0 }));
    let mut bytes = table(3, 0);
    (bytes[4], bytes[6]) = (2, 0);
    assert_eq!(new(&[module(1, 2).with_table(section(&bytes))]), Err(ModulesError::Arch { module: 0 }));
}
