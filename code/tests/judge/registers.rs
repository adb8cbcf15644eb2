//! Rules of saved registers and of the return address.

use cfipack_code::{Judgement, Kind, Rows};
use cfipack_format::{Arch, Register, Rule};

use super::{Described, Function, RBP, RBX, RSP, SAVES_RBX, SP, X29, X30};

fn judged_with(register: Register, rule: Rule) -> Judgement {
    let saved = [(RBX, Rule::Cfa(-16))];
    let mut rules: Vec<_> = saved.into_iter().filter(|saved| saved.0 != register).collect();
    rules.push((register, rule));
    rules.sort_by_key(|rule| rule.0);
    let function = Function::new(Arch::Amd64, &SAVES_RBX);
    function.judged(&[(0, (RSP, 8), &[]), (1, (RSP, 16), &rules), (6, (RSP, 8), &[])])
}

#[test]
fn every_form_of_a_rule_is_judged() {
    let ra = Arch::Amd64.return_address();
    let right = [
        (RBX, Rule::Memory { register: RSP, offset: 0 }),
        (RSP, Rule::ValCfa(0)),
        (RSP, Rule::Register { register: RSP, offset: 16 }),
        (ra, Rule::Memory { register: RSP, offset: 8 }),
    ];
    for (register, rule) in right {
        let judgement = judged_with(register, rule);
        assert_eq!((judgement.findings.len(), judgement.undecided), (0, 0), "{register:?} {rule:?}");
    }
    let wrong = [
        (RBX, Rule::ValCfa(-16), Kind::SavedRegister),
        (RBX, Rule::Register { register: RSP, offset: 8 }, Kind::SavedRegister),
        (RBX, Rule::Memory { register: RSP, offset: 8 }, Kind::SavedRegister),
        (RSP, Rule::ValCfa(8), Kind::SavedRegister),
        (RSP, Rule::Cfa(-16), Kind::SavedRegister),
        (ra, Rule::ValCfa(-16), Kind::ReturnAddress),
        (ra, Rule::Register { register: RSP, offset: 8 }, Kind::ReturnAddress),
    ];
    for (register, rule, kind) in wrong {
        let findings = judged_with(register, rule).findings;
        let kinds: Vec<_> = findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(kinds, [kind], "{register:?} {rule:?}");
    }
}

#[test]
fn rules_that_cannot_be_evaluated_are_not_decided() {
    let rdi = Register(5);
    for (register, rule) in [
        (RBX, Rule::Expression),
        (RSP, Rule::Expression),
        (Arch::Amd64.return_address(), Rule::Expression),
        (RBX, Rule::Memory { register: rdi, offset: 8 }),
    ] {
        let judgement = judged_with(register, rule);
        assert_eq!(judgement.findings, [], "{register:?} {rule:?}");
        assert_eq!((judgement.right, judgement.undecided), (2, 3), "{register:?} {rule:?}");
        assert_eq!(judgement.first_undecided, Some(1));
    }
}

#[test]
fn a_missing_save_is_found_without_a_return() {
    // push rbx; mov rbx, rdi; call rdi; pop rbx; jmp elsewhere
    let tail = [0x53, 0x48, 0x89, 0xfb, 0xff, 0xd7, 0x5b, 0xe9, 0xfb, 0, 0, 0];
    // push rbx; mov rbx, rdi; call rdi; jmp back
    let never = [0x53, 0x48, 0x89, 0xfb, 0xff, 0xd7, 0xeb, 0xfc];
    for (bytes, rows) in [(&tail[..], 3), (&never, 2)] {
        let found = |saved: &[(Register, Rule)]| {
            let all: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), saved), (7, (RSP, 8), &[])];
            Function::new(Arch::Amd64, bytes).found(&all[..rows])
        };
        assert_eq!(found(&[(RBX, Rule::Cfa(-16))]), []);
        assert_eq!(found(&[]), [(Kind::LostRegister, 4)], "{bytes:x?}");
    }
    // push rax; mov rbx, rdi; call rdi; jmp back: the caller knows that rbx is lost.
    let unsaved = [0x50, 0x48, 0x89, 0xfb, 0xff, 0xd7, 0xeb, 0xfc];
    assert_eq!(Function::new(Arch::Amd64, &unsaved).found(&[(0, (RSP, 8), &[]), (1, (RSP, 16), &[])]), []);
}

