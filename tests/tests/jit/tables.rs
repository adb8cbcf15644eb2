//! Walks a stack with generated code by its `.sframe`, `__unwind_info` and `__eh_frame`.

use cfipack::assembler::region::Pointers;
use cfipack::assembler::registry::Registry;
use cfipack::format::{Address, Arch};
use cfipack_decoder::sframe::{Frame, Section};
use cfipack_encoder::sframe::Options;
use cfipack_roundtrip::{self as roundtrip, Table, verify};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};

use super::program::{Cfi, Entry, FRAME, Program, entry};
use super::sframe;

/// Runs the generated code, and returns the registers and stack of the innermost function.
fn stopped(program: &Program) -> Entry {
    let mut stopped = Entry::default();
    program.call(entry, (&raw mut stopped).cast());
    stopped
}

fn names(program: &Program, pcs: &[u64]) -> Vec<&'static str> {
    pcs.iter().map(|&pc| program.name(pc.wrapping_sub(1))).collect()
}

/// Looks up a PC in a registry or a table.
type Lookup<'a> = &'a dyn Fn(Address) -> Option<Frame>;

extern "C-unwind" fn walk_by_table(argument: *mut std::ffi::c_void) {
    // SAFETY: `walked` below.
    let walk = unsafe { &mut *argument.cast::<Walk<'_>>() };
    let frame = sframe::Frame { pc: walk.entry.stack[0], sp: walk.entry.sp + 8, fp: walk.entry.fp };
    // SAFETY: the frame is this stack's.
    walk.pcs = unsafe { sframe::backtrace(Arch::Amd64, walk.lookup, frame) };
}

#[repr(C)]
struct Walk<'a> {
    entry: Entry,
    lookup: Lookup<'a>,
    pcs: Vec<u64>,
}

/// The innermost function: stores the registers and walks.
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

fn walked(program: &Program, lookup: Lookup<'_>) -> Vec<&'static str> {
    let mut walk = Walk { entry: Entry::default(), lookup, pcs: Vec::new() };
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
        assert_eq!(
            (registration.text, registration.text_size),
            (program.region.base(), program.region.code_len())
        );
        let names = walked(&program, &|pc| section.lookup_frame(pc).unwrap());
        assert_eq!(names == ["inner", "middle", "outer", "caller"], expected, "{names:?}");
    }
}

/// Regions are added and removed, with walks through each. The expected rows are those of the `.sframe` table.
#[test]
fn a_registry_of_regions() {
    let mut registry = Registry::new(Arch::Amd64);
    let reader = registry.reader();
    let lookup: Lookup<'_> = &|pc| reader.lookup(pc);
    let programs = [Program::new(Cfi::Right, FRAME), Program::new(Cfi::Right, 2 * FRAME)];
    let whole = ["inner", "middle", "outer", "caller"];
    let [first, second] = &programs;
    assert_eq!(walked(first, lookup), ["inner"]);
    assert_eq!(registry.add(&first.region, ()).unwrap(), []);
    assert_eq!((walked(first, lookup), walked(second, lookup)), (whole.to_vec(), vec!["inner"]));
    assert_eq!(registry.add(&second.region, ()).unwrap(), []);
    assert_eq!((walked(first, lookup), walked(second, lookup)), (whole.to_vec(), whole.to_vec()));
    for program in &programs {
        let table = program.region.sframe(Options::default()).unwrap();
        let mut bytes = vec![0; table.len()];
        table.write(&mut bytes, Address(0x1000)).unwrap();
        let section = Section::parse(&bytes, Address(0x1000)).unwrap();
        for pc in 0..program.region.code_len() {
            let pc = program.region.base().offset(pc as i64);
            assert_eq!(reader.lookup(pc), section.lookup_frame(pc).unwrap(), "{pc}");
        }
    }
    registry.remove(first.region.base()).unwrap();
    assert_eq!((walked(first, lookup), walked(second, lookup)), (vec!["inner"], whole.to_vec()));
    // The same addresses, added again.
    assert_eq!(registry.add(&first.region, ()).unwrap(), []);
    assert_eq!(walked(first, lookup), whole);
    drop(registry);
    assert_eq!(walked(second, lookup), ["inner"]);
}

/// framehop reads Apple's tables: once with compact encodings, once in DWARF mode.
#[test]
fn unwind_info_of_a_region() {
    for (cfi, expected) in [(Cfi::Right, true), (Cfi::Wrong, false)] {
        let program = Program::new(cfi, FRAME);
        let (base, length) = (program.memory.address(), program.memory.size() as u64);
        let stopped = stopped(&program);
        let tables = program.region.unwind_info(Some(&program.code)).unwrap();
        let bytes = tables.unwind_info();

        // Every function has the entry that its FDE, or its frame, gives.
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
