//! Small functions with right and wrong rows. GNU as has assembled the functions.

use cfipack_code::{
    Analysis, CallSite, Code, Instructions, Judge, Judgement, Kind, NoMemory, Rows, State, Ways,
};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

const START: Address = Address(0x1000);
const RBX: Register = Register(3);
const RBP: Register = Register(6);
const RSP: Register = Register(7);
const X29: Register = Register(29);
const X30: Register = Register(30);
const SP: Register = Register(31);

/// A row: its offset, the register and the offset of the CFA, and the rules of saved registers.
type Described<'d> = (u32, (Register, i64), &'d [(Register, Rule)]);

/// A function with its rows.
struct Function<'f> {
    arch: Arch,
    bytes: &'f [u8],
    /// The offsets of a call and of its landing pad.
    pad: Option<(u32, u32)>,
    /// The stack pointer at the landing pad, in bytes from the CFA.
    stack: Option<i32>,
    red_zone: u32,
}

impl<'f> Function<'f> {
    fn new(arch: Arch, bytes: &'f [u8]) -> Self {
        Self { arch, bytes, pad: None, stack: None, red_zone: arch.red_zone() }
    }

    fn judged(&self, described: &[Described<'_>]) -> Judgement {
        self.with_judge(described, |judge| judge.judge())
    }

    fn with_judge<R>(&self, described: &[Described<'_>], look: impl FnOnce(&Judge<'_, '_>) -> R) -> R {
        self.with_rows(described, |_| {}, look)
    }

    /// Judges the rows after `change` has changed them.
    fn with_rows<R>(
        &self,
        described: &[Described<'_>],
        change: impl FnOnce(&mut Rows),
        look: impl FnOnce(&Judge<'_, '_>) -> R,
    ) -> R {
        let mut rows = Rows::new();
        for (start, (register, offset), rules) in described {
            let of = |register: Register, other| {
                rules.iter().find(|rule| rule.0 == register).map_or(other, |rule| rule.1)
            };
            let entry = Row::at_entry(self.arch);
            let row = Row {
                start: FunctionOffset(*start),
                cfa: Cfa::Register { register: *register, offset: *offset },
                return_address: of(self.arch.return_address(), entry.return_address),
                frame_pointer: of(self.arch.frame_pointer(), entry.frame_pointer),
                ..entry
            };
            let named = [self.arch.return_address(), self.arch.frame_pointer()];
            let saved: Vec<_> = rules.iter().filter(|rule| !named.contains(&rule.0)).copied().collect();
            rows.push(row, &saved);
        }
        change(&mut rows);
        let code = Code { arch: self.arch, start: START, bytes: self.bytes, relocated: &[] };
        let instructions = Instructions::new(&code);
        let entry = State::at_entry(self.arch);
        let site = self.pad.map(|(call, pad)| CallSite {
            start: call,
            end: call + 1,
            landing_pad: START.offset(pad.into()),
            stack: self.stack,
        });
        let ways = Ways { start: Some(&entry), entries: &[], call_sites: site.as_slice(), noreturn: &[] };
        let analysis = Analysis::new(code, &instructions, &NoMemory, ways);
        look(&Judge::new(&analysis, &rows, self.red_zone))
    }

    /// Returns the kinds of the findings with the offsets where the wrong rows start.
    fn found(&self, described: &[Described<'_>]) -> Vec<(Kind, u32)> {
        let findings = self.judged(described).findings.into_iter().filter(|finding| !finding.continues);
        findings.map(|finding| (finding.kind, finding.wrong.0)).collect()
    }
}

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

/// push rbx; xor ebx, ebx; call rdi; pop rbx; ret
const SAVES_RBX: [u8; 7] = [0x53, 0x31, 0xdb, 0xff, 0xd7, 0x5b, 0xc3];

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
        (RBX, Rule::Undefined),
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
}

#[test]
fn a_finding_covers_all_rows_with_the_same_fault() {
    // push rbx; push rbp; pop rbp; pop rbx; ret
    let function = Function::new(Arch::Amd64, &[0x53, 0x55, 0x5d, 0x5b, 0xc3]);
    let findings = function.judged(&[(0, (RSP, 8), &[]), (2, (RSP, 16), &[]), (3, (RSP, 8), &[])]).findings;
    let first = findings.first().map(|finding| (finding.kind, finding.wrong));
    assert_eq!(first, Some((Kind::NoRow, (1, 4))));
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
    assert_eq!(found(imul), [(Kind::NoInstruction, 4)]);
    assert_eq!(found(call), [(Kind::NoInstruction, 4)]);
    assert_eq!(found(load), []);
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