/// gcc's `-mcall-ms2sysv-xlogues` calls a function that saves registers, and jumps to one that restores them and returns.
#[test]
fn registers_that_others_may_save_are_not_decided() {
    // sub rsp, 24; call save; mov ebx, edi; jmp restore
    let code = [0x48, 0x83, 0xec, 24, 0xe8, 0, 1, 0, 0, 0x89, 0xfb, 0xe9, 0, 1, 0, 0];
    let judgement = Function::new(Arch::Amd64, &code).judged(&[(0, (RSP, 8), &[]), (4, (RSP, 32), &[])]);
    assert_eq!(judgement.findings, []);
    assert_eq!((judgement.right, judgement.undecided, judgement.first_undecided), (3, 1, Some(11)));
}

#[test]
fn nothing_is_saved_below_the_red_zone() {
    let saved = [(X29, Rule::Cfa(-32)), (Register(30), Rule::Cfa(-24))];
    // stp x29, x30, [sp, #-32]!; blr x0; ldp x29, x30, [sp], #32; mov x0, #1; ret
    let loads_first = [0xa9be_7bfd, 0xd63f_0000, 0xa8c2_7bfd, 0xd280_0020, 0xd65f_03c0];
    // stp x29, x30, [sp, #-32]!; blr x0; add sp, sp, #32; ldp x29, x30, [sp, #-32]; ret
    let loads_last = [0xa9be_7bfd, 0xd63f_0000, 0x9100_83ff, 0xa97e_7bfd, 0xd65f_03c0_u32];
    for words in [loads_first, loads_last] {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = |red_zone, after: &[(Register, Rule)]| {
            let function = Function { red_zone, ..Function::new(Arch::Aarch64, &bytes) };
            function.found(&[(0, (SP, 0), &[]), (4, (SP, 32), &saved), (12, (SP, 0), after)])
        };
        let wrong = found(Arch::Aarch64.red_zone(), &saved);
        assert_eq!(wrong, [(Kind::ReturnAddress, 12)], "{words:x?}");
        assert_eq!(found(Arch::Aarch64.red_zone_of_apple(), &saved), []);
    }
    // pop rbx; ret: 128 bytes below the stack pointer still count on x86-64.
    let saved = [(RBX, Rule::Cfa(-16))];
    let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (6, (RSP, 8), &saved)];
    assert_eq!(Function::new(Arch::Amd64, &SAVES_RBX).found(&rows), []);
}

