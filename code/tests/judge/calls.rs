//! Calls: what they change, padding behind them, and landing pads.

use cfipack_code::Kind;
use cfipack_format::{Arch, Register, Rule};

use super::{Described, Function, RBP, RBX, RSP, SP, X29};

#[test]
fn the_rows_of_a_landing_pad_are_judged() {
    // push rbx; call rdi; pop rbx; ret; pad: mov rdi, rax; call rdi; ud2
    let bytes = [0x53, 0xff, 0xd7, 0x5b, 0xc3, 0x48, 0x89, 0xc7, 0xff, 0xd7, 0x0f, 0x0b];
    let function = Function { pad: Some((1, 5)), ..Function::new(Arch::Amd64, &bytes) };
    let saved = [(RBX, Rule::Cfa(-16))];
    let found = |cfa, at: i64| {
        let pad = [(RBX, Rule::Cfa(at))];
        function.found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (4, (RSP, 8), &[]),
            (5, (RSP, cfa), &pad),
        ])
    };
    assert_eq!(found(16, -16), []);
    // An unwinder takes arguments off the stack, and adds none.
    let below = Function { pad: Some((1, 5)), stack: Some(-24), ..Function::new(Arch::Amd64, &bytes) };
    let pad: [Described<'_>; 4] =
        [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (4, (RSP, 8), &[]), (5, (RSP, 16), &saved)];
    assert_eq!(below.found(&pad), []);
    assert_eq!(found(24, -24), [(Kind::Branch, 5)]);
    assert_eq!(found(16, -24), [(Kind::SavedRegister, 5)]);
}

#[test]
fn the_link_register_is_lost_at_a_call_that_does_not_return() {
    // cbz x0, 0x10; stp x29, x30, [sp, #-16]!; ldp x29, x30, [sp], #16; ret; bl
    let words = [0xb400_0080_u32, 0xa9bf_7bfd, 0xa8c1_7bfd, 0xd65f_03c0, 0x9400_0400];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let saved = [(X29, Rule::Cfa(-16)), (Register(30), Rule::Cfa(-8))];
    let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (8, (SP, 16), &saved), (12, (SP, 0), &[])];
    let function = Function::new(Arch::Aarch64, &bytes);
    assert_eq!(function.found(&rows), [(Kind::ReturnAddress, 16)]);
    // Without the call, and with x30 stored before it.
    assert_eq!(
        Function::new(Arch::Aarch64, &bytes[4..16]).found(&[
            (0, (SP, 0), &[]),
            (4, (SP, 16), &saved),
            (8, (SP, 0), &[])
        ]),
        []
    );
    let stored = [&bytes[4..8], &bytes[16..]].concat();
    assert_eq!(Function::new(Arch::Aarch64, &stored).found(&[(0, (SP, 0), &[]), (4, (SP, 16), &saved)]), []);
}

/// LLVM's `-homogeneous-prolog-epilog`: a called function stores registers and sets the frame pointer.
#[test]
fn a_helper_may_set_the_frame_pointer() {
    // stp x29, x30, [sp, #-32]!; bl; sub sp, sp, #16; bl; b
    let words = [0xa9be_7bfd_u32, 0x9400_0400, 0xd100_43ff, 0x9400_0400, 0x1400_0400];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let saved = [(X29, Rule::Cfa(-32)), (Register(30), Rule::Cfa(-24))];
    let judged = |bytes: &[u8], at| {
        let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (4, (SP, 32), &saved), (at, (X29, 32), &saved)];
        let judgement = Function::new(Arch::Aarch64, bytes).judged(&rows);
        (judgement.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), judgement.undecided)
    };
    assert_eq!(judged(&bytes, 12), (vec![], 2));
    // Without the first call, nothing has set x29.
    let without = [&bytes[..4], &bytes[8..]].concat();
    assert_eq!(judged(&without, 8).0, [Kind::Mismatch]);
    // stp; bl; nop; nop; bl; b: the second call makes no frame.
    let words = [words[0], words[1], 0xd503_201f, 0xd503_201f, words[1], words[4]];
    let second: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(judged(&second, 16).0, []);
    assert_eq!(judged(&second, 20).0, [Kind::NoInstruction]);
    // push rbp; call rdi; mov rbp, rsp; nop; pop rbp; nop; ret: the function itself sets rbp.
    let bytes = [0x55, 0xff, 0xd7, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0x90, 0xc3];
    let saved = [(RBP, Rule::Cfa(-16))];
    let rows: [Described<'_>; 4] =
        [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (6, (RBP, 16), &saved), (9, (RSP, 8), &[])];
    assert_eq!(Function::new(Arch::Amd64, &bytes).found(&rows), [(Kind::NoRow, 8)]);
}

