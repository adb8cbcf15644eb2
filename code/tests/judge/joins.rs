//! Places that two paths reach with different values in registers and slots.

use cfipack_code::Kind;
use cfipack_format::{Arch, Register, Rule};

use super::{Described, Function, RBX, RSP, SP, X30};

const X19: Register = Register(19);

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A register is saved where it lies on all paths.
#[test]
fn a_slot_counts_if_all_paths_have_stored_it() {
    let saved = [(RBX, Rule::Cfa(-16))];
    let found = |second: [u8; 2]| {
        let bytes = [
            &[0x48, 0x89, 0x5c, 0x24, 0xf8][..],       // 0: mov [rsp-8], rbx
            &[0x85, 0xff, 0x75, 0x05],                 // 5: test edi, edi; jne 0xe
            &[0x48, 0x89, second[0], 0x24, second[1]], // 9: mov [rsp-8] or [rsp-16], rdi
            &[0x90, 0xc3],                             // e: nop; ret
        ];
        Function::new(Arch::Amd64, &bytes.concat()).found(&[(0, (RSP, 8), &[]), (0xe, (RSP, 8), &saved)])
    };
    assert_eq!(found([0x7c, 0xf8]), [(Kind::SavedRegister, 0xe)]);
    assert_eq!(found([0x7c, 0xf0]), []);
    // str x19, [sp, #-16]!; cbnz x0, 0xc; str x0, [sp] or [sp, #8]; nop; add sp, sp, #16; ret
    let saved = [(X19, Rule::Cfa(-16))];
    let found = |store| {
        let bytes = bytes_of(&[0xf81f_0ff3, 0xb500_0040, store, 0xd503_201f, 0x9100_43ff, 0xd65f_03c0]);
        let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (4, (SP, 16), &saved), (0x14, (SP, 0), &[])];
        Function::new(Arch::Aarch64, &bytes).found(&rows)
    };
    assert_eq!(found(0xf900_03e0), [(Kind::SavedRegister, 0xc)]);
    assert_eq!(found(0xf900_07e0), []);
}

/// The return address is in x30 without the call, and in memory after it. No code can return from there by both, so the
/// call does not return.
#[test]
fn a_call_does_not_return_where_the_return_address_would_be_lost() {
    let (sub, cbz, store, bl, add, ret) =
        (0xd100_83ff_u32, 0xb400_0060, 0xf900_0bfe, 0x9400_0400, 0x9100_83ff, 0xd65f_03c0);
    let stored = [(X30, Rule::Cfa(-16))];
    // sub sp, sp, #32; cbz x0, 0x10; str x30, [sp, #16]; bl; add sp, sp, #32; ret
    let once = bytes_of(&[sub, cbz, store, bl, add, ret]);
    // The same with a jump after the call, and the target of the branch after the jump.
    let jumps = bytes_of(&[sub, cbz + 0x20, store, bl, 0x1400_0001, add, ret]);
    for (bytes, end) in [(once, 0x10), (jumps, 0x14)] {
        let found = |last: &[(Register, Rule)]| {
            Function::new(Arch::Aarch64, &bytes).found(&[
                (0, (SP, 0), &[]),
                (4, (SP, 32), &[]),
                (0xc, (SP, 32), &stored),
                (end, (SP, 32), last),
                (end + 4, (SP, 0), &[]),
            ])
        };
        assert_eq!(found(&[]), [], "{bytes:x?}");
        assert_eq!(found(&stored), [(Kind::ReturnAddress, end)], "{bytes:x?}");
    }
    // paciasp first, and autiasp before ret
    let bytes = bytes_of(&[0xd503_233f, sub, cbz, store, bl, add, 0xd503_23bf, ret]);
    let found = |last: &[(Register, Rule)]| {
        let rows: [Described<'_>; 6] = [
            (0, (SP, 0), &[]),
            (4, (SP, 0), &[]),
            (8, (SP, 32), &[]),
            (0x10, (SP, 32), &stored),
            (0x14, (SP, 32), last),
            (0x18, (SP, 0), &[]),
        ];
        let sign = |rows: &mut cfipack_code::Rows| {
            (1..rows.len()).for_each(|index| rows.row_mut(index).unwrap().signed = true);
        };
        let function = Function::new(Arch::Aarch64, &bytes);
        let findings = function.with_rows(&rows, sign, |judge| judge.judge()).findings;
        findings.iter().map(|finding| (finding.kind, finding.wrong.0)).collect::<Vec<_>>()
    };
    // ret has the address without a signature.
    assert_eq!(found(&[]), [(Kind::Signature, 0x1c)]);
    assert_eq!(found(&stored), [(Kind::ReturnAddress, 0x14), (Kind::Signature, 0x1c)]);
}

