//! `.sframe`, `__unwind_info` and `__eh_frame` of generated code, with its stack to be walked.

use std::sync::atomic::{AtomicU32, Ordering};

use cfipack::assembler::region::sframe_table::{Capacity, SframeTable};
use cfipack::assembler::region::{Error, Pointers, Region};
use cfipack::format::{Address, Arch};
use cfipack_decoder::sframe::Section;
use cfipack_encoder::sframe::Options;
use cfipack_roundtrip::{self as roundtrip, Table, verify};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};

use super::program::{Cfi, Entry, FRAME, Program, entry};
use super::sframe;

/// A stack on which the generated code is.
fn stopped(program: &Program) -> Entry {
    let mut stopped = Entry::default();
    program.call(entry, (&raw mut stopped).cast());
    stopped
}

fn names(program: &Program, pcs: &[u64]) -> Vec<&'static str> {
    pcs.iter().map(|&pc| program.name(pc.wrapping_sub(1))).collect()
}

/// The memory of a table that grows.
fn words(capacity: Capacity) -> Vec<AtomicU32> {
    (0..capacity.words().unwrap()).map(|_| AtomicU32::new(0)).collect()
}

/// What a reader finds there.
pub fn bytes(words: &[AtomicU32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect()
}

extern "C-unwind" fn walk_by_table(argument: *mut std::ffi::c_void) {
    // SAFETY: `walked` below.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    let frame = sframe::Frame { pc: walk.entry.stack[0], sp: walk.entry.sp + 8, fp: walk.entry.fp };
    // SAFETY: the frame is this stack's.
    walk.pcs = unsafe { sframe::backtrace(walk.registration, frame) };
}

#[repr(C)]
struct Walk<'a> {
    entry: Entry,
    registration: &'a cfipack::assembler::region::Registration,
    pcs: Vec<u64>,
}

/// The innermost function: notes the registers, and walks.
#[unsafe(naked)]
extern "C-unwind" fn entry_and_walk(walk: *mut std::ffi::c_void) {
    std::arch::naked_asm!(
        "push rdi",
        "lea rax, [rsp + 8]",
        "mov [rdi], rax",
        "mov [rdi + 8], rbp",
        "call {}",
        "pop rdi",
        "ret",
        sym note_and_walk
    )
}

extern "C-unwind" fn note_and_walk(argument: *mut std::ffi::c_void) {
    // SAFETY: `walked` below; the stack above the entry is there.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    // SAFETY: the same.
    walk.entry.stack = vec![unsafe { *(walk.entry.sp as *const u64) }];
    walk_by_table(argument);
}

fn walked(program: &Program, registration: &cfipack::assembler::region::Registration) -> Vec<&'static str> {
    let mut walk = Walk { entry: Entry::default(), registration, pcs: Vec::new() };
    program.call(entry_and_walk, (&raw mut walk).cast());
    names(program, &walk.pcs)
}

#[test]
fn sframe_of_a_region() {
    for (cfi, expected) in [(Cfi::Right, true), (Cfi::Wrong, false)] {
        let program = Program::new(cfi, FRAME);
        let table = program.region.sframe(Options::default()).unwrap();
        assert_eq!(table.omitted(), []);
        let mut bytes = vec![0; table.len()];
        let address = Address(bytes.as_ptr() as u64);
        let registration = table.write(&mut bytes, address).unwrap();
        let section = Section::parse(&bytes, address).unwrap();
        assert_eq!((section.num_functions(), section.validate()), (3, Ok(())));
        let eh_frame = program.region.eh_frame(Pointers::Absolute).unwrap();
        let sections = [eh_frame.section(Address(0x1000))];
        let report = verify(&sections, &Table::new(&[section]), &roundtrip::Options::default());
        assert!(report.is_complete() && report.equal == 3, "{:?}", report.differences);
        let names = walked(&program, &registration);
        assert_eq!(names == ["inner", "middle", "outer", "caller"], expected, "{names:?}");
    }
}

