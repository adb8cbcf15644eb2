//! A signal handler overwrites what lies below the stack pointer and its red zone. Rows from code do not have a register
//! there, even after the stack pointer has fallen again.

use cfipack_code::{Candidate, Code, NoMemory, Surroundings, synthesize, synthesize_with};
use cfipack_format::{Address, Arch, Rule};

/// Returns the rules of the frame pointer at an offset of a function: in the rows of a table, and of directives.
fn rules_at(arch: Arch, bytes: &[u8], offset: u32) -> (Rule, Rule) {
    let code = Code { arch, start: Address(0x1000), bytes, relocated: &[] };
    let candidate = Candidate { code, call_sites: &[], noreturn: &[], is_known: true, is_exported: true };
    let around = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
    let rows = synthesize(&[candidate], &around, &NoMemory).remove(0).unwrap();
    let described = synthesize_with(&[candidate], &around, &NoMemory, |analysis| analysis.describe());
    let described = &described[0].as_ref().unwrap().rows;
    let row = rows.iter().rfind(|row| row.start.0 <= offset).unwrap();
    let full = described.get(described.index_at(offset).unwrap()).unwrap();
    (row.frame_pointer, full.row.frame_pointer)
}

const LOST: (Rule, Rule) = (Rule::SameValue, Rule::SameValue);

fn kept(offset: i64) -> (Rule, Rule) {
    (Rule::Cfa(offset), Rule::Cfa(offset))
}

#[test]
fn a_slot_is_lost_when_the_stack_pointer_rises_above_it() {
    // stp x29, x30, [sp, #-48]!; ldp x29, x30, [sp], #48; sub sp, sp, #64; nop; add sp, sp, #64; ret
    let words = [0xa9bd_7bfd, 0xa8c3_7bfd, 0xd101_03ff, 0xd503_201f, 0x9101_03ff, 0xd65f_03c0_u32];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(rules_at(Arch::Aarch64, &bytes, 4), kept(-48));
    assert_eq!(rules_at(Arch::Aarch64, &bytes, 12), LOST);

    // push eax; push ebp; pop ebp; pop eax; sub esp, 12; call edx; add esp, 12; ret
    let bytes = [0x50, 0x55, 0x5d, 0x58, 0x83, 0xec, 12, 0xff, 0xd2, 0x83, 0xc4, 12, 0xc3];
    assert_eq!(rules_at(Arch::I386, &bytes, 2), kept(-12));
    assert_eq!(rules_at(Arch::I386, &bytes, 7), LOST);
}

/// On x86-64, 128 bytes below the stack pointer stay.
#[test]
fn a_slot_stays_in_the_red_zone() {
    let at_call = |disp: u32| {
        // sub rsp, 0x200; mov [rsp+disp], rbp; add rsp, 0x200; sub rsp, 0x200; call rdi; add rsp, 0x200; ret
        let [down, up] = [[0x48, 0x81, 0xec, 0, 2, 0, 0], [0x48, 0x81, 0xc4, 0, 2, 0, 0]];
        let store = [&[0x48, 0x89, 0xac, 0x24], &disp.to_le_bytes()[..]].concat();
        let bytes = [&down, &store[..], &up, &down, &[0xff, 0xd7], &up, &[0xc3]].concat();
        assert_eq!(rules_at(Arch::Amd64, &bytes, 15), kept(i64::from(disp) - 0x208));
        rules_at(Arch::Amd64, &bytes, 29)
    };
    // Between the two frames, the stack pointer is CFA-8.
    assert_eq!(at_call(0x180), kept(-8 - 128));
    assert_eq!(at_call(0x178), LOST);
}
