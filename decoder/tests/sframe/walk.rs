//! Walks over stacks that are laid out by hand according to the ABIs, with given rows.

use std::cell::Cell;

use cfipack_decoder::sframe::{Error, Frame, Registers, Section};
use cfipack_decoder::walk::{
    AddressSpace, Cache, CacheEntry, End, FoundBy, Generation, Module, Modules, ModulesError, StackFrame,
    Walk, ends_with_call,
};
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};

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
    assert_eq!(walk(at(0x7018)), (vec![first, second, third], End::GuessedNull));
    // Misaligned, below the stack pointer, beyond the memory, at words that are not code, and at a word of 0.
    for fp in [0x7019, 0x6ff8, 0x7000, 0x7010, 0x7038, 0x8000, u64::MAX - 7, 0x7008] {
        let end = if fp == 0x7008 { End::GuessedNull } else { End::NoRow };
        assert_eq!(walk(at(fp)), (vec![first, second], end), "{fp:#x}");
    }
    // A memory that gives whole words does not make a misaligned frame pointer right.
    let mut whole = words(0x7000, &STACK);
    let whole = |address: Address| whole(Address(address.0 & !7));
    let misaligned = Walk::new(&modules, Address(0x1010), registers(0x7000, 0x7019), whole);
    assert_eq!(walk(misaligned), (vec![first, second], End::NoRow));
    assert_eq!(walk(at(0)), (vec![first, second], End::GuessedNull));
    assert_eq!(walk(at(0x7018).with_frame_pointers(false)), (vec![first, second], End::NoRow));
    // The frame ends where the stack ends, or a byte further.
    let bounded = |end| at(0x7018).with_stack(Address(0x7000)..Address(end));
    assert_eq!(walk(bounded(0x7028)), (vec![first, second, third], End::NoRow));
    assert_eq!(walk(bounded(0x7027)), (vec![first, second], End::NoRow));
    // The frame starts at the stack pointer.
    let lowest = Walk::new(&modules, Address(0x5005), registers(0x7018, 0x7018), words(0x7000, &STACK));
    assert_eq!(walk(lowest).0[1..], [third]);
    // In the innermost frame, the frame pointer may have any value, also 0.
    let innermost = Walk::new(&modules, Address(0x5005), registers(0x7000, 0), words(0x7000, &STACK));
    assert_eq!(walk(innermost).1, End::NoRow);
}

/// The code at 0x5010 has no table and uses its frame pointer for data. Its caller is 0x5020. Whatever the data is,
/// the walk does not claim to know the rest of the stack.
#[test]
fn what_comes_after_a_guess_says_so() {
    let modules = [
        Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&NO_FRAME)),
        Module::new(Address(0x5000)..Address(0x6000), 0),
    ];
    let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
    let stack = |next| [0x5010, 1, 2, 0x5020, 0x1020, next, 0x1040, 0];
    let walk_with = |fp, next| {
        let stack = stack(next);
        walk(Walk::new(&modules, Address(0x1010), registers(0x7000, fp), words(0x7000, &stack)))
    };
    let before = [(0x1010, 0x7000, FoundBy::Registers), (0x5010, 0x7008, FoundBy::Table)];
    assert_eq!(walk_with(0, 0x1030), (before.to_vec(), End::GuessedNull));
    let guess = (0x1020, 0x7028, FoundBy::FramePointer);
    let after = [(0x1030, 0x7030, FoundBy::TableAfterGuess), (0x1040, 0x7038, FoundBy::TableAfterGuess)];
    let all = [&before[..], &[guess], &after].concat();
    assert_eq!(walk_with(0x7018, 0x1030), (all.clone(), End::GuessedNull));
    // The table after a guess leads out of all modules.
    let out = End::NotCode { pc: Address(0x9999) };
    assert_eq!(walk_with(0x7018, 0x9999), (all[..3].to_vec(), out));
    assert!(!End::GuessedNull.is_complete() && !out.is_complete() && End::Null.is_complete());
    let found = [FoundBy::Registers, FoundBy::Table, FoundBy::FramePointer, FoundBy::TableAfterGuess];
    assert_eq!(found.map(FoundBy::is_guess), [false, false, true, true]);
}

