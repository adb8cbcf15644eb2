//! Compares the meaning of encodings with CFI. For x86, llvm-mc 23 writes compact rows and FDEs of the same directives,
//! and gimli evaluates the FDEs.

use cfipack_container::File;
use cfipack_decoder::compact_unwind::row;
use cfipack_format::compact_unwind::{Encoding, Mode};
use cfipack_format::{Arch, Cfa, Register, Row, Rule};
use cfipack_tests::corpora;
use gimli::{BaseAddresses, CfaRule, EhFrame, LittleEndian, RegisterRule, UnwindContext, UnwindSection};

/// Returns the last row of the FDE for an address, with its registers in numerical order.
fn last_row(file: &File<'_>, address: u64, arch: Arch) -> (Row, Vec<(Register, i32)>) {
    let sections = file.call_frame_sections().unwrap();
    let section = &sections[0].section;
    let mut frames = EhFrame::new(&section.bytes, LittleEndian);
    frames.set_address_size(arch.pointer_size());
    let bases = BaseAddresses::default().set_eh_frame(section.address.0);
    let fde = frames.fde_for_address(&bases, address, EhFrame::cie_from_offset).unwrap();
    let mut context = UnwindContext::new();
    let mut table = fde.rows(&frames, &bases, &mut context).unwrap();
    let mut found = None;
    while let Some(evaluated) = table.next_row().unwrap() {
        let CfaRule::RegisterAndOffset { register, offset } = *evaluated.cfa() else { panic!("expression") };
        let mut row = Row::at_entry(arch);
        row.cfa = Cfa::Register { register: Register(register.0), offset };
        let mut saved = Vec::new();
        for (register, rule) in evaluated.registers() {
            let RegisterRule::Offset(offset) = *rule else { continue };
            match Register(register.0) {
                r if r == arch.return_address() => row.return_address = Rule::Cfa(offset),
                r if r == arch.frame_pointer() => row.frame_pointer = Rule::Cfa(offset),
                r => saved.push((r, offset as i32)),
            }
        }
        saved.sort_by_key(|slot| slot.0.0);
        found = Some((row, saved));
    }
    found.unwrap()
}

/// Cases in which llvm-mc's encoding does not mean what the directives say. We read the encoding as it is.
const MISENCODED: [&str; 11] = [
    "x06_rbp_dir_order_reversed",
    "x07_rbp_hole",
    "x10_rbp_6regs",
    "x21_fl_ind_nosub",
    "x22_fl_ind_pushrax",
    "x37_odd_offset",
    "x38_neg_offset",
    "x48_fl_save_nonadj",
    "x49_fl_dir_order",
    "x51_rbp_cfa_after",
    "x52_rbp_first_reg",
];

#[test]
fn rows_are_what_the_cfi_ends_with() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for case in corpora::compact_unwind_objects() {
        let file = File::parse(&case.object).unwrap();
        let arch = file.arch();
        let Some(compact) = file.as_macho().unwrap().compact_unwind().unwrap() else { continue };
        for entry in compact.rows {
            let mode = entry.encoding.mode(arch).unwrap();
            // For arm64, llvm-mc omits functions with an encoding from `__eh_frame`.
            if !matches!(arch, Arch::Amd64 | Arch::I386) || matches!(mode, Mode::None | Mode::Dwarf) {
                continue;
            }
            if file.call_frame_sections().unwrap().iter().all(|section| section.section.bytes.is_empty()) {
                continue;
            }
            let code = &file.code_sections().unwrap()[0];
            let code = &code.bytes[(entry.function.0 - code.address.0) as usize..];
            compared += 1;
            let theirs = last_row(&file, entry.function.0, arch);
            let ours = row(entry.encoding, arch, code).map(|unwound| {
                let (row, saved) = unwound.unwrap();
                let mut saved = saved.as_slice().to_vec();
                saved.sort_by_key(|slot| slot.0.0);
                (row, saved)
            });
            if ours != Ok(theirs) {
                wrong.push(case.name.clone());
            }
        }
    }
    assert_eq!(wrong, MISENCODED, "of {compared}");
    assert!(compared > 40, "{compared}");
}

/// The expected places of registers were measured by running the libunwind of LLVM 22. They are bytes from the register
/// that the CFA counts from.
#[test]
fn rows_are_what_libunwind_does() {
    let check = |encoding, arch: Arch, code: &[u8], base, cfa, expected: &[(u16, i64)]| {
        let (row, saved) = row(Encoding(encoding), arch, code).unwrap().unwrap();
        assert_eq!(row.cfa, Cfa::Register { register: base, offset: cfa });
        let mut found: Vec<_> =
            saved.as_slice().iter().map(|slot| (slot.0.0, cfa + i64::from(slot.1))).collect();
        for (rule, register) in
            [(row.frame_pointer, arch.frame_pointer()), (row.return_address, arch.return_address())]
        {
            if let Rule::Cfa(offset) = rule {
                found.push((register.0, cfa + offset));
            }
        }
        assert_eq!(found, expected, "{encoding:#010x}");
    };
    let (rsp, rbp, x29) =
        (Arch::Amd64.stack_pointer(), Arch::Amd64.frame_pointer(), Arch::Aarch64.frame_pointer());
    check(0x0103_0161, Arch::Amd64, &[], rbp, 16, &[(3, -24), (14, -16), (15, -8), (6, 0), (16, 8)]);
    check(0x0205_0802, Arch::Amd64, &[], rsp, 40, &[(3, 16), (14, 24), (16, 32)]);
    // push rbx; sub rsp, 0x20
    let code = [0x53, 0x48, 0x81, 0xec, 0x20, 0, 0, 0];
    check(0x0304_4400, Arch::Amd64, &code, rsp, 0x30, &[(3, 0x20), (16, 0x28)]);
    let saved = [(19, -8), (20, -16), (21, -24), (22, -32), (72, -40), (73, -48), (29, 0), (30, 8)];
    check(0x0400_0103, Arch::Aarch64, &[], x29, 16, &saved);
}

#[test]
fn nonsense_is_refused() {
    let error = |encoding, arch, code: &[u8]| row(Encoding(encoding), arch, code).unwrap_err().to_string();
    assert_eq!(error(0x0500_0000, Arch::Amd64, &[]), "encoding 0x05000000: mode 5");
    assert_eq!(error(0x0100_0000, Arch::Aarch64, &[]), "encoding 0x01000000: mode 1");
    assert_eq!(error(0x0100_0006, Arch::Amd64, &[]), "encoding 0x01000006: register number 6 in slot 0");
    // rbx twice
    assert_eq!(error(0x0102_0041, Arch::Amd64, &[]), "encoding 0x01020041: register number 1 in slot 2");
    assert_eq!(error(0x0208_1c00, Arch::I386, &[]), "encoding 0x02081c00: permutation 0 of 7 registers");
    assert_eq!(error(0x0202_0406, Arch::I386, &[]), "encoding 0x02020406: permutation 6 of 1 registers");
    let code = [0x48, 0x81, 0xec, 0, 0x10, 0];
    assert_eq!(
        error(0x0303_2000, Arch::Amd64, &code),
        "encoding 0x03032000: stack size in code bytes up to 7 of 6"
    );
    assert_eq!(row(Encoding::NONE, Arch::Amd64, &[]), Ok(None));
    assert_eq!(row(Encoding(0x0400_1234), Arch::Amd64, &[]), Ok(None));
    // Flags and personality do not matter here.
    assert_eq!(row(Encoding(0xf100_0000), Arch::Amd64, &[]), row(Encoding(0x0100_0000), Arch::Amd64, &[]));
}