/// One row is late, and several registers are wrong by it.
#[test]
fn one_wrong_row_is_one_finding() {
    // stp x19, x20, [sp, #-32]!; stp x29, x30, [sp, #16]; bl; ldp x29, x30, [sp, #16]; ldp x19, x20, [sp], #32; ret
    let words = [0xa9be_53f3_u32, 0xa901_7bfd, 0x9400_0400, 0xa941_7bfd, 0xa8c2_53f3, 0xd65f_03c0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let pair = [(Register(19), Rule::Cfa(-32)), (Register(20), Rule::Cfa(-24))];
    let all = [&pair[..], &[(X29, Rule::Cfa(-16)), (Register(30), Rule::Cfa(-8))]].concat();
    let judged = |last: &[(Register, Rule)]| {
        let rows: [Described<'_>; 4] =
            [(0, (SP, 0), &[]), (4, (SP, 32), &pair), (8, (SP, 32), &all), (20, (SP, 0), last)];
        Function::new(Arch::Aarch64, &bytes).judged(&rows).findings
    };
    assert_eq!(judged(&[]), []);
    let findings = judged(&all);
    let words: Vec<_> = findings.iter().map(|finding| (finding.kind, &*finding.words)).collect();
    let expected = "the row has the return address at CFA-8, where the next signal overwrites it; it is in x30; also wrong: x29, x20, x19";
    assert_eq!(words, [(Kind::ReturnAddress, expected)]);
}

/// A store over a saved register counts if the function restores the register from elsewhere.
#[test]
fn a_store_over_a_saved_register_is_found() {
    let saved = [(RBX, Rule::Cfa(-16))];
    let found = |bytes: &[u8], last: u32| {
        let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (last, (RSP, 8), &[])];
        Function::new(Arch::Amd64, bytes).found(&rows)
    };
    // push rbx; mov rdx, rbx; xor ebx, ebx; mov [rsp], rdi; nop; mov rbx, rdx; pop rax; ret
    let elsewhere =
        [0x53, 0x48, 0x89, 0xda, 0x31, 0xdb, 0x48, 0x89, 0x3c, 0x24, 0x90, 0x48, 0x89, 0xd3, 0x58, 0xc3];
    assert_eq!(found(&elsewhere, 15), [(Kind::SavedRegister, 10)]);
    // movups [rsp-8], xmm0 overwrites the same slot.
    let mut wide = elsewhere;
    wide[6..11].copy_from_slice(&[0x0f, 0x11, 0x44, 0x24, 0xf8]);
    assert_eq!(found(&wide, 15), [(Kind::SavedRegister, 11)]);
    // push rbx; xor ebx, ebx; mov [rsp], rdi; call rdi; pop rbx; ret: no path avoids the store.
    let always = [0x53, 0x31, 0xdb, 0x48, 0x89, 0x3c, 0x24, 0xff, 0xd7, 0x5b, 0xc3];
    assert_eq!(found(&always, 10), [(Kind::SavedRegister, 7)]);
}

/// GCC 16 expands `memcpy` of a few bytes with ways for sizes that do not occur. On these ways, the code stores over saved
/// registers and returns with wrong ones.
#[test]
fn a_store_on_a_way_that_is_never_taken_is_ignored() {
    let saved = [(RBX, Rule::Cfa(-16))];
    // push rbx; test esi, esi; je 9; a store; (mov rbx, rdi;) call; pop rbx; ret
    for (store, call) in [
        (&[0x0f, 0x11, 0x04, 0x24][..], &[0x48, 0x89, 0xfb, 0xff, 0xd7][..]), // movups [rsp], xmm0
        (&[0x48, 0x89, 0x04, 0x24], &[0x48, 0x89, 0xfb, 0xff, 0xd7]),         // mov [rsp], rax
        (&[0x48, 0x89, 0x44, 0x24, 0x08], &[0x48, 0x89, 0xfb, 0xff, 0xd7]),   // mov [rsp+8], rax
    ] {
        let head = [0x53, 0x85, 0xf6, 0x74, store.len() as u8];
        let bytes = [&head[..], store, call, &[0x5b, 0xc3]].concat();
        let last = bytes.len() as u32 - 1;
        let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &saved), (last, (RSP, 8), &[])];
        assert_eq!(Function::new(Arch::Amd64, &bytes).found(&rows), [], "{store:x?}");
    }
}

#[test]
fn a_part_of_an_argument_is_not_decided() {
    let (rsi, rdi) = (Register(4), Register(5));
    // mov ebx, esi; nop; ret
    let function = Function::new(Arch::Amd64, &[0x89, 0xf3, 0x90, 0xc3]);
    let judged = |from| {
        let rules = [(rsi, Rule::Register { register: from, offset: 0 })];
        let judgement = function.judged(&[(0, (RSP, 8), &[]), (2, (RSP, 8), &rules)]);
        (judgement.findings.len(), judgement.undecided)
    };
    assert_eq!(judged(RBX), (0, 2));
    assert_eq!(judged(rdi), (1, 0));
}

