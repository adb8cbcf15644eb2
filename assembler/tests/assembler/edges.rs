//! Where directives and dialects meet the edges of fields, CIEs and addresses. Bytes are computed by hand.

use cfipack_assembler::region::Region;
use cfipack_assembler::{Assembly, CallFrames, CompactOptions, Dialect, Directives, Encodings, PlaceError};
use cfipack_cfi::{Cie, Function};
use cfipack_encoder::compact_unwind;
use cfipack_encoder::sframe::Options;
use cfipack_format::sframe::Abi;
use cfipack_format::{Address, Arch, Key, Reason, Register};

const RBP: Register = Register(6);
const RSP: Register = Register(7);

fn eh_frame(dialect: Dialect, directives: &Directives) -> CallFrames {
    let mut assembly = Assembly::new(directives.arch()).with_dialect(dialect);
    assembly.push(Key(1), directives).unwrap();
    assembly.eh_frame().unwrap()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// `DW_CFA_restore` returns to the CIE's rule. The rules that start an FDE are not rules of the CIE.
#[test]
fn the_start_of_an_fde_stays_out_of_the_cie() {
    let cie = [0x0c, 7, 8, 0x90, 1];
    // offset rbp at -16, advance 4, def_cfa_offset 32, advance 4, restore rbp.
    let own = [0x86, 2, 0x44, 0x0e, 32, 0x44, 0xc6];
    let cie = Cie::from_parts(1, -8, Register(16), &cie);
    let directives = Directives::from_cfi(&Function::from_parts(Arch::Amd64, Key(1), 64, cie, &own)).unwrap();
    for dialect in [Dialect::Gas, Dialect::Llvm] {
        let frames = eh_frame(dialect, &directives);
        assert_eq!(frames.as_bytes()[17..24], [0x0c, 7, 8, 0x90, 1, 0, 0], "{dialect:?}");
        assert!(contains(&frames.as_bytes()[24..], &own), "{dialect:?}: {:02x?}", frames.as_bytes());
    }
}

/// DWARF for the Arm 64-bit Architecture, 4.6: the state as ULEB128, and the distance to the instruction that signs in
/// units of code as SLEB128.
#[test]
fn the_state_of_a_signature_is_set() {
    let mut directives = Directives::new(Arch::Aarch64, 16);
    directives.at(4).set_ra_state(1, -4).at(12).set_ra_state(0, 0);
    let frames = eh_frame(Dialect::Gas, &directives);
    let own = [0x41, 0x2b, 1, 0x7f, 0x42, 0x2b, 0, 0];
    assert!(contains(frames.as_bytes(), &own), "{:02x?}", frames.as_bytes());
    let cie = Cie::from_parts(4, -8, Register(30), &[0x0c, 31, 0]);
    let function = Function::from_parts(Arch::Aarch64, Key(1), 16, cie, &own);
    let read = Directives::from_cfi(&function).unwrap();
    assert_eq!(eh_frame(Dialect::Gas, &read).as_bytes(), frames.as_bytes());
}

/// LLVM's CIEs have the architecture's rules alone. If `DW_CFA_restore` returned to a rule of another CIE,
/// this rule is written out.
#[test]
fn rules_of_a_cie_are_restored_in_llvm_s_dialect() {
    let cie = [0x0c, 7, 8, 0x90, 1, 0x86, 2, 0x10, 3, 2, 0x70, 0x18];
    // advance 4, same_value rbp and rbx, advance 4, restore both.
    let own = [0x44, 0x08, 6, 0x08, 3, 0x44, 0xc6, 0xc3];
    let cie = Cie::from_parts(1, -8, Register(16), &cie);
    let directives = Directives::from_cfi(&Function::from_parts(Arch::Amd64, Key(1), 64, cie, &own)).unwrap();
    let gas = eh_frame(Dialect::Gas, &directives);
    assert!(contains(gas.as_bytes(), &own));
    let llvm = eh_frame(Dialect::Llvm, &directives);
    let restored = [0x44, 0x08, 6, 0x08, 3, 0x44, 0x86, 2, 0x10, 3, 2, 0x70, 0x18];
    assert!(contains(llvm.as_bytes(), &restored), "{:02x?}", llvm.as_bytes());
}

/// llvm-mc 23 writes this for the first function of a file.
#[test]
fn simple_functions_count_from_zero_in_llvm_s_dialect() {
    let mut directives = Directives::new(Arch::Amd64, 2).with_simple(true);
    directives.at(1).def_cfa_register(RSP).adjust_cfa_offset(8);
    let frames = eh_frame(Dialect::Llvm, &directives);
    assert!(contains(frames.as_bytes(), &[0x41, 0x0d, 7, 0x0e, 8]), "{:02x?}", frames.as_bytes());
}

#[test]
#[should_panic(expected = "starts before")]
fn simple_comes_before_directives() {
    let mut directives = Directives::new(Arch::Amd64, 16);
    directives.at(1).adjust_cfa_offset(8);
    let _ = directives.with_simple(true);
}

/// An address of more than 32 bits is not cut off in a field of 32.
#[test]
fn addresses_fit_the_architecture() {
    let directives = Directives::new(Arch::I386, 16);
    let mut assembly = Assembly::new(Arch::I386);
    assembly.push(Key(1), &directives).unwrap();
    let (debug_frame, eh_frame) = (assembly.debug_frame().unwrap(), assembly.eh_frame().unwrap());
    for address in [Address(0x1_0000_1000), Address(u64::MAX)] {
        for frames in [&debug_frame, &eh_frame] {
            let error = frames.to_vec(Address(0x1000), |_| address).unwrap_err();
            assert!(matches!(error, PlaceError::OutOfRange { size: 4, .. }), "{error}");
        }
    }
    let top = debug_frame.to_vec(Address(0), |_| Address(0xffff_fff0)).unwrap();
    assert!(contains(&top, &[0xf0, 0xff, 0xff, 0xff, 16, 0, 0, 0]));
    // Distances wrap: 0x1000 to 0xffff_f000 is -0x2000.
    assert!(eh_frame.to_vec(Address(0x1000), |_| Address(0xffff_f000)).is_ok());
}

#[test]
fn a_function_that_is_too_large_is_reported_once() {
    let mut assembly = Assembly::new(Arch::Amd64);
    assembly.push(Key(1), &Directives::new(Arch::Amd64, 1 << 32)).unwrap();
    for encodings in [Encodings::Checked, Encodings::LlvmMc] {
        let options = CompactOptions::new().with_encodings(encodings);
        let target = compact_unwind::RelocationTarget::Symbol { number: 0 };
        let rows = assembly.compact_unwind(options, |_| None, |_| target).unwrap();
        assert!(rows.section.as_bytes().is_empty());
        let reasons: Vec<_> = rows.in_dwarf_mode.iter().map(|unsupported| unsupported.reason).collect();
        assert_eq!(reasons, [Reason::FunctionSize]);
    }
}

/// Many CIEs, each with two functions. The second function finds the CIE of the first function, and not a
/// shorter CIE that it could also use.
#[test]
fn many_cies_are_found_again() {
    const COUNT: u64 = 30_000;
    let directives = |number: u64| {
        let mut directives = Directives::new(Arch::Amd64, 16);
        directives.def_cfa_offset(16 + 8 * number as i64).at(4).offset(RBP, -16);
        directives
    };
    let mut assembly = Assembly::new(Arch::Amd64);
    for number in (0..COUNT).chain((0..COUNT).rev()) {
        assembly.push(Key(number), &directives(number)).unwrap();
    }
    let frames = assembly.eh_frame().unwrap();
    let bytes = frames.as_bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut cies, mut used) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        match word(at + 4) {
            0 => cies.push(at),
            distance => used.push(at + 4 - distance),
        }
        at += 4 + word(at);
    }
    assert_eq!(cies.len() as u64, COUNT);
    let again: Vec<_> = cies.iter().copied().chain(cies.iter().rev().copied()).collect();
    assert_eq!(used, again);
}

/// A region has the same table as an assembly of the same functions.
#[test]
fn regions_have_the_table_of_an_assembly() {
    let base = Address(0x7000_0000);
    for arch in Arch::ALL.into_iter().filter(|arch| Abi::for_arch(*arch).is_some()) {
        let mut region = Region::new(arch, base, 1 << 16).unwrap();
        let mut assembly = Assembly::new(arch);
        for number in 0..40 {
            let mut directives = Directives::new(arch, 64);
            let size = 160 + 16 * (number as i64 % 7);
            directives.at(4).def_cfa_offset(size).offset(arch.frame_pointer(), -16);
            directives.at(60).def_cfa_offset(arch.cfa_offset_at_entry());
            region.push("f", 64 * number, &directives).unwrap();
            assembly.push(Key(base.0 + 64 * number), &directives).unwrap();
        }
        let table = region.sframe(Options::new()).unwrap();
        let mut ours = vec![0; table.len()];
        table.write(&mut ours, Address(0x6000_0000)).unwrap();
        let theirs = assembly.sframe(Options::new()).unwrap().section;
        assert_eq!(ours, theirs.into_bytes(Address(0x6000_0000), Key::address).unwrap());
    }
}
