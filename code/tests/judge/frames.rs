//! The CFA, and the ends of frames.

use cfipack_code::{Kind, Rows};
use cfipack_format::{Arch, Cfa, Register, Rule};

use super::{Described, Function, RBP, RBX, RSP, SAVES_RBX, SP, X29};

#[test]
fn the_cfa_is_in_no_register_with_another_value() {
    let judged = |bytes, at, base| {
        let saved = [(RBP, Rule::Cfa(-16))];
        let function = Function::new(Arch::Amd64, bytes);
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (at, (base, 16), &saved), (6, (RSP, 8), &[])];
        (function.found(&rows), function.judged(&rows).undecided)
    };
    // push rbp; mov rbp, rdi; nop; pop rbp; ret
    let argument = [0x55, 0x48, 0x89, 0xfd, 0x90, 0x5d, 0xc3];
    assert_eq!(judged(&argument, 4, RSP), (vec![], 0));
    assert_eq!(judged(&argument, 4, RBP), (vec![(Kind::NoInstruction, 4)], 0));
    // push rbp; mov rbp, [rdi]; nop; pop rbp; ret: the new value may be a place that a caller has made for the frame, as
    // in libffi, unless the row follows later.
    let loaded = [0x55, 0x48, 0x8b, 0x2f, 0x90, 0x5d, 0xc3];
    assert_eq!(judged(&loaded, 4, RSP), (vec![], 0));
    assert_eq!(judged(&loaded, 4, RBP), (vec![], 2));
    assert_eq!(judged(&loaded, 5, RBP), (vec![(Kind::NoInstruction, 5)], 1));
}

/// `longjmp` reads the other frame's registers from a buffer, and its CFA is the address of the buffer.
#[test]
fn a_row_may_describe_another_stack() {
    // mov rdx, [rdi+8]; mov rbx, [rdi]; mov rsp, rdx; ret
    let bytes = [0x48, 0x8b, 0x57, 0x08, 0x48, 0x8b, 0x1f, 0x48, 0x89, 0xd4, 0xc3];
    let (rdx, rdi) = (Register(1), Register(5));
    let rules = [(RBX, Rule::Cfa(0)), (RSP, Rule::Register { register: rdx, offset: 0 })];
    let judgement = Function::new(Arch::Amd64, &bytes).judged(&[(0, (RSP, 8), &[]), (4, (rdi, 0), &rules)]);
    assert_eq!(judgement.findings, []);
    assert_eq!((judgement.right, judgement.first_undecided), (1, Some(4)));
}