#[test]
fn a_value_rule_says_what_is_wrong() {
    let findings = judged_with(RBX, Rule::ValCfa(-16)).findings;
    assert_eq!(findings[0].words, "the row has rbx = CFA-16, which is not the caller's value; it is in rbx");
}

/// GCC writes these rules for frames with an alignment of their own. At the last instructions the frame is gone, and rbp is
/// the caller's again.
#[test]
fn a_rule_that_counts_from_the_register_of_a_lost_frame_is_wrong() {
    // push rbp; mov rbp, rsp; push rbx; call rdi; pop rbx; pop rbp; nop; ret
    let bytes = [0x55, 0x48, 0x89, 0xe5, 0x53, 0xff, 0xd7, 0x5b, 0x5d, 0x90, 0xc3];
    let (rbp, rbx) = (Rule::Memory { register: RBP, offset: 0 }, Rule::Memory { register: RBP, offset: -8 });
    let both = [(RBP, rbp), (RBX, rbx)];
    let found = |last: &[(Register, Rule)]| {
        Function::new(Arch::Amd64, &bytes).found(&[
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &[(RBP, Rule::Cfa(-16))]),
            (4, (RBP, 16), &both[..1]),
            (5, (RBP, 16), &both),
            (9, (RSP, 8), last),
        ])
    };
    assert_eq!(found(&[]), []);
    assert_eq!(found(&both), [(Kind::SavedRegister, 9)]);
    assert_eq!(found(&both[1..]), [(Kind::SavedRegister, 9)]);
}

#[test]
fn the_lowest_slot_of_a_frame_is_not_overwritten() {
    // stp x29, x30, [sp, #-16]!; bl; ldp x29, x30, [sp], #16; ret
    let words = [0xa9bf_7bfd_u32, 0x9400_0400, 0xa8c1_7bfd, 0xd65f_03c0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let saved = [
        (X29, Rule::Memory { register: SP, offset: 0 }),
        (Register(30), Rule::Memory { register: SP, offset: 8 }),
    ];
    let rows: [Described<'_>; 3] = [(0, (SP, 0), &[]), (4, (SP, 16), &saved), (12, (SP, 0), &[])];
    assert_eq!(Function::new(Arch::Aarch64, &bytes).found(&rows), []);
}

/// OCaml has no register that a called function keeps, and gets arguments in rbx. Its functions leave through handlers of
/// exceptions, so that not all of their ends are returns.
#[test]
fn registers_of_another_convention_are_not_lost() {
    let found = |bytes: &[u8]| Function::new(Arch::Amd64, bytes).found(&[(0, (RSP, 8), &[])]);
    // test eax, eax; je 9; mov rbx, [rbx]; mov eax, [rdi]; ret after a jump by a register
    let raises = [0x85, 0xc0, 0x74, 0x07, 0x31, 0xdb, 0x4c, 0x8b, 0x1e, 0xff, 0xe3, 0xc3];
    assert_eq!(found(&raises), []);
    // mov rdx, rbx; mov rax, [rbx]; xor ebx, ebx; mov rbx, rdx; ret: the code reads an argument by rbx.
    let reads = [0x48, 0x89, 0xda, 0x48, 0x8b, 0x03, 0x31, 0xdb, 0x48, 0x89, 0xd3, 0xc3];
    assert_eq!(found(&reads), []);
    // mov rdx, rbx; mov rax, [rdi]; xor ebx, ebx; mov rbx, rdx; ret
    let saves = [0x48, 0x89, 0xda, 0x48, 0x8b, 0x07, 0x31, 0xdb, 0x48, 0x89, 0xd3, 0xc3];
    assert_eq!(found(&saves), [(Kind::LostRegister, 8)]);
    // mov r8, rbx; mov rbx, rdi; nop; mov rbx, r8; jmp to another function: the copy in r8 is left over.
    let left_over = [0x49, 0x89, 0xd8, 0x48, 0x89, 0xfb, 0x90, 0x4c, 0x89, 0xc3, 0xe9, 0, 1, 0, 0];
    assert_eq!(found(&left_over), [(Kind::LostRegister, 6)]);
    // push rcx; mov [rsp], rbx; mov rbx, rdi; call rsi; nop; mov rbx, [rsp]; mov rax, [rbx]; pop rcx; ret: also after a call.
    let after_call = [
        0x51, 0x48, 0x89, 0x1c, 0x24, 0x48, 0x89, 0xfb, 0xff, 0xd6, 0x90, 0x48, 0x8b, 0x1c, 0x24, 0x48, 0x8b,
        0x03, 0x59, 0xc3,
    ];
    let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &[]), (19, (RSP, 8), &[])];
    assert_eq!(Function::new(Arch::Amd64, &after_call).found(&rows), []);
}