/// A return address by table is in code too, with the cache and without. One that a table covers is, whatever the
/// address space answers.
#[test]
fn return_addresses_are_in_code() {
    let modules = [Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&NO_FRAME))];
    let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
    let mut memory = [CacheEntry::EMPTY; 64];
    let mut cache = Cache::new(&mut memory);
    for outside in [0xfff, 0x1000, 0x2001, u64::MAX] {
        let stack = [0x1020, outside, 0x1030, 0];
        let mut walk_once = || {
            let at = Walk::new(&modules, Address(0x1010), registers(0x7000, 0), words(0x7000, &stack));
            walk(at.with_cache(&mut cache))
        };
        let end = End::NotCode { pc: Address(outside) };
        let frames = vec![(0x1010, 0x7000, FoundBy::Registers), (0x1020, 0x7008, FoundBy::Table)];
        assert_eq!((walk_once(), walk_once()), ((frames.clone(), end), (frames, end)), "{outside:#x}");
    }
}

/// Guesses, and frames that depend on one, follow a call where the code can be read.
#[test]
fn guesses_follow_calls() {
    let mut code = [0x90; 0x100];
    code[0x2e..0x30].copy_from_slice(&[0xff, 0xd0]); // call *%rax, before 0x5030
    code[..2].copy_from_slice(&[0xff, 0xd0]); // before 0x5002
    code[0xe..0x10].copy_from_slice(&[0xff, 0xd0]); // before 0x5010
    let mut covered = [0x90; 0x40];
    covered[0x1b] = 0xe8; // call, before 0x1020
    let modules = [
        Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section(&NO_FRAME)).with_bytes(&covered),
        Module::new(Address(0x5000)..Address(0x6000), 0).with_bytes(&code),
    ];
    let modules = Modules::new(Arch::Amd64, &modules[..]).unwrap();
    let ends = |by_table, guessed, next| {
        let stack = [by_table, 1, 0, guessed, next, 0, 0];
        let (frames, end) =
            walk(Walk::new(&modules, Address(0x1010), registers(0x7000, 0x7010), words(0x7000, &stack)));
        (frames.len(), end)
    };
    assert_eq!(ends(0x5010, 0x5030, 0), (3, End::GuessedNull));
    // 0x5011 follows no call, but a table without a guess leads to it: it may be the start of a context.
    assert_eq!(ends(0x5011, 0x5030, 0), (3, End::GuessedNull));
    assert_eq!(ends(0x5101, 0x5030, 0), (3, End::GuessedNull));
    assert_eq!(ends(0x5010, 0x5002, 0), (3, End::GuessedNull));
    for no_call in [0x5001, 0x502f, 0x5031, 0x50ff] {
        assert_eq!(ends(0x5010, no_call, 0), (2, End::NoRow), "{no_call:#x}");
    }
    // Beyond the bytes that were given, nothing is known.
    assert_eq!(ends(0x5010, 0x5101, 0), (3, End::GuessedNull));
    // 0x1020 is a guess, and its table leads on.
    assert_eq!(ends(0x5010, 0x1020, 0x1020), (4, End::GuessedNull));
    assert_eq!(ends(0x5010, 0x1020, 0x1021), (3, End::NotCode { pc: Address(0x1021) }));
    assert_eq!(ends(0x5010, 0x1020, 0x1050), (4, End::GuessedNull));
}