#[test]
fn a_called_function_may_change_a_stored_pointer() {
    let rcx = Register(2);
    let bytes = [
        0x48, 0x83, 0xec, 0x18, // 0: sub rsp, 24
        0x48, 0x8d, 0x44, 0x24, 0x08, // 4: lea rax, [rsp+8]
        0x48, 0x89, 0x04, 0x24, // 9: mov [rsp], rax
        0xff, 0xd7, // d: call rdi
        0x48, 0x8b, 0x0c, 0x24, // f: mov rcx, [rsp]
        0x90, // 13: nop
        0x48, 0x83, 0xc4, 0x18, // 14: add rsp, 24
        0xc3, // 18: ret
    ];
    let judgement = Function::new(Arch::Amd64, &bytes).judged(&[
        (0, (RSP, 8), &[]),
        (4, (RSP, 32), &[]),
        (0x13, (rcx, 24), &[]),
        (0x14, (RSP, 32), &[]),
        (0x18, (RSP, 8), &[]),
    ]);
    assert_eq!(
        (judgement.findings.len(), judgement.undecided, judgement.first_undecided),
        (0, 1, Some(0x13))
    );
}

/// Execution runs through padding after a call that returns, so the padding needs a right row.
#[test]
fn padding_after_a_call_is_judged() {
    let saved = [(RBX, Rule::Cfa(-16))];
    let found = |padding: &[u8], cfa, at: i64| {
        // push rbx; call rdi; padding; xor eax, eax; pop rbx; ret
        let bytes = [&[0x53, 0xff, 0xd7][..], padding, &[0x31, 0xc0, 0x5b, 0xc3]].concat();
        let last = bytes.len() as u32;
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (3, (RSP, cfa), &[(RBX, Rule::Cfa(at))]),
            (last - 4, (RSP, 16), &saved),
            (last - 1, (RSP, 8), &[]),
        ])
    };
    for nops in [&[0x90][..], &[0x66, 0x90, 0x0f, 0x1f, 0x00]] {
        assert_eq!(found(nops, 16, -16), []);
        assert_eq!(found(nops, 24, -16), [(Kind::NoInstruction, 3)], "{nops:x?}");
        assert_eq!(found(nops, 16, -24), [(Kind::SavedRegister, 3)], "{nops:x?}");
    }
    // A call does not return to traps.
    assert_eq!(found(&[0xcc, 0xcc], 24, -16), []);
    // stp x29, x30, [sp, #-16]!; bl; nop; mov x0, #0; ldp x29, x30, [sp], #16; ret
    let words = [0xa9bf_7bfd_u32, 0x9400_0400, 0xd503_201f, 0xd280_0000, 0xa8c1_7bfd, 0xd65f_03c0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let saved = [(X29, Rule::Cfa(-16)), (Register(30), Rule::Cfa(-8))];
    let found = |cfa| {
        Function::new(Arch::Aarch64, &bytes).found(&[
            (0, (SP, 0), &[]),
            (4, (SP, 16), &saved),
            (8, (SP, cfa), &saved),
            (12, (SP, 16), &saved),
            (20, (SP, 0), &[]),
        ])
    };
    assert_eq!((found(16), found(32)), (vec![], vec![(Kind::NoInstruction, 8)]));
}

/// Compilers align the code after a call that does not return, and the row of that code can start at the padding.
#[test]
fn padding_after_a_call_that_does_not_return_is_not_judged() {
    // test edi, edi; je 8; push rbx; call rdi; nop; nop; xor eax, eax; ret
    let bytes = [0x85, 0xff, 0x74, 0x05, 0x53, 0xff, 0xd7, 0x90, 0x90, 0x31, 0xc0, 0xc3];
    let saved = [(RBX, Rule::Cfa(-16))];
    let function = Function::new(Arch::Amd64, &bytes);
    assert_eq!(function.found(&[(0, (RSP, 8), &[]), (5, (RSP, 16), &saved), (7, (RSP, 8), &[])]), []);
}

/// A called function may change r10 and r11. So no rule for them says nothing, and a rule is judged like any other.
#[test]
fn rules_of_registers_that_a_call_may_change_are_judged() {
    let (r10, r11, rcx) = (Register(10), Register(11), Register(2));
    // push r10; mov rcx, r11; xor r11d, r11d; call rdi; pop r10; ret
    let bytes = [0x41, 0x52, 0x4c, 0x89, 0xd9, 0x45, 0x31, 0xdb, 0xff, 0xd7, 0x41, 0x5a, 0xc3];
    let judged = |first: &[(Register, Rule)], second: &[(Register, Rule)]| {
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (2, (RSP, 16), first), (5, (RSP, 16), second), (12, (RSP, 8), &[])];
        let function = Function::new(Arch::Amd64, &bytes);
        (function.found(&rows), function.judged(&rows).undecided)
    };
    let stored = (r10, Rule::Cfa(-16));
    assert_eq!(judged(&[], &[]), (vec![], 0));
    assert_eq!(judged(&[stored], &[stored]), (vec![], 0));
    assert_eq!(judged(&[(r10, Rule::Cfa(-24))], &[stored]), (vec![(Kind::SavedRegister, 2)], 0));
    let copied = (r11, Rule::Register { register: RSP, offset: 0 });
    assert_eq!(judged(&[stored], &[stored, copied]), (vec![(Kind::SavedRegister, 5)], 0));
    // After the call, nothing is known about the copy in rcx.
    let copied = (r11, Rule::Register { register: rcx, offset: 0 });
    assert_eq!(judged(&[stored], &[stored, copied]), (vec![], 1));
}