/// The functions of OCaml 4.13 that Debian 12's `ocamlopt` makes store an argument in rbx, put others there for calls, and
/// load it again. GNU `as` made the bytes.
#[test]
fn arguments_in_callee_saved_registers_are_not_lost() {
    let found = |uses: &[u8], call: &[u8]| {
        let bytes = [
            &[0x48, 0x83, 0xec, 0x18][..],   // 0: sub rsp, 24
            &[0x48, 0x89, 0x1c, 0x24],       // 4: mov [rsp], rbx
            uses,                            // 8
            &[0x31, 0xdb],                   // xor ebx, ebx
            call,                            //
            &[0xff, 0xd2],                   // call rdx
            &[0x48, 0x8b, 0x1c, 0x24],       // mov rbx, [rsp]
            &[0x48, 0x83, 0xc4, 0x18],       // add rsp, 24
            &[0xe9, 0x00, 0x10, 0x00, 0x00], // jmp to another function
        ]
        .concat();
        let end = bytes.len() as u32 - 5;
        let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (4, (RSP, 32), &[]), (end, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &bytes).found(&rows)
    };
    // cmp r15, [r14]: code asks whether there is a signal to handle.
    assert_eq!(found(&[0x4d, 0x3b, 0x3e], &[]), []);
    // movzx esi, byte ptr [rax+rbx]
    assert_eq!(found(&[0x0f, 0xb6, 0x34, 0x18], &[]), []);
    // cmp rax, rbx; cmp rbx, 1
    assert_eq!(found(&[0x48, 0x39, 0xd8], &[]), []);
    assert_eq!(found(&[0x48, 0x83, 0xfb, 0x01], &[]), []);
    // mov rdi, [rsp] before the call
    assert_eq!(found(&[], &[0x48, 0x8b, 0x3c, 0x24]), []);
    // Nothing of this: cmp rsi, [rdi]; mov rdi, [rsp+8].
    assert_eq!(found(&[0x48, 0x3b, 0x37], &[0x48, 0x8b, 0x7c, 0x24, 0x08]), [(Kind::LostRegister, 13)]);
}