/// Calls and other instructions, as gas 2.40 assembles them.
#[test]
fn calls_are_recognised() {
    let x86: [&[u8]; 11] = [
        &[0xe8, 0, 0, 0, 0],
        &[0xff, 0xd0],                      // *%rax
        &[0x41, 0xff, 0xd3],                // *%r11
        &[0xff, 0x10],                      // *(%rax)
        &[0xff, 0x14, 0x24],                // *(%rsp)
        &[0xff, 0x55, 0x10],                // *16(%rbp)
        &[0xff, 0x54, 0x8c, 0x10],          // *16(%rsp,%rcx,4)
        &[0xff, 0x15, 0, 0, 0, 0],          // *foo(%rip)
        &[0xff, 0x97, 0, 0x10, 0, 0],       // *0x1000(%rdi)
        &[0xff, 0x94, 0x24, 0, 0x10, 0, 0], // *0x1000(%rsp)
        &[0xff, 0x14, 0xc5, 0, 0, 0, 0],    // *(,%rax,8)
    ];
    let others: [&[u8]; 6] =
        [&[0xff, 0xe0], &[0xe9, 0, 0, 0, 0], &[0xff, 0x18], &[0xff, 0x30], &[0x90], &[0x48, 0x85, 0xd2]];
    for padding in [&[][..], &[0x90; 9]] {
        for call in x86 {
            let code = [padding, call].concat();
            assert_eq!(ends_with_call(Arch::Amd64, &code), Some(true), "{call:x?}");
            assert_eq!(
                ends_with_call(Arch::Amd64, &code[..code.len() - 1]),
                Some(false),
                "part of {call:x?}"
            );
        }
        for other in others {
            let code = [padding, other].concat();
            assert_eq!(ends_with_call(Arch::Amd64, &code), Some(false), "{other:x?}");
        }
    }
    // bl; blr x8; blraaz x8; blrabz x8; blraa x8, x9; blrab x8, sp
    for word in
        [0x9400_0000, 0x97ff_ffff, 0xd63f_0100, 0xd63f_091f, 0xd63f_0d1f, 0xd73f_0909, 0xd73f_0d1f_u32]
    {
        let code = word.to_le_bytes();
        assert_eq!(ends_with_call(Arch::Aarch64, &code), Some(true), "{word:#x}");
        assert_eq!(ends_with_call(Arch::Aarch64Be, &code), Some(true), "{word:#x}");
    }
    // b; br x8; ret; braa x8, x9
    for word in [0x1400_0000, 0xd61f_0100, 0xd65f_03c0, 0xd71f_0909_u32] {
        assert_eq!(ends_with_call(Arch::Aarch64, &word.to_le_bytes()), Some(false), "{word:#x}");
    }
    assert_eq!(ends_with_call(Arch::Amd64, &[]), Some(false));
    assert_eq!(ends_with_call(Arch::Aarch64, &[0, 0, 0x94]), Some(false));
    assert_eq!(ends_with_call(Arch::S390x, &[0x0d, 0xe1]), None);
}

/// Where the stack pointer is only a lower bound, no row counts from it. 0x1050 has a row that cannot be cached.
#[test]
fn rows_of_any_kind_need_an_exact_stack_pointer() {
    let space = Uncommon;
    let stack = [0, 0, 0x7040, 0x1050, 0, 0, 0, 0, 0, 0x5088];
    let registers = Registers { sp: 0x7000, fp: Some(0x7010), lr: None, others: &[] };
    let (frames, end) = walk(Walk::new(&space, Address(0x5004), registers, words(0x7000, &stack)));
    assert_eq!(frames.len(), 2);
    assert_eq!(end, End::Register { arch: Arch::Aarch64, register: Register(31) });
}

/// AArch64 code with a table only at 0x1000, whose CFA is in memory at the stack pointer.
struct Uncommon;

impl AddressSpace for Uncommon {
    fn arch(&self) -> Arch {
        Arch::Aarch64
    }

    fn generation(&self) -> Generation {
        Generation::NONE
    }

    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        let row = Row {
            cfa: Cfa::Memory { register: Register(31), offset: 0 },
            return_address: Rule::Cfa(-8),
            ..Row::at_entry(Arch::Aarch64)
        };
        Ok((pc.0 >> 12 == 1).then_some(Frame::new(row, false)))
    }
}

/// Without more knowledge, every address but 0 may be code, and nothing is known about calls.
#[test]
fn an_address_space_has_code_by_default() {
    assert!(!Uncommon.is_code(Address(0)) && Uncommon.is_code(Address(1)));
    assert_eq!(Uncommon.follows_call(Address(1)), None);
    let frame = StackFrame { pc: Address(1), sp: 0, is_exact: true, found_by: FoundBy::Registers };
    assert!(!Uncommon.is_start(&frame));
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
    // A return address of 0 is no end by the ABI if the frame pointer is another value.
    let other = [Module::new(Address(0x9000)..Address(0xa000), 0x8000).with_table(table)];
    let other = Modules::new(Arch::Amd64, &other[..]).unwrap();
    let at = Walk::new(&other, Address(0x9030), registers(0x7000, 8), words(0x7000, &stack));
    assert_eq!(walk(at).1, End::GuessedNull);
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
    // The frame ends where the stack ends, or a byte further.
    let ends = [0x7010, 0x700f].map(|end| {
        let at = Walk::new(&modules, Address(0x1010), registers(0x7000, 0x7000), words(0x7000, &[0; 2]));
        walk(at.with_stack(Address(0x7000)..Address(end))).1
    });
    assert_eq!(ends, [End::GuessedNull, End::NotRising]);
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
    assert_eq!(walk(at), (frames, End::GuessedNull));
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