/// rbx is on the stack without the call, and in rbx after it.
#[test]
fn a_call_does_not_return_where_a_saved_register_would_be_lost() {
    let bytes = [
        0x53, // 0: push rbx
        0x31, 0xdb, // 1: xor ebx, ebx
        0x85, 0xff, // 3: test edi, edi
        0x74, 0x0a, // 5: je 0x11
        0x48, 0x8b, 0x1c, 0x24, // 7: mov rbx, [rsp]
        0x48, 0x89, 0x3c, 0x24, // b: mov [rsp], rdi
        0xff, 0xd6, // f: call rsi
        0x5b, // 11: pop rbx
        0xc3, // 12: ret
    ];
    let saved = [(RBX, Rule::Cfa(-16))];
    let found = |last: &[(Register, Rule)]| {
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (0xb, (RSP, 16), &[]),
            (0x11, (RSP, 16), last),
            (0x12, (RSP, 8), &[]),
        ])
    };
    assert_eq!(found(&saved), []);
    assert_eq!(found(&[]), [(Kind::LostRegister, 0x11)]);
}

/// rbx is in another slot after the call than without it, and rbx itself has another value.
#[test]
fn a_call_does_not_return_where_a_slot_would_be_lost() {
    let bytes = [
        0x48, 0x83, 0xec, 0x18, // 0: sub rsp, 24
        0x85, 0xff, // 4: test edi, edi
        0x74, 0x0a, // 6: je 0x12
        0x48, 0x89, 0x1c, 0x24, // 8: mov [rsp], rbx
        0x31, 0xdb, // c: xor ebx, ebx
        0xff, 0xd6, // e: call rsi
        0xeb, 0x07, // 10: jmp 0x19
        0x48, 0x89, 0x5c, 0x24, 0x08, // 12: mov [rsp+8], rbx
        0x31, 0xdb, // 17: xor ebx, ebx
        0x48, 0x8b, 0x5c, 0x24, 0x08, // 19: mov rbx, [rsp+8]
        0x48, 0x83, 0xc4, 0x18, // 1e: add rsp, 24
        0xc3, // 22: ret
    ];
    let (low, high) = ([(RBX, Rule::Cfa(-32))], [(RBX, Rule::Cfa(-24))]);
    let found = |last: &[(Register, Rule)]| {
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (4, (RSP, 32), &[]),
            (0xc, (RSP, 32), &low),
            (0x12, (RSP, 32), &[]),
            (0x17, (RSP, 32), &high),
            (0x19, (RSP, 32), last),
            (0x22, (RSP, 8), &[]),
        ])
    };
    assert_eq!(found(&high), []);
    assert_eq!(found(&low), [(Kind::SavedRegister, 0x19)]);
}

/// A called function may change x0, whether it is stored or not.
#[test]
fn a_call_may_return_where_an_argument_is_lost() {
    // stp x29, x30, [sp, #-32]!; cbz x1, 0x14; str x0, [sp, #16]; bl; mov x2, #1; ldp x29, x30, [sp], #32; ret
    let words = [0xa9be_7bfd, 0xb400_0081, 0xf900_0be0, 0x9400_0400, 0xd280_0022, 0xa8c2_7bfd, 0xd65f_03c0];
    let saved = [(Register(29), Rule::Cfa(-32)), (X30, Rule::Cfa(-24))];
    let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (4, (SP, 32), &saved), (0x18, (SP, 0), &[])];
    let judgement = Function::new(Arch::Aarch64, &bytes_of(&words)).judged(&rows);
    assert_eq!((judgement.findings, judgement.right, judgement.undecided), (vec![], 7, 0));
}

/// A called function may have kept x13, which has the return address. So the call may return.
#[test]
fn a_call_may_return_where_a_register_may_have_the_return_address() {
    // mov x13, x30; cbz x0, 0xc; bl; mov x30, x13; ret
    let bytes = bytes_of(&[0xaa1e_03ed, 0xb400_0040, 0x9400_0400, 0xaa0d_03fe, 0xd65f_03c0]);
    let held = [(X30, Rule::Register { register: Register(13), offset: 0 })];
    let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (4, (SP, 0), &held), (0x10, (SP, 0), &[])];
    let judgement = Function::new(Arch::Aarch64, &bytes).judged(&rows);
    assert_eq!(judgement.findings, []);
    assert_eq!((judgement.right, judgement.first_undecided), (3, Some(0xc)));
}