#[test]
fn rows_for_the_end_of_a_frame_are_recognized() {
    let ends = |bytes: &[u8], rows: &[Described<'_>]| {
        Function::new(Arch::Amd64, bytes).with_judge(rows, |judge| judge.ends_frames())
    };
    let saved = [(RBX, Rule::Cfa(-16))];
    let begin: [Described<'_>; 2] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved)];
    assert_eq!(ends(&SAVES_RBX, &begin), Some(false));
    assert_eq!(ends(&SAVES_RBX, &begin[..1]), None);
    assert_eq!(ends(&SAVES_RBX, &[begin[0], begin[1], (6, (RSP, 8), &[])]), Some(true));
    // The row at the return is wrong, after a row for the end of the frame.
    let wrong = [begin[0], begin[1], (5, (RSP, 8), &[]), (6, (RSP, 999), &[])];
    assert_eq!(ends(&SAVES_RBX, &wrong), Some(true));
    let wrong = [begin[0], begin[1], (6, (RSP, 999), &[])];
    assert_eq!(ends(&SAVES_RBX, &wrong), Some(true));
    // push rbp; mov rbp, rsp; call rdi; pop rbp; nop; ret, with a wrong register after the pop.
    let by_rbp = [0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0x90, 0xc3];
    let rows: [Described<'_>; 4] =
        [(0, (RSP, 8), &[]), (1, (RSP, 16), &[]), (4, (RBP, 16), &[]), (7, (RBX, 8), &[])];
    assert_eq!(ends(&by_rbp, &rows[..3]), Some(false));
    assert_eq!(ends(&by_rbp, &rows), Some(true));
    // push rbx; push rax; call rdi; pop rax; call rdi; pop rbx; ret: arguments are no frame.
    let pushes = [0x53, 0x50, 0xff, 0xd7, 0x58, 0xff, 0xd7, 0x5b, 0xc3];
    let rows: [Described<'_>; 4] =
        [(0, (RSP, 8), &[]), (1, (RSP, 16), &[]), (2, (RSP, 24), &[]), (5, (RSP, 16), &[])];
    assert_eq!(ends(&pushes, &rows), Some(false));
    // push rbx; jmp back: nothing returns.
    assert_eq!(ends(&[0x53, 0xeb, 0xfe], &begin), None);
}

#[test]
fn a_return_by_a_jump_is_decided() {
    let (ra, rcx) = (Arch::Amd64.return_address(), Register(2));
    // pop rcx; lfence; jmp rcx
    let function = Function::new(Arch::Amd64, &[0x59, 0x0f, 0xae, 0xe8, 0xff, 0xe1]);
    assert_eq!(function.found(&[(0, (RSP, 8), &[])]), [(Kind::NoRow, 1)]);
    let popped = [(ra, Rule::Register { register: rcx, offset: 0 })];
    let judgement = function.judged(&[(0, (RSP, 8), &[]), (1, (RSP, 0), &popped)]);
    assert_eq!((judgement.findings.len(), judgement.undecided), (0, 0));
}

#[test]
fn a_cfa_in_memory_is_judged() {
    // lea r10, [rsp+N]; push r10; nop; pop r10; ret
    let found = |distance: u8| {
        let bytes = [0x4c, 0x8d, 0x54, 0x24, distance, 0x41, 0x52, 0x90, 0x41, 0x5a, 0xc3];
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (7, (RSP, 0), &[]), (8, (RSP, 16), &[]), (10, (RSP, 8), &[])];
        let in_memory = |rows: &mut Rows| {
            if let Some(row) = rows.row_mut(1) {
                row.cfa = Cfa::Memory { register: RSP, offset: 0 };
            }
        };
        Function::new(Arch::Amd64, &bytes).with_rows(&rows, in_memory, |judge| judge.judge().findings.len())
    };
    assert_eq!(found(8), 0);
    assert_ne!(found(16), 0);
}

#[test]
fn a_row_inside_an_unknown_instruction_proves_nothing() {
    let found = |word: u32| {
        let bytes: Vec<u8> = [word, 0xd65f_03c0].iter().flat_map(|word| word.to_le_bytes()).collect();
        Function::new(Arch::Aarch64, &bytes).found(&[(0, (SP, 0), &[]), (2, (SP, 0), &[])])
    };
    // mov x0, #0
    assert_eq!(found(0xd280_0000), [(Kind::Boundary, 0)]);
    assert_eq!(found(0xffff_ffff), []);
}

#[test]
fn a_return_in_a_frame_is_found() {
    // push rbx; ret
    let function = Function::new(Arch::Amd64, &[0x53, 0xc3]);
    assert_eq!(function.found(&[(0, (RSP, 8), &[]), (1, (RSP, 16), &[])]), [(Kind::Return, 1)]);
    // push rbx; ret; xor eax, eax; ret: no path leads to the last two.
    let more = Function::new(Arch::Amd64, &[0x53, 0xc3, 0x31, 0xc0, 0xc3]);
    assert_eq!(more.judged(&[(0, (RSP, 8), &[])]).undecided, 2);
}

/// The distance of the stack pointer is not known, and the row before is right.
#[test]
fn the_row_before_shows_that_a_register_is_no_cfa() {
    // push rbp; mov rbp, rsp; sub rsp, rdi; nop; leave; ret
    let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xfc, 0x90, 0xc9, 0xc3];
    let saved = [(RBP, Rule::Cfa(-16))];
    let found = |base| {
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (4, (RBP, 16), &saved),
            (8, (base, 16), &saved),
            (9, (RSP, 8), &[]),
        ])
    };
    assert_eq!(found(RBP), []);
    assert_eq!(found(RSP), [(Kind::NoInstruction, 8)]);
}

#[test]
fn a_finding_covers_all_rows_with_the_same_fault() {
    // push rbx; push rbp; pop rbp; pop rbx; ret
    let function = Function::new(Arch::Amd64, &[0x53, 0x55, 0x5d, 0x5b, 0xc3]);
    let findings = function.judged(&[(0, (RSP, 8), &[]), (2, (RSP, 16), &[]), (3, (RSP, 8), &[])]).findings;
    let first = findings.first().map(|finding| (finding.kind, finding.wrong));
    assert_eq!(first, Some((Kind::NoRow, (1, 4))));
}

