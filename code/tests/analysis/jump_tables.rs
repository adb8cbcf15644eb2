//! `switch` as compilers write it.

use super::{START, Table, followed, words};
use cfipack_code::Doubt;
use cfipack_format::Arch;

/// `switch` as compilers write it: a compared index, a table of offsets from itself.
const SWITCH: [u8; 28] = [
    0x50, // 0: push rax
    0x83, 0xff, 0x01, // 1: cmp edi, 1
    0x77, 0x14, // 4: ja 0x1a
    0x48, 0x8d, 0x15, 0xf3, 0x0f, 0, 0, // 6: lea rdx, [rip+0xff3]: 0x2000
    0x48, 0x63, 0x04, 0xba, // d: movsxd rax, [rdx+4*rdi]
    0x48, 0x01, 0xd0, // 11: add rax, rdx
    0xff, 0xe0, // 14: jmp rax
    0x58, // 16: pop rax
    0xc3, // 17: ret
    0x58, // 18: pop rax
    0xc3, // 19: ret
    0x58, // 1a: pop rax
    0xc3, // 1b: ret
];

/// Returns the table of `SWITCH` that leads to some offsets in the code.
fn table_of<const N: usize>(targets: [i64; N]) -> Table {
    let entries = targets.map(|target| (START as i64 + target - 0x2000) as i32);
    Table(0x2000, entries.iter().flat_map(|entry| entry.to_le_bytes()).collect())
}

#[test]
fn jump_tables_are_read_up_to_the_compared_limit() {
    let table = table_of([0x16, 0x18, 0x15]);
    let (cfas, doubts) = followed(Arch::Amd64, &SWITCH, &table);
    assert_eq!(cfas[7..], ["7+16", "7+8", "7+16", "7+8", "7+16", "7+8"]);
    assert_eq!(doubts, []);
    let (_, doubts) = followed(Arch::Amd64, &SWITCH, &cfipack_code::NoMemory);
    assert_eq!(doubts, [Doubt::IndirectJump, Doubt::NotReached]);
}

/// A bound holds for the value that was compared, as long as the value stays, and on paths with the comparison.
#[test]
fn a_bound_ends_where_another_index_may_be_used() {
    let third = |before: [u8; 4], compared: [u8; 3], between: [u8; 2]| {
        let bytes = [
            &[0x50][..],         // 0: push rax
            &before,             // 1
            &compared,           // 5: cmp, 1
            &[0x77, 0x18],       // 8: ja 0x22
            &between,            // a
            &[0x48, 0x8d, 0x15], // c: lea rdx, [rip+0xfed]: 0x2000
            &[0xed, 0x0f, 0, 0],
            &[0x48, 0x63, 0x04, 0xba], // 13: movsxd rax, [rdx+4*rdi]
            &[0x48, 0x01, 0xd0],       // 17: add rax, rdx
            &[0xff, 0xe0],             // 1a: jmp rax
            &[0x58, 0xc3],             // 1c: pop rax; ret
            &[0x58, 0xc3],             // 1e: pop rax; ret
            &[0x58, 0xc3],             // 20: pop rax; ret
            &[0x58, 0xc3],             // 22: pop rax; ret
        ];
        let entries = [0x1c_i64, 0x1e, 0x20].map(|target| (START as i64 + target - 0x2000) as i32);
        let table = Table(0x2000, entries.iter().flat_map(|entry| entry.to_le_bytes()).collect());
        let cfas = followed(Arch::Amd64, &bytes.concat(), &table).0;
        cfas[cfas.len() - 4].clone()
    };
    let (none, skip) = ([0x0f, 0x1f, 0x40, 0], [0x85, 0xf6, 0x78, 5]); // nop; test esi, esi and js 0xa
    let (register, memory) = ([0x83, 0xff, 1], [0x83, 0x3f, 1]); // cmp edi, 1; cmp dword ptr [rdi], 1
    let (nop, mov, call) = ([0x66, 0x90], [0x89, 0xf7], [0xff, 0xd6]); // mov edi, esi; call rsi
    let je = [0x74, 0]; // je 0xc: both ways have the bound
    assert_eq!([third(none, register, nop), third(none, memory, nop), third(none, register, je)], ["-"; 3]);
    assert_eq!([third(none, register, mov), third(none, register, call)], ["7+16"; 2]);
    assert_eq!([third(none, memory, call), third(skip, register, nop)], ["7+16"; 2]);
}