/// Functions come and go; whatever else the table has stays where it is.
#[test]
fn sframe_that_grows() {
    let capacity = Capacity { functions: 8, row_bytes: 200 };
    let memory = words(capacity);
    let address = Address(memory.as_ptr() as u64);
    let mut table = SframeTable::new(&memory, address, Arch::Amd64, capacity).unwrap();
    let empty = bytes(&memory);
    assert_eq!(Section::parse(&empty, address).unwrap().num_functions(), 0);

    let mut programs = [Program::new(Cfi::Right, FRAME), Program::new(Cfi::Right, 2 * FRAME)];
    programs.sort_by_key(|program| program.memory.address());
    let [low, high] = &programs;
    assert_eq!(table.add(&low.region).unwrap(), []);
    let before = bytes(&memory);
    let low_registration = table.registration(low.region.base(), low.region.code_len());
    let high_registration = table.registration(high.region.base(), high.region.code_len());
    assert_eq!(walked(high, &high_registration), ["inner"]);
    assert_eq!(table.add(&high.region).unwrap(), []);
    let after = bytes(&memory);
    // Beside the two counts, only what was zero has changed.
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(before == after || *before == 0 || (8..16).contains(&at), "byte {at}");
    }
    let section = Section::parse(&after, address).unwrap();
    assert_eq!((section.num_functions(), section.validate()), (6, Ok(())));
    for program in &programs {
        let eh_frame = program.region.eh_frame(Pointers::Absolute).unwrap();
        for function in cfipack_cfi::Functions::new(&eh_frame.section(Address(0))) {
            let start = function.unwrap().start.unwrap();
            assert!(section.lookup(start).unwrap().is_some());
        }
    }
    let whole = ["inner", "middle", "outer", "caller"];
    assert_eq!(walked(low, &low_registration), whole);
    assert_eq!(walked(high, &high_registration), whole);

    let middle = Address(low.functions[1].address);
    let size = low.functions[1].code.len() as u64;
    table.remove(middle, size).unwrap();
    assert_eq!(table.remove(middle, size), Err(Error::NotFound { start: middle }));
    assert_eq!(walked(low, &low_registration), ["inner", "middle"]);
    assert_eq!(walked(high, &high_registration), whole);
    let removed = bytes(&memory);
    let section = Section::parse(&removed, address).unwrap();
    assert_eq!(section.validate(), Ok(()));
    assert_eq!(section.lookup(middle), Ok(None));

    // Each is taken out alone, and with it its rows.
    for function in
        low.functions.iter().chain(&high.functions).filter(|function| function.address != middle.0)
    {
        table.remove(Address(function.address), 1).unwrap();
        let removed = bytes(&memory);
        assert_eq!(Section::parse(&removed, address).unwrap().validate(), Ok(()));
    }
    let removed = bytes(&memory);
    assert_eq!(Section::parse(&removed, address).unwrap().header().num_fres, 0);

    // What does not fit changes nothing.
    let again = table.add(&low.region);
    assert!(matches!(again, Err(Error::NotAscending { .. })), "{again:?}");
    let mut region = Region::new(Arch::Amd64, Address(1 << 47), 4096).unwrap();
    for number in 0..3 {
        region.push("", 16 * number, &cfipack::assembler::Directives::new(Arch::Amd64, 16)).unwrap();
    }
    let full = table.add(&region);
    assert!(matches!(full, Err(Error::TooLarge { value: 9, most: 8, .. })), "{full:?}");
    assert_eq!(bytes(&memory), removed);
}

/// Apple's tables, read by framehop: with compact encodings, and through DWARF mode.
#[test]
fn unwind_info_of_a_region() {
    for (cfi, expected) in [(Cfi::Right, true), (Cfi::Wrong, false)] {
        let program = Program::new(cfi, FRAME);
        let (base, length) = (program.memory.address(), program.memory.size() as u64);
        let stopped = stopped(&program);
        let tables = program.region.unwind_info(Some(&program.code)).unwrap();
        let bytes = tables.unwind_info();

        // Every function has the entry that its FDE, or its frame, makes.
        let ours = cfipack_decoder::unwind_info::Section::parse(bytes).unwrap();
        let theirs = macho_unwind_info::UnwindInfo::parse(bytes).unwrap();
        for function in &program.functions {
            for pc in [function.address, function.address + function.code.len() as u64 - 1] {
                let offset = (pc - base) as u32;
                let found = ours.lookup(cfipack::format::ImageOffset(offset)).unwrap().unwrap();
                let same = theirs.lookup(offset).unwrap().unwrap();
                assert_eq!((found.encoding.0, found.start.0), (same.opcode, same.start_address));
                assert_eq!(u64::from(found.start.0), function.address - base);
            }
        }

        for unwind_info in [Some(bytes.to_vec()), None] {
            let eh_frame = tables.eh_frame().bytes().to_vec();
            let at = base + (1 << 20);
            let sections = ExplicitModuleSectionInfo {
                base_svma: base,
                text_svma: Some(base..base + length),
                text: Some(program.code.clone()),
                unwind_info,
                eh_frame_svma: Some(at..at + eh_frame.len() as u64),
                eh_frame: Some(eh_frame),
                text_segment_svma: Some(base..base + length),
                text_segment: Some(program.code.clone()),
                ..Default::default()
            };
            let module = Module::new("generated".into(), base..at + 4096, base, sections);
            let mut unwinder = UnwinderX86_64::new();
            unwinder.add_module(module);
            let mut read = |address: u64| {
                let word = address.wrapping_sub(stopped.sp) / 8;
                stopped.stack.get(word as usize).copied().ok_or(())
            };
            let registers = UnwindRegsX86_64::new(stopped.stack[0], stopped.sp + 8, stopped.fp);
            let mut cache = CacheX86_64::new();
            let mut frames = unwinder.iter_frames(stopped.stack[0], registers, &mut cache, &mut read);
            let mut pcs = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                pcs.push(frame.address());
                if pcs.len() == 4 {
                    break;
                }
            }
            let names = names(&program, &pcs);
            assert_eq!(names == ["inner", "middle", "outer", "caller"], expected, "{names:?}");
        }
    }
}
