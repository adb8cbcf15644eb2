//! Compares tables with bytes that are computed by hand and with gimli, and tests errors.

use alloc::vec::Vec;

use gimli::{BaseAddresses, CfaRule, EhFrame as GimliEhFrame, NativeEndian, Register as R, UnwindContext};
use gimli::{RegisterRule, UnwindSection};

use super::*;
use crate::Misuse;

/// `sub rsp, 24; call rdi; add rsp, 24; ret`
const SIZE: u64 = 11;
const BASE: Address = Address(0x7f00_1234_0000);

fn directives() -> Directives {
    let mut directives = Directives::new(Arch::Amd64, SIZE);
    directives.at(4).def_cfa_offset(32);
    directives.at(10).def_cfa_offset(8);
    directives
}

fn region() -> Region {
    let mut region = Region::new(Arch::Amd64, BASE, 4096).unwrap();
    region.push("trampoline", 16, &directives()).unwrap();
    region
}

const CIE: [u8; 24] =
    [20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];
const ROWS: [u8; 6] = [0x44, 0x0e, 32, 0x46, 0x0e, 8];

#[test]
fn eh_frame_with_relative_pointers() {
    let mut eh_frame = region().eh_frame(Pointers::PcRelative).unwrap();
    // The field is 32 bytes after the section's start: 0x1000 + 16 - 32 bytes to the code.
    eh_frame.place(Address(BASE.0 - 0x1000)).unwrap();
    let mut expected = CIE.to_vec();
    expected.extend([20, 0, 0, 0, 28, 0, 0, 0, 0xf0, 0x0f, 0, 0, 11, 0, 0, 0, 0]);
    expected.extend(ROWS);
    expected.extend([0; 1 + 4]);
    assert_eq!(eh_frame.bytes(), expected);
    assert_eq!(eh_frame.fdes()[0].offset.0, 24);
    assert_eq!(eh_frame.fdes()[0].start, Address(BASE.0 + 16));
    // Moved again, and out of reach.
    eh_frame.place(BASE).unwrap();
    assert_eq!(eh_frame.bytes()[32..36], (-16_i32).to_le_bytes());
    let far = eh_frame.place(Address(BASE.0 + (1 << 32)));
    let from = Address(BASE.0 + (1 << 32) + 32);
    assert_eq!(far, Err(Error::Distance { from, to: Address(BASE.0 + 16) }));
}