/// OCaml 5 allocates by r15, and calls the garbage collector before it writes there. The function returns with r15 as it
/// was where it does not allocate. An argument in rbx is stored, and loaded for the next call.
#[test]
fn code_that_allocates_by_a_register_has_no_callee_saved_registers() {
    let allocates = [
        0x85, 0xc0, 0x74, 0x1a, // 0: test eax, eax; je 0x1e
        0x49, 0x83, 0xef, 0x18, // 4: sub r15, 24
        0x4d, 0x3b, 0x3e, 0x72, 0x12, // 8: cmp r15, [r14]; jb 0x1f
        0x49, 0x8d, 0x47, 0x08, // d: lea rax, [r15+8]
        0x48, 0x89, 0x78, 0xf8, // 11: mov [rax-8], rdi
        0x49, 0x8b, 0x66, 0x30, // 15: mov rsp, [r14+0x30]
        0x41, 0x5b, 0x41, 0xff, 0xe3, // 19: pop r11; jmp r11
        0xc3, // 1e: ret
        0xff, 0xd6, 0xeb, 0xea, // 1f: call rsi; jmp 0xd
    ];
    assert_eq!(Function::new(Arch::Amd64, &allocates).found(&[(0, (RSP, 8), &[])]), []);
    let found = |base: [u8; 2]| {
        let bytes = [
            &[0x51, 0x48, 0x89, 0x1c, 0x24][..], // 0: push rcx; mov [rsp], rbx
            &[0x31, 0xdb, 0xff, 0xd6],           // 5: xor ebx, ebx; call rsi
            &[base[0], 0x8d, base[1], 0x08],     // 9: lea rax, [r15+8] or [rdi+8]
            &[0x48, 0x89, 0x78, 0xf8],           // d: mov [rax-8], rdi
            &[0x48, 0x8b, 0x1c, 0x24],           // 11: mov rbx, [rsp]
            &[0x59, 0xc3],                       // 15: pop rcx; ret
        ];
        let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &[]), (0x16, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &bytes.concat()).found(&rows)
    };
    assert_eq!(found([0x49, 0x47]), []);
    assert_eq!(found([0x48, 0x47]), [(Kind::LostRegister, 7)]);
}

/// An unwinder authenticates the return address with the key that the CIE has.
#[test]
fn the_key_of_signed_return_addresses() {
    // GNU `as` made the words.
    let signs = |sign: u32, authenticate: u32, key_b| {
        // stp x29, x30, [sp, #-16]!; ldp x29, x30, [sp], #16; ret
        let words = [sign, 0xa9bf_7bfd, 0xa8c1_7bfd, authenticate, 0xd65f_03c0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let function = Function::new(Arch::Aarch64, &bytes);
        let saved = [(X29, Rule::Cfa(-16)), (X30, Rule::Cfa(-8))];
        let rows: [Described<'_>; 5] = [
            (0, (SP, 0), &[]),
            (4, (SP, 0), &[]),
            (8, (SP, 16), &saved),
            (12, (SP, 0), &[]),
            (16, (SP, 0), &[]),
        ];
        let signed = |rows: &mut Rows| {
            (1..4).for_each(|index| rows.row_mut(index).unwrap().signed = true);
            rows.set_key_b(key_b);
        };
        let findings = function.with_rows(&rows, signed, |judge| judge.judge()).findings.into_iter();
        findings.filter(|finding| !finding.continues).map(|finding| finding.kind).collect::<Vec<_>>()
    };
    // paciasp, autiasp; pacibsp, autibsp; paciaz, autiaz
    for (sign, authenticate, wrong) in [
        (0xd503_233f, 0xd503_23bf, Some(true)),
        (0xd503_237f, 0xd503_23ff, Some(false)),
        (0xd503_231f, 0xd503_239f, None),
    ] {
        for key_b in [false, true] {
            let expected = if wrong == Some(key_b) { vec![Kind::Signature] } else { vec![] };
            assert_eq!(signs(sign, authenticate, key_b), expected, "{sign:x} {key_b}");
        }
    }
}

/// The code has stored rbx in 8 bytes above those of the row, and rbx has the caller's value until it is changed.
#[test]
fn a_finding_says_where_the_value_is() {
    let words = |first| {
        let (right, wrong) = ([(RBX, Rule::Cfa(-16))], [(RBX, Rule::Cfa(-24))]);
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (1, (RSP, 16), &right), (first, (RSP, 16), &wrong), (6, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &SAVES_RBX).judged(&rows).findings.remove(0).words
    };
    assert!(words(1).ends_with("; it is in rbx"), "{}", words(1));
    assert!(words(3).ends_with("; it is at CFA-16"), "{}", words(3));
}
