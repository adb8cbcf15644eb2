//! Unwinds frames with framehop 0.16 and with our rows, from the same `__unwind_info`.
//!
//! In the first frame framehop also reads instructions, in case it is in a prologue. So we compare x86-64 as a caller's
//! frame. On arm64 framehop does not accept frameless callers, so we compare the first frame there, without instructions.

use cfipack_decoder::compact_unwind::row;
use cfipack_decoder::unwind_info::Section;
use cfipack_encoder::unwind_info::{Entry, Options};
use cfipack_format::compact_unwind::{Encoding, Pairs, encode_order};
use cfipack_format::{Arch, Cfa, ImageOffset, Row, Rule};
use cfipack_testkit::random::{self, Random};
use cfipack_tests::unwind_table::lay_out;
use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};

const BASE: u64 = 0x1_0000_0000;
const SP: u64 = 0x10_0000;
const FP: u64 = 0x20_0000;
const LR: u64 = 0x1234_5670;

/// The word at an address of the stack. All words differ.
fn stack(address: u64) -> u64 {
    0x4000_0000 + address * 2
}

/// Returns the caller's PC, stack pointer and frame pointer, by a row.
fn step(row: &Row, arch: Arch) -> (u64, u64, u64) {
    let Cfa::Register { register, offset } = row.cfa else { panic!("{row:?}") };
    let base = if register == arch.stack_pointer() { SP } else { FP };
    let cfa = base.wrapping_add_signed(offset);
    let value = |rule, unchanged| match rule {
        Rule::SameValue => unchanged,
        Rule::Cfa(offset) => stack(cfa.wrapping_add_signed(offset)),
        other => panic!("{other:?}"),
    };
    (value(row.return_address, LR), cfa, value(row.frame_pointer, FP))
}

fn module(table: Vec<u8>, text: Option<Vec<u8>>, end: u32) -> Module<Vec<u8>> {
    let range = BASE..BASE + u64::from(end);
    let text_range = BASE + 0x1000..range.end;
    let sections = ExplicitModuleSectionInfo {
        base_svma: BASE,
        text_svma: Some(text_range),
        text,
        unwind_info: Some(table),
        ..ExplicitModuleSectionInfo::default()
    };
    Module::new("table".into(), range, BASE, sections)
}

/// Returns a table of functions of 8 to 256 bytes with these encodings, from 0x1000 on, and the end of the last function.
fn table(random: &mut Random, arch: Arch, encoding: impl Fn(&mut Random) -> Encoding) -> (Vec<u8>, u32) {
    let mut at = 0x1000;
    let mut entries = Vec::new();
    for _ in 0..2000 {
        let length = 8 + 4 * random.below(63) as u32;
        entries.push(Entry::new(ImageOffset(at), length, encoding(random)));
        at += length;
    }
    let end = Some(ImageOffset(at));
    (lay_out(arch, Options::default(), &entries, end, |_| unreachable!()), at)
}

#[test]
fn x86_64_callers() {
    let (seed, count) = random::cases("x86_64_callers", 5);
    for i in 0..count as u64 {
        let mut random = Random::new(seed.wrapping_add(i));
        let (table, end) = table(&mut random, Arch::Amd64, |random| {
            let mut registers = [1, 2, 3, 4, 5, 6];
            for i in 0..6 {
                registers.swap(i, i + random.below(6 - i as u64) as usize);
            }
            let count = random.below(7) as usize;
            let permutation = encode_order(&registers[..count]).unwrap();
            match random.below(3) {
                0 => Encoding::frame(random.below(256) as u8, [0; 5]),
                1 => Encoding::frameless(count as u8 + 2 + random.below(240) as u8, count as u8, permutation),
                _ => Encoding::frameless_indirect(random.below(4) as u8, 7, count as u8, permutation),
            }
        });
        // Wherever the code is read from, it has small multiples of 8.
        let text = (0..end - 0x1000).map(|i| if i % 4 == 0 { 8 * random.below(32) as u8 } else { 0 });
        let text: Vec<u8> = text.collect();
        let section = Section::parse(&table).unwrap();
        let mut unwinder = UnwinderX86_64::new();
        unwinder.add_module(module(table.clone(), Some(text.clone()), end));
        let mut cache = CacheX86_64::new();
        for _ in 0..3000 {
            let pc = 0x1000 + random.below(u64::from(end) - 0x1000) as u32;
            let entry = section.lookup(ImageOffset(pc)).unwrap().unwrap();
            let code = &text[entry.start.0 as usize - 0x1000..];
            let (row, _) = row(entry.encoding, Arch::Amd64, code).unwrap().unwrap();
            // framehop keeps the size in 16 bits, in words.
            let fits =
                matches!(row.cfa, Cfa::Register { offset, .. } if offset < 0x8_0000 && offset % 8 == 0);
            if !fits {
                continue;
            }
            let address = FrameAddress::from_return_address(BASE + u64::from(pc) + 1).unwrap();
            let mut registers = UnwindRegsX86_64::new(BASE + u64::from(pc), SP, FP);
            let ra = unwinder.unwind_frame(address, &mut registers, &mut cache, &mut |at| Ok(stack(at)));
            let theirs = (ra.unwrap().unwrap(), registers.sp(), registers.bp());
            assert_eq!(step(&row, Arch::Amd64), theirs, "{pc:#x}: {}", entry.encoding);
        }
    }
}

#[test]
fn arm64_first_frames() {
    let (seed, count) = random::cases("arm64_first_frames", 5);
    for i in 0..count as u64 {
        let mut random = Random::new(seed.wrapping_add(i));
        let (table, end) = table(&mut random, Arch::Aarch64, |random| match random.below(2) {
            0 => Encoding::arm64_frame(Pairs::from_bits_truncate(random.next() as u32)),
            _ => Encoding::arm64_frameless(random.below(4096) as u16, Pairs::empty()),
        });
        let section = Section::parse(&table).unwrap();
        let mut unwinder = UnwinderAarch64::new();
        unwinder.add_module(module(table.clone(), None, end));
        let mut cache = CacheAarch64::new();
        for _ in 0..3000 {
            let pc = 0x1000 + random.below(u64::from(end) - 0x1000) as u32;
            let entry = section.lookup(ImageOffset(pc)).unwrap().unwrap();
            // Before the first instruction has run, framehop assumes that the prologue has done nothing.
            if entry.start.0 == pc {
                continue;
            }
            let (row, _) = row(entry.encoding, Arch::Aarch64, &[]).unwrap().unwrap();
            let address = FrameAddress::from_instruction_pointer(BASE + u64::from(pc));
            let mut registers = UnwindRegsAarch64::new(LR, SP, FP);
            let ra = unwinder.unwind_frame(address, &mut registers, &mut cache, &mut |at| Ok(stack(at)));
            let theirs = (ra.unwrap().unwrap(), registers.sp(), registers.fp());
            assert_eq!(step(&row, Arch::Aarch64), theirs, "{pc:#x}: {}", entry.encoding);
        }
    }
}