/// `__fentry__` and `__morestack` are called before a function has a frame, and keep its arguments. GCC made the code for
/// `-mfentry` and a function with the convention of Windows.
#[test]
fn a_call_at_the_entry_keeps_arguments() {
    let rdi = Register(5);
    // call; push rdi; mov edi, ecx; pop rdi; ret
    let bytes = [0xe8, 0xfb, 0x0f, 0, 0, 0x57, 0x89, 0xcf, 0x5f, 0xc3];
    let found = |at: i64| {
        let saved = [(rdi, Rule::Cfa(at))];
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (6, (RSP, 16), &saved),
            (9, (RSP, 8), &[]),
        ])
    };
    assert_eq!((found(-16), found(-24)), (vec![], vec![(Kind::SavedRegister, 6)]));
    // A function that is called with an aligned stack does not: sub rsp, 8; call; push rdi; mov edi, ecx; pop rdi; ...
    let framed = [&[0x48, 0x83, 0xec, 0x08][..], &bytes[..9], &[0x48, 0x83, 0xc4, 0x08, 0xc3]].concat();
    let saved = [(rdi, Rule::Cfa(-24))];
    let rows: [Described<'_>; 5] = [
        (0, (RSP, 8), &[]),
        (4, (RSP, 16), &[]),
        (10, (RSP, 24), &saved),
        (13, (RSP, 16), &[]),
        (17, (RSP, 8), &[]),
    ];
    assert_eq!(Function::new(Arch::Amd64, &framed).found(&rows), [(Kind::SavedRegister, 10)]);
}

/// At a landing pad, the stack pointer has an unknown distance to the CFA, and rbp has a known one.
#[test]
fn the_cfa_of_a_landing_pad_is_in_no_aligned_stack_pointer() {
    // push rbp; mov rbp, rsp; and rsp, -64; call rdi; leave; ret; pad: mov rdi, rax; call rdi; ud2
    let bytes = [
        0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0xff, 0xd7, 0xc9, 0xc3, 0x48, 0x89, 0xc7, 0xff, 0xd7,
        0x0f, 0x0b,
    ];
    let function = Function { pad: Some((8, 12)), ..Function::new(Arch::Amd64, &bytes) };
    let saved = [(RBP, Rule::Cfa(-16))];
    let found = |base| {
        function.found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (4, (RBP, 16), &saved),
            (11, (RSP, 8), &[]),
            (12, (base, 16), &saved),
        ])
    };
    assert_eq!(found(RBP), []);
    assert_eq!(found(RSP), [(Kind::Branch, 12)]);
}

#[test]
fn at_a_call_the_cfa_is_in_no_register_with_an_unknown_value() {
    // push rbx; mov rbx, [rdi]; call rsi; pop rbx; ret
    let bytes = [0x53, 0x48, 0x8b, 0x1f, 0xff, 0xd6, 0x5b, 0xc3];
    let saved = [(RBX, Rule::Cfa(-16))];
    let wrong = |base| {
        let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (base, 16), &saved), (7, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &bytes).with_judge(&rows, |judge| judge.at_calls().len())
    };
    assert_eq!([wrong(RSP), wrong(RBX)], [0, 1]);
}

/// A row after a call and its padding contradicts the code, which never returns: the call may not return.
#[test]
fn a_call_before_a_wrong_row_may_not_return() {
    let saved = |place| [(RBX, Rule::Cfa(place))];
    let unconfirmed = |before: [u8; 2], end: &[u8], is_closed: bool| {
        // push rbx; two bytes; call rdi; int3; pop rbx; then the end.
        let bytes = [&[0x53][..], &before, &[0xff, 0xd7, 0xcc, 0x5b], end].concat();
        let (right, wrong) = (saved(-16), saved(-24));
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (1, (RSP, 16), &right), (6, (RSP, 16), &wrong), (7, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &bytes).with_analysis(
            &rows,
            |_| {},
            |analysis, judge| judge.judge().unconfirmed_calls(analysis, is_closed),
        )
    };
    let (stops, returns) = ([0x0f, 0x0b], [0xc3]);
    let (nop, jump) = ([0x66, 0x90], [0x73, 0x03]); // jae: over the call
    assert_eq!(unconfirmed(nop, &stops, false), [3]);
    assert_eq!(unconfirmed(nop, &returns, false), [0_u32; 0]);
    // If every way into the function is known, the call is the only way to the row, or another way shows it.
    assert_eq!(unconfirmed(nop, &stops, true), [0_u32; 0]);
    assert_eq!(unconfirmed(jump, &stops, true), [3]);
}