/// The path with a comparison comes to the table first, and then a path without one.
#[test]
fn a_bound_ends_where_a_path_has_no_comparison() {
    let bytes = [
        0x50, // 0: push rax
        0x85, 0xf6, 0x78, 0x09, // 1: test esi, esi; js 0xe
        0x83, 0xff, 0x01, // 5: cmp edi, 1
        0x77, 0x1c, // 8: ja 0x26
        0x85, 0xc9, // a: test ecx, ecx
        0xeb, 0x02, // c: jmp 0x10
        0xeb, 0x00, // e: jmp 0x10
        0x48, 0x8d, 0x15, 0xe9, 0x0f, 0, 0, // 10: lea rdx, [rip+0xfe9]: 0x2000
        0x48, 0x63, 0x04, 0xba, // 17: movsxd rax, [rdx+4*rdi]
        0x48, 0x01, 0xd0, // 1b: add rax, rdx
        0xff, 0xe0, // 1e: jmp rax
        0x58, 0xc3, // 20: pop rax; ret
        0x58, 0xc3, // 22: pop rax; ret
        0x58, 0xc3, // 24: pop rax; ret
        0x58, 0xc3, // 26: pop rax; ret
    ];
    let table = table_of([0x20, 0x22, 0x24]);
    let third = |bytes: &[u8]| followed(Arch::Amd64, bytes, &table).0.split_off(16);
    assert_eq!(third(&bytes)[..2], ["7+16", "7+8"]);
    // ud2 instead of the second jump: the path without a comparison ends.
    let ends = [&bytes[..0xe], &[0x0f, 0x0b], &bytes[0x10..]].concat();
    assert_eq!(third(&ends)[..2], ["-", "-"]);
}

/// A comparison at the end of a loop is no fact at its start.
#[test]
fn a_loop_with_a_comparison_is_followed_to_its_end() {
    // dec esi; cmp edi, 1; ja back; ret
    let limit = [0xff, 0xce, 0x83, 0xff, 0x01, 0x77, 0xf9, 0xc3];
    // dec esi; cmp rdi, rdx; jne back; ret
    let registers = [0xff, 0xce, 0x48, 0x39, 0xd7, 0x75, 0xf9, 0xc3];
    for bytes in [limit, registers] {
        assert_eq!(followed(Arch::Amd64, &bytes, &cfipack_code::NoMemory).1, [], "{bytes:x?}");
    }
}

/// A limited table has all of its entries, but no table starts outside of the function.
#[test]
fn the_first_target_of_a_table_is_in_the_function() {
    let found = |targets: [i64; 2]| {
        let (cfas, doubts) = followed(Arch::Amd64, &SWITCH, &table_of(targets));
        (cfas[9].clone(), doubts.contains(&Doubt::IndirectJump))
    };
    assert_eq!(found([0x18, 0x100]), ("7+16".to_string(), false));
    assert_eq!(found([0x100, 0x18]), ("-".to_string(), true));
}

/// `br` leads to `bti j` alone where code is so protected: another entry belongs to no table.
#[test]
fn jump_tables_end_where_targets_are_not_marked() {
    let bytes = words(&[
        0xb000_0002, // 0: adrp x2, 0x2000
        0x3861_4842, // 4: ldrb w2, [x2, w1, uxtw]
        0x1000_0061, // 8: adr x1, 0x1014
        0x8b22_8022, // c: add x2, x1, w2, sxtb
        0xd61f_0040, // 10: br x2
        0xd503_249f, // 14: bti j
        0xd65f_03c0, // 18: ret
        0xd100_43ff, // 1c: sub sp, sp, #16
        0xd65f_03c0, // 20: ret
    ]);
    let (cfas, _) = followed(Arch::Aarch64, &bytes, &Table(0x2000, vec![0, 8]));
    assert_eq!(cfas[5..], ["31+0", "31+0", "-", "-"]);
    let (cfas, _) = followed(Arch::Aarch64, &bytes, &Table(0x2000, vec![8, 0]));
    assert_eq!(cfas[5..], ["31+0", "31+0", "31+0", "31+16"]);
}