/// The row takes a register for the CFA that the instruction before has given another value.
#[test]
fn the_cfa_is_in_no_register_that_was_computed() {
    let (rax, saved) = (Register(0), [(RBX, Rule::Cfa(-16))]);
    // push rbx; three bytes; pop rbx; ret
    let found = |three: [u8; 3]| {
        let bytes = [&[0x53][..], &three, &[0x5b, 0xc3]].concat();
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &saved),
            (4, (rax, 16), &saved),
            (5, (RSP, 8), &[]),
        ])
    };
    let imul = [0x0f, 0xaf, 0xc7];
    let call = [0x90, 0xff, 0xd7];
    let load = [0x48, 0x8b, 0x07];
    let add = [0x48, 0x01, 0xf8];
    assert_eq!(found(imul), [(Kind::NoInstruction, 4)]);
    assert_eq!(found(add), [(Kind::NoInstruction, 4)]);
    assert_eq!(found(call), [(Kind::NoInstruction, 4)]);
    assert_eq!(found(load), []);
}

#[test]
fn the_stack_pointer_is_followed_where_an_unknown_amount_is_taken_off() {
    // push rbp; mov rbp, rsp; mov rax, rsp; sub rax, rdi; mov rsp, rax; leave; ret
    let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xe0, 0x48, 0x29, 0xf8, 0x48, 0x89, 0xc4, 0xc9, 0xc3];
    let saved = [(RBP, Rule::Cfa(-16))];
    let found = |base| {
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (4, (base, 16), &saved), (14, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &bytes).found(&rows)
    };
    assert_eq!(found(RBP), []);
    assert_eq!(found(RSP), [(Kind::NoRow, 13)]);
}

/// The register may have the caller's value, or another one.
#[test]
fn the_cfa_is_in_no_register_that_paths_disagree_about() {
    // sub sp, sp, #16; and x29, x29, x1; nop; add sp, sp, #16; ret
    let words = [0xd100_43ff_u32, 0x8a01_03bd, 0xd503_201f, 0x9100_43ff, 0xd65f_03c0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let found = |base| {
        let rows: [Described<'_>; 4] =
            [(0, (SP, 0), &[]), (4, (SP, 16), &[]), (12, (base, 16), &[]), (16, (SP, 0), &[])];
        Function::new(Arch::Aarch64, &bytes).found(&rows)
    };
    assert_eq!(found(SP), []);
    assert_eq!(found(X29), [(Kind::NoInstruction, 12)]);
}

#[test]
fn the_cfa_is_at_no_address_from_a_jump_table() {
    // lea rdx, [rip+64]; movsxd rax, [rdx+rdi*4]; add rax, rdx; jmp rax
    let bytes =
        [0x48, 0x8d, 0x15, 0x40, 0x00, 0x00, 0x00, 0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff, 0xe0];
    let function = Function::new(Arch::Amd64, &bytes);
    let rax = Register(0);
    assert_eq!(function.found(&[(0, (RSP, 8), &[]), (14, (rax, 8), &[])]), [(Kind::NoInstruction, 14)]);
}

/// The CFA is 8 bytes too high after the first push, and 8 bytes too low after the second.
#[test]
fn another_fault_is_another_finding() {
    // push rbx; push rbp; pop rbp; pop rbx; ret
    let function = Function::new(Arch::Amd64, &[0x53, 0x55, 0x5d, 0x5b, 0xc3]);
    let rows: [Described<'_>; 5] = [
        (0, (RSP, 8), &[]),
        (1, (RSP, 24), &[]),
        (2, (RSP, 16), &[]),
        (3, (RSP, 16), &[]),
        (4, (RSP, 8), &[]),
    ];
    let findings = function.judged(&rows).findings;
    let mut wrong: Vec<_> = findings.iter().map(|finding| (finding.wrong, finding.continues)).collect();
    wrong.sort_unstable();
    assert_eq!(wrong, [((1, 2), false), ((2, 3), false), ((3, 3), true)]);
}

/// The called function may have kept r10, so the CFA after the call is not decided. The loop's row is for another frame.
#[test]
fn a_wrong_row_of_a_loop_after_an_undecided_row_is_found() {
    let bytes = [
        0x4c, 0x8d, 0x54, 0x24, 0x08, // 0: lea r10, [rsp+8]
        0x53, // 5: push rbx
        0xff, 0xd6, // 6: call rsi
        0x90, // 8: nop
        0xff, 0xcf, // 9: dec edi
        0x75, 0xfc, // b: jne 9
        0x5b, // d: pop rbx
        0xc3, // e: ret
    ];
    let (r10, saved) = (Register(10), [(RBX, Rule::Cfa(-16))]);
    let found = |offset| {
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (5, (r10, 0), &[]),
            (6, (r10, 0), &saved),
            (9, (RSP, offset), &saved),
            (14, (RSP, 8), &[]),
        ])
    };
    assert_eq!(found(16), []);
    assert_eq!(found(24), [(Kind::Branch, 9)]);
}