#[test]
fn eh_frame_with_absolute_pointers() {
    let eh_frame = region().eh_frame(Pointers::Absolute).unwrap();
    let mut expected = CIE.to_vec();
    expected[16] = 0;
    expected.extend([28, 0, 0, 0, 28, 0, 0, 0, 16, 0, 0x34, 0x12, 0, 0x7f, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend(ROWS);
    expected.extend([0; 1 + 4]);
    assert_eq!(eh_frame.bytes(), expected);
}

/// Each FDE comes after its own CIE, whatever order the functions have.
#[test]
fn fdes_follow_their_cies() {
    let mut region = Region::new(Arch::Amd64, BASE, 4096).unwrap();
    for number in (0..20).rev() {
        let mut directives = directives();
        match number % 4 {
            1 => _ = directives.signal_frame(),
            2 => {
                directives.personality(PointerEncoding(0x9b), Key(0x1234_5678_9abc));
                directives.lsda(PointerEncoding(0x1b), Key(0x4000 + number));
            }
            3 => _ = directives.return_column(Register(14)),
            _ => {}
        }
        region.push("", number * 32, &directives).unwrap();
    }
    let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
    let (bases, section) = (BaseAddresses::default(), GimliEhFrame::new(eh_frame.bytes(), NativeEndian));
    let (mut entries, mut last, mut count) = (section.entries(&bases), None, 0);
    let mut starts = Vec::new();
    while let Some(entry) = entries.next().unwrap() {
        match entry {
            gimli::CieOrFde::Cie(cie) => {
                last = Some(cie.offset());
                count += 1;
            }
            gimli::CieOrFde::Fde(partial) => {
                let fde = partial.parse(GimliEhFrame::cie_from_offset).unwrap();
                assert_eq!(Some(fde.cie().offset()), last);
                let number = (fde.initial_address() - BASE.0) / 32;
                starts.push(number);
                assert_eq!(fde.cie().is_signal_trampoline(), number % 4 == 1);
                let personality = fde.personality();
                let expected = gimli::Pointer::Indirect(0x1234_5678_9abc);
                assert_eq!(personality, (number % 4 == 2).then_some(expected));
                let lsda = gimli::Pointer::Direct(0x4000 + number);
                assert_eq!(fde.lsda(), (number % 4 == 2).then_some(lsda));
                let column = if number % 4 == 3 { 14 } else { 16 };
                assert_eq!(fde.cie().return_address_register(), R(column));
                let mut context = UnwindContext::new();
                let pc = fde.initial_address() + 5;
                let row = fde.unwind_info_for_address(&section, &bases, &mut context, pc).unwrap();
                assert_eq!(*row.cfa(), CfaRule::RegisterAndOffset { register: R(7), offset: 32 });
                assert_eq!(row.register(R(16)), Some(RegisterRule::Offset(-8)));
            }
        }
    }
    assert_eq!(count, 4);
    starts.sort_unstable();
    assert_eq!(starts, (0..20).collect::<Vec<_>>());
    assert!(eh_frame.fdes().is_sorted_by_key(|fde| fde.start));
    assert_eq!(eh_frame.bytes()[eh_frame.bytes().len() - 4..], [0; 4]);
}

/// `unw_dyn_info_t`, as the headers of libunwind 1.6 and 1.5 define it.
#[test]
fn libunwind_structures() {
    let region = region();
    let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
    let at = Address(0x5555_0000_0000);
    let table = LibunwindTable::new(&region, LibunwindForm::IpOffset, &eh_frame, at).unwrap();
    assert_eq!(table.bytes(), [16, 0, 0, 0, 24, 0, 0, 0]);
    let words = |bytes: [u8; 88]| -> Vec<u64> {
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    };
    let end = BASE.0 + 4096;
    let with = words(table.dyn_info(DynInfoLayout::WithLoadOffset, Address(0x9990)));
    assert_eq!(with, [0, 0, BASE.0, end, 0, 4, 0, 0, at.0, 1, 0x9990]);
    let without = words(table.dyn_info(DynInfoLayout::WithoutLoadOffset, Address(0x9990)));
    assert_eq!(without, [0, 0, BASE.0, end, 0, 4, 0, at.0, 1, 0x9990, 0]);

    let near = Address(BASE.0 - 0x100);
    let table = LibunwindTable::new(&region, LibunwindForm::RemoteTable, &eh_frame, near).unwrap();
    assert_eq!(table.bytes(), [0x10, 1, 0, 0, 24, 0, 0, 0]);
    assert_eq!(words(table.dyn_info(DynInfoLayout::WithLoadOffset, Address(0)))[5], 2);
    let far = LibunwindTable::new(&region, LibunwindForm::RemoteTable, &eh_frame, at);
    assert!(matches!(far, Err(Error::Distance { .. })));
}

/// Offsets of perf's ELF file: code at 0, the unwind data after it.
#[test]
fn records_for_perf() {
    let region = region();
    let event = jitdump::Event { pid: 7, tid: 8, time: 9, code_index: 3 };
    let exact = jitdump::Options::new().with_padding(0).with_body_only(false);
    let function = jitdump::Function::new(&region, 0, exact).unwrap();
    // CIE, FDE and zero are 52 bytes, padded to 56, and 20 of header.
    assert_eq!(function.room(), 16 + 80);
    let bytes = function.records(&[0xcc; SIZE as usize], event).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let signed = |at: usize| word(at) as i32;
    assert_eq!([word(0), word(4), word(8)], [4, 120, 9]);
    assert_eq!([word(16), word(24), word(32)], [76, 20, 80]);
    // With C = 16: the FDE's field is at 32 of the section.
    assert_eq!((signed(40 + 32), word(40 + 36)), (-48, 11));
    assert_eq!([signed(96 + 4), signed(96 + 8), signed(96 + 12), signed(96 + 16)], [-60, 1, -72, 24 - 56]);
    let load = 120;
    assert_eq!([word(load), word(load + 4)], [0, 56 + 11 + 11]);
    assert_eq!([word(load + 16), word(load + 20), word(load + 24)], [7, 8, (BASE.0 + 16) as u32]);
    assert_eq!(bytes[load + 56..load + 67], *b"trampoline\0");
    assert_eq!(bytes.len(), load + 78);

    // For perf 7.2: 128 bytes more, and no row of the epilogue, because perf would unwind the padding by it.
    let function = jitdump::Function::new(&region, 0, jitdump::Options::new()).unwrap();
    let bytes = function.records(&[0xcc; SIZE as usize], event).unwrap();
    assert_eq!(u32::from_le_bytes(bytes[40 + 36..40 + 40].try_into().unwrap()), 11 + 128);
    assert_eq!(bytes[40 + 41..40 + 48], [0x44, 0x0e, 32, 0, 0, 0, 0]);
    let short = function.records(&[], event);
    assert_eq!(short, Err(Error::CodeLength { given: 0, needed: SIZE }));
    let none = jitdump::Function::new(&region, 1, exact).map(|function| function.room());
    assert_eq!(none, Err(Error::NoFunction { index: 1 }));
    assert_eq!(jitdump::room(&directives(), exact), Ok(16 + 80));
}

#[test]
fn what_a_region_refuses() {
    let range = Region::new(Arch::Amd64, Address(u64::MAX), 2).map(|region| region.len());
    assert_eq!(range, Err(Error::Range { base: Address(u64::MAX), length: 2 }));
    assert!(Region::new(Arch::I386, Address(1 << 32), 0).is_err());
    let mut region = region();
    let before = region.eh_frame(Pointers::Absolute).unwrap().bytes().to_vec();
    let mut push = |name: &str, offset, directives: &Directives| region.push(name, offset, directives);
    let outside = |offset, size| Err(Error::Outside { offset, size, length: 4096 });
    assert_eq!(push("", 4090, &directives()), outside(4090, SIZE));
    assert_eq!(push("", u64::MAX, &directives()), outside(u64::MAX, SIZE));
    assert_eq!(push("", 0, &Directives::new(Arch::Amd64, 0)), outside(0, 0));
    assert_eq!(push("", 0, &Directives::new(Arch::Amd64, u64::MAX)), outside(0, u64::MAX));
    for offset in [6, 16, 26] {
        assert_eq!(push("", offset, &directives()), Err(Error::Overlap { offset, other: 16 }));
    }
    assert_eq!(push("a\0b", 64, &directives()), Err(Error::Name { at: 1 }));
    let other = push("", 64, &Directives::new(Arch::Aarch64, 4));
    assert!(matches!(other, Err(Error::Arch { arch: Arch::Aarch64, .. })));
    let mut misused = directives();
    misused.restore_state();
    let Err(Error::Directive(error)) = push("", 64, &misused) else { panic!("a misused directive") };
    assert_eq!((error.directive, error.misuse), (2, Misuse::RestoreWithoutRemember));
    assert_eq!(region.eh_frame(Pointers::Absolute).unwrap().bytes(), before);
    assert_eq!(region.len(), 1);
}

#[test]
fn sizes_that_no_form_holds() {
    // A function of 8 GiB, in a region that ends at the last address.
    let size = 8 << 30;
    let mut region = Region::new(Arch::Amd64, Address(u64::MAX - size), size).unwrap();
    region.push("large", 0, &Directives::new(Arch::Amd64, size)).unwrap();
    assert!(matches!(region.eh_frame(Pointers::PcRelative), Err(Error::Cfi(_))));
    assert!(region.eh_frame(Pointers::Absolute).is_ok());
    assert!(region.gdb_elf().is_ok());
    assert!(matches!(region.unwind_info(None), Err(Error::TooLarge { .. })));
    assert_eq!(region.sframe(Default::default()).unwrap().omitted().len(), 1);
    let options = jitdump::Options::new();
    assert!(matches!(jitdump::Function::new(&region, 0, options), Err(Error::TooLarge { .. })));
    let all = options.with_padding(u32::MAX);
    assert!(matches!(jitdump::Function::new(&super::tests::region(), 0, all), Err(Error::TooLarge { .. })));
}

/// Escaped bytes must be instructions that are complete when the function ends, and must not hold an address.
#[test]
fn escapes_that_no_reader_passes() {
    let mut region = region();
    let before = region.eh_frame(Pointers::Absolute).unwrap().bytes().to_vec();
    // DW_CFA_def_cfa without its offset; DW_CFA_set_loc; an opcode that no standard and no vendor has defined.
    for bytes in [&[0x0c, 7][..], &[0x01, 0, 0, 0, 0, 0, 0, 0, 0], &[0x3e]] {
        let mut directives = Directives::new(Arch::Amd64, 16);
        directives.at(4).escape(bytes);
        let error = region.push("", 64, &directives);
        assert!(matches!(error, Err(Error::Instructions(_) | Error::Cfi(_))), "{bytes:x?}: {error:?}");
        assert!(jitdump::room(&directives, jitdump::Options::new()).is_err());
    }
    assert_eq!(region.eh_frame(Pointers::Absolute).unwrap().bytes(), before);
    // Two escapes together are an instruction.
    let mut whole = Directives::new(Arch::Amd64, 16);
    whole.at(4).escape(&[0x0c, 7]).escape(&[32]);
    region.push("", 64, &whole).unwrap();
}

/// Escaped bytes are refused if `push_cfi` refuses them as a function's instructions, and only then.
#[test]
fn escapes_are_refused_as_instructions_are() {
    let empty = region();
    let (mut seed, mut refused) = (1_u64, 0);
    for _ in 0..4096 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let bytes = &(seed >> 8).to_le_bytes()[..1 + (seed >> 61) as usize % 6];
        let mut directives = Directives::new(Arch::Amd64, 16);
        directives.at(0).escape(bytes);
        let cie = cfi::Cie::from_parts(1, -8, Register(16), &[]);
        let mut function = cfi::Function::from_parts(Arch::Amd64, Key(BASE.0 + 64), 16, cie, bytes);
        function.start = Some(Address(BASE.0 + 64));
        let pushed = empty.clone().push("", 64, &directives);
        let given = empty.clone().push_cfi("", &function);
        assert_eq!(pushed.is_ok(), given.is_ok(), "{bytes:x?}: {pushed:?}, {given:?}");
        refused += usize::from(pushed.is_err());
    }
    assert!((1024..3072).contains(&refused), "{refused}");
}

/// The order in which functions are added makes no difference, and `clear` leaves no function.
#[test]
fn any_order_and_again() {
    let places: Vec<u64> = (0..128).map(|number| 16 * (number * 37 % 128)).collect();
    let fill = |region: &mut Region, places: &[u64]| {
        for &place in places {
            let mut directives = directives();
            if place % 96 == 0 {
                directives.signal_frame();
            }
            let name = alloc::format!("at{place}");
            region.push(&name, place, &directives).unwrap();
        }
    };
    let mut ordered = Region::new(Arch::Amd64, BASE, 4096).unwrap();
    let mut sorted = places.clone();
    sorted.sort_unstable();
    fill(&mut ordered, &sorted);
    let mut other = Region::new(Arch::Amd64, Address(0x1000), 64).unwrap();
    other.push("gone", 0, &directives()).unwrap();
    assert!(other.clear(Address(u64::MAX), 2).is_err());
    assert_eq!(other.len(), 1);
    other.clear(BASE, 4096).unwrap();
    fill(&mut other, &places);
    assert!(other.functions().eq(ordered.functions()));
    assert_eq!(other.gdb_elf(), ordered.gdb_elf());
    let names = |region: &Region| -> Vec<u64> {
        let event = jitdump::Event { pid: 7, tid: 8, time: 9, code_index: 3 };
        let record = |number| {
            let function = jitdump::Function::new(region, number, jitdump::Options::new()).unwrap();
            let record = function.records(&[0xcc; SIZE as usize], event).unwrap();
            record.iter().fold(0, |sum: u64, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
        };
        (0..region.len()).map(record).collect()
    };
    assert_eq!(names(&other), names(&ordered));
    let overlap = other.push("", 16 * 64 + 8, &directives());
    assert_eq!(overlap, Err(Error::Overlap { offset: 16 * 64 + 8, other: 16 * 64 }));
}

/// Architectures of 32 bits have the forms that exist for them.
#[test]
fn narrow_architectures() {
    let mut region = Region::new(Arch::I386, Address(0x8000_0000), 4096).unwrap();
    region.push("f", 0, &Directives::new(Arch::I386, 16)).unwrap();
    let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
    assert_eq!(eh_frame.fdes().len(), 1);
    let table = LibunwindTable::new(&region, LibunwindForm::IpOffset, &eh_frame, Address(0)).map(|_| ());
    assert!(matches!(table, Err(Error::Arch { .. })));
    assert!(matches!(region.gdb_elf(), Err(Error::Arch { .. })));
    assert!(region.unwind_info(None).is_ok());
}

/// A function of Cranelift or a C compiler: `addi sp, sp, -16; sd ra, 8(sp); sd s0, 0(sp); addi s0, sp, 16;
/// ...`. `riscv64-linux-gnu-as` and `llvm-mc -triple riscv64` give the same rows for these directives.
#[test]
fn riscv64_has_call_frame_information_alone() {
    let (ra, sp, s0) = (Register(1), Register(2), Register(8));
    let mut directives = Directives::new(Arch::Riscv64, 24);
    directives.at(4).def_cfa_offset(16);
    directives.at(12).offset(ra, -8).offset(s0, -16);
    directives.at(16).def_cfa(s0, 0);
    directives.at(20).def_cfa(sp, 16);
    let mut region = Region::new(Arch::Riscv64, BASE, 64).unwrap();
    region.push("function", 0, &directives).unwrap();

    let eh_frame = region.eh_frame(Pointers::Absolute).unwrap();
    let section = GimliEhFrame::new(eh_frame.bytes(), NativeEndian);
    let bases = BaseAddresses::default();
    let fde = section.fde_for_address(&bases, BASE.0, GimliEhFrame::cie_from_offset).unwrap();
    assert_eq!(fde.cie().return_address_register(), R(1));
    let mut context = UnwindContext::new();
    let mut rows = fde.rows(&section, &bases, &mut context).unwrap();
    let (none, at) = (RegisterRule::Undefined, RegisterRule::Offset);
    for (start, cfa, expected_ra, expected_s0) in [
        (0, (2, 0), none.clone(), none.clone()),
        (4, (2, 16), none.clone(), none),
        (12, (2, 16), at(-8), at(-16)),
        (16, (8, 0), at(-8), at(-16)),
        (20, (2, 16), at(-8), at(-16)),
    ] {
        let row = rows.next_row().unwrap().unwrap();
        assert_eq!(row.start_address(), BASE.0 + start, "{start}");
        assert_eq!(*row.cfa(), CfaRule::RegisterAndOffset { register: R(cfa.0), offset: cfa.1 }, "{start}");
        let rules = [1, 8].map(|number| row.register(R(number)).unwrap_or(RegisterRule::Undefined));
        assert_eq!(rules, [expected_ra, expected_s0], "{start}");
    }
    assert!(rows.next_row().unwrap().is_none());

    // EM_RISCV, little endian.
    let elf = region.gdb_elf().unwrap();
    assert_eq!((elf[5], &elf[18..20]), (1, &[243, 0][..]));
    assert_eq!(jitdump::header(Arch::Riscv64, 1, 2)[12..16], [243, 0, 0, 0]);
    let function = jitdump::Function::new(&region, 0, jitdump::Options::new()).unwrap();
    let event = jitdump::Event { pid: 1, tid: 1, time: 1, code_index: 1 };
    assert!(!function.records(&[0; 24], event).unwrap().is_empty());

    let refused = region.sframe(Default::default()).map(|table| table.len());
    assert_eq!(refused, Err(Error::Arch { arch: Arch::Riscv64, form: ".sframe" }));
}
