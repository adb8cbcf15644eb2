//! Tests odd code with right rows, and the same code with a wrong row. GNU as made the bytes.

use cfipack_code::{Analysis, Code, Doubt, Instructions, Judge, Kind, Memory, NoMemory, Rows, State, Ways};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

const START: u64 = 0x1000;
const RSP: u16 = 7;
const SP: u16 = 31;

/// A row: its start, the register and offset of the CFA, and the offsets from the CFA where registers are stored.
type Written<'r> = (u32, (u16, i64), &'r [(u16, i64)]);

/// Returns the offset and the kind of each finding, and the doubts.
fn judged(
    arch: Arch,
    bytes: &[u8],
    memory: &dyn Memory,
    written: &[Written<'_>],
) -> (Vec<(u32, Kind)>, Vec<Doubt>) {
    let mut rows = Rows::new();
    for (start, (register, offset), stored) in written {
        let cfa = Cfa::Register { register: Register(*register), offset: *offset };
        let mut row = Row { start: FunctionOffset(*start), cfa, ..Row::at_entry(arch) };
        let mut saved = Vec::new();
        for (register, offset) in *stored {
            let (register, rule) = (Register(*register), Rule::Cfa(*offset));
            if register == arch.frame_pointer() {
                row.frame_pointer = rule;
            } else if register == arch.return_address() {
                row.return_address = rule;
            } else {
                saved.push((register, rule));
            }
        }
        rows.push(row, &saved);
    }
    let code = Code { arch, start: Address(START), bytes, relocated: &[] };
    let instructions = Instructions::new(&code);
    let entry = State::at_entry(arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    let analysis = Analysis::new(code, &instructions, memory, ways);
    let findings = Judge::new(&analysis, &rows, arch.red_zone()).judge().findings.into_iter();
    let findings = findings.filter(|finding| !finding.continues);
    let findings = findings.map(|found| (instructions.offset(found.index), found.kind));
    (findings.collect(), analysis.doubts().map(|doubt| doubt.0).collect())
}

fn x86(bytes: &[u8], written: &[Written<'_>]) -> (Vec<(u32, Kind)>, Vec<Doubt>) {
    judged(Arch::Amd64, bytes, &NoMemory, written)
}

fn aarch64(words: &[u32], written: &[Written<'_>]) -> Vec<(u32, Kind)> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    judged(Arch::Aarch64, &bytes, &NoMemory, written).0
}

/// The compiler of glibc 2.43 writes six bytes 0x05 after a call that never returns.
#[test]
fn code_starts_at_the_target_of_a_branch() {
    let bytes = [
        0x48, 0x39, 0xf7, // 0: cmp rdi, rsi
        0x76, 0x0c, // 3: jbe 0x11
        0x50, // 5: push rax
        0xe8, 0xfb, 0x0f, 0, 0, // 6: call
        5, 5, 5, 5, 5, 5, // b: no code
        0x89, 0xf3, // 11: mov ebx, esi
        0x55, // 13: push rbp
        0x5d, // 14: pop rbp
        0xc3, // 15: ret
    ];
    let found = |pushed: i64| {
        let rows: [Written<'_>; 5] = [
            (0, (RSP, 8), &[]),
            (6, (RSP, 16), &[]),
            (0xb, (RSP, 8), &[]),
            (0x14, (RSP, pushed), &[(6, -16)]),
            (0x15, (RSP, 8), &[]),
        ];
        x86(&bytes, &rows)
    };
    assert_eq!(found(16), (vec![], vec![Doubt::NotReached]));
    assert_eq!(found(24).0, [(0x14, Kind::Mismatch)]);
}

/// A row that starts inside an instruction is a finding only if a path leads to the instruction.
#[test]
fn only_reached_instructions_are_accused_of_a_boundary() {
    let rows: [Written<'_>; 2] = [(0, (RSP, 8), &[]), (2, (RSP, 8), &[])];
    // ret, then bytes that decode as add eax, imm32; add eax, imm32, then ret.
    assert_eq!(x86(&[0xc3, 5, 5, 5, 5, 5], &rows).0, []);
    assert_eq!(x86(&[0x90, 5, 5, 5, 5, 5, 0xc3], &rows).0, [(1, Kind::Boundary)]);
}

/// glibc jumps over the prefix `lock` if the process has one thread.
#[test]
fn a_branch_over_a_prefix_is_followed() {
    let bytes = [
        0x85, 0xc0, // test eax, eax
        0x74, 0x01, // je 5
        0xf0, 0x0f, 0xb1, 0x0f, // lock cmpxchg [rdi], ecx
        0xc3, // ret
    ];
    assert_eq!(x86(&bytes, &[(0, (RSP, 8), &[])]), (vec![], vec![]));
    assert_eq!(x86(&bytes, &[(0, (RSP, 8), &[]), (8, (RSP, 16), &[])]).0, [(8, Kind::NoInstruction)]);
}

/// After a switch of stacks, the rows go on for the other stack.
#[test]
fn another_stack_proves_nothing() {
    let found = |switch: [u8; 3]| {
        // push rbx; mov [rdi], rsp; the switch; pop rbx; ret
        let bytes = [&[0x53, 0x48, 0x89, 0x27][..], &switch, &[0x5b, 0xc3]].concat();
        let pushed: &[(u16, i64)] = &[(3, -16)];
        x86(&bytes, &[(0, (RSP, 8), &[]), (1, (RSP, 16), pushed), (8, (RSP, 8), &[])]).0
    };
    // mov rsp, [rsi]
    assert_eq!(found([0x48, 0x8b, 0x26]), []);
    // sub rsp, rsi
    assert_eq!(found([0x48, 0x29, 0xf4]), [(4, Kind::NoRow)]);
}

/// An epilogue without rows is one fault: the row is wrong up to the end.
#[test]
fn one_missing_row_is_one_finding() {
    let bytes = [
        0x55, // 0: push rbp
        0x53, // 1: push rbx
        0x48, 0x83, 0xec, 0x28, // 2: sub rsp, 40
        0xff, 0xd7, // 6: call rdi
        0x48, 0x83, 0xc4, 0x28, // 8: add rsp, 40
        0x5b, // c: pop rbx
        0x5d, // d: pop rbp
        0xc3, // e: ret
    ];
    let rbp: &[(u16, i64)] = &[(6, -16)];
    let both: &[(u16, i64)] = &[(6, -16), (3, -24)];
    let mut rows: Vec<Written<'_>> =
        vec![(0, (RSP, 8), &[]), (1, (RSP, 16), rbp), (2, (RSP, 24), both), (6, (RSP, 64), both)];
    assert_eq!(x86(&bytes, &rows).0, [(8, Kind::NoRow)]);
    // Another row starts, and it is wrong in another way.
    rows.push((0xd, (RSP, 40), both));
    assert_eq!(x86(&bytes, &rows).0, [(8, Kind::NoRow), (0xd, Kind::Mismatch)]);
}

/// Without a default case LLVM compares no index, and the next function's table follows.
#[test]
fn a_table_ends_where_other_code_mentions_data() {
    struct Table(Vec<u8>, Option<Address>);
    impl Memory for Table {
        fn at(&self, address: Address) -> &[u8] {
            if address == Address(0x2000) { &self.0 } else { &[] }
        }

        fn next_data(&self, address: Address) -> Option<Address> {
            self.1.filter(|next| *next > address)
        }
    }
    let bytes = [
        0x50, // 0: push rax
        0x48, 0x8d, 0x15, 0xf8, 0x0f, 0, 0, // 1: lea rdx, [rip+0xff8]: 0x2000
        0x48, 0x63, 0x04, 0x82, // 8: movsxd rax, [rdx+4*rax]
        0x48, 0x01, 0xd0, // c: add rax, rdx
        0xff, 0xe0, // f: jmp rax
        0x31, 0xc0, // 11: xor eax, eax
        0x58, // 13: pop rax
        0xc3, // 14: ret
    ];
    // The second entry belongs to the next table. With this table's base it leads to the return.
    let entries = [0x1011_i32 - 0x2000, 0x1014 - 0x2000];
    let entries: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    let rows: [Written<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &[]), (0x14, (RSP, 8), &[])];
    let judged = |next| judged(Arch::Amd64, &bytes, &Table(entries.clone(), next), &rows);
    assert_eq!(judged(Some(Address(0x2004))), (vec![], vec![]));
    assert_eq!(judged(None), (vec![], vec![Doubt::Conflict]));
}

/// GCC bounds the index by a comparison of 16 bits, extends it, and does other work before the jump.
#[test]
fn a_bound_stays_while_the_index_is_extended() {
    struct Table(Vec<u8>);
    impl Memory for Table {
        fn at(&self, address: Address) -> &[u8] {
            if address == Address(0x2000) { &self.0 } else { &[] }
        }
    }
    let bytes = [
        0x50, // 0: push rax
        0x83, 0xe8, 0x01, // 1: sub eax, 1
        0x66, 0x83, 0xf8, 0x01, // 4: cmp ax, 1
        0x77, 0x14, // 8: ja 0x1e
        0x0f, 0xb7, 0xc0, // a: movzx eax, ax
        0x48, 0x8d, 0x15, 0xec, 0x0f, 0, 0, // d: lea rdx, [rip+0xfec]: 0x2000
        0x83, 0xfe, 0x07, // 14: cmp esi, 7
        0x74, 0x05, // 17: je 0x1e
        0xff, 0x24, 0xc2, // 19: jmp [rdx+8*rax]
        0x58, // 1c: pop rax
        0xc3, // 1d: ret
        0x58, // 1e: pop rax
        0xc3, // 1f: ret
    ];
    // The entry after the bound belongs to another table. On its way the stack pointer would be wrong.
    let table = Table([0x101c_u64, 0x101e, 0x101d].iter().flat_map(|entry| entry.to_le_bytes()).collect());
    let rows = |popped: i64| {
        let rows: [Written<'_>; 5] = [
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), &[]),
            (0x1d, (RSP, popped), &[]),
            (0x1e, (RSP, 16), &[]),
            (0x1f, (RSP, 8), &[]),
        ];
        judged(Arch::Amd64, &bytes, &table, &rows)
    };
    assert_eq!(rows(8), (vec![], vec![]));
    assert_eq!(rows(16).0, [(0x1c, Kind::NoRow)]);
}

/// clang's shadow call stack on AArch64: x18 points to it, and called functions keep x18.
#[test]
fn a_value_outside_of_the_frame_is_loaded_back() {
    let frame: &[(u16, i64)] = &[(29, -16), (30, -8)];
    let rows: [Written<'_>; 3] = [(0, (SP, 0), &[]), (8, (SP, 16), frame), (0x10, (SP, 0), &[])];
    let found = |load: u32| {
        let code = [
            0xf800_865e, // str x30, [x18], #8
            0xa9bf_7bfd, // stp x29, x30, [sp, #-16]!
            0x9400_0400, // bl
            0xa8c1_7bfd, // ldp x29, x30, [sp], #16
            load,
            0xd65f_03c0, // ret
        ];
        aarch64(&code, &rows)
    };
    // ldr x30, [x18, #-8]!
    assert_eq!(found(0xf85f_8e5e), []);
    // ldr x30, [x18, #-16]!
    assert_eq!(found(0xf85f_0e5e), [(0x14, Kind::ReturnAddress)]);
}

/// A hook keeps the return address in a page at a fixed address.
#[test]
fn a_value_at_a_fixed_address_is_loaded_back() {
    let found = |load: u32| {
        let code = [
            0xd288_0008, // mov x8, #0x4000
            0xf2ae_0008, // movk x8, #0x7000, lsl #16
            0xf900_051e, // str x30, [x8, #8]
            0xf940_0d09, // ldr x9, [x8, #24]
            0xd288_0008, // mov x8, #0x4000
            0xf2ae_0008, // movk x8, #0x7000, lsl #16
            load,
            0xd65f_03c0, // ret
        ];
        aarch64(&code, &[(0, (SP, 0), &[])])
    };
    // ldr x30, [x8, #8]
    assert_eq!(found(0xf940_051e), []);
    // ldr x30, [x8, #16]
    assert_eq!(found(0xf940_091e), [(0x1c, Kind::ReturnAddress)]);
}

/// gccgo's split stacks: the function that gets more stack calls the jump after `call; ret`.
#[test]
fn code_after_a_call_for_more_stack_is_reached() {
    let head = [
        0x64, 0x48, 0x3b, 0x24, 0x25, 0x70, 0, 0, 0, // 0: cmp rsp, fs:[0x70]
        0x72, 0x03, // 9: jb 0xe
        0x53, // b: push rbx
        0x5b, // c: pop rbx
        0xc3, // d: ret
        0x41, 0xba, 0x08, 0, 0, 0, // e: mov r10d, 8
        0xe8, 0xfb, 0x0f, 0, 0,    // 14: call
        0xc3, // 19: ret
    ];
    // 1a: jmp 0xb, and with a call of `mcount` before it, as `-pg` has it.
    for end in [&[0xeb, 0xef][..], &[0xff, 0xd0, 0xeb, 0xed]] {
        let bytes = [&head[..], end].concat();
        let rows = |pushed: i64| {
            let rows: [Written<'_>; 3] =
                [(0, (RSP, 8), &[]), (0xc, (RSP, pushed), &[(3, -16)]), (0xd, (RSP, 8), &[])];
            x86(&bytes, &rows)
        };
        assert_eq!(rows(16), (vec![], vec![]));
        assert_eq!(rows(24), (vec![(0xc, Kind::Mismatch)], vec![]));
    }
}

/// With `-pg -mfentry`, a function starts with a call too. Only `ret` after the call shows a split stack.
#[test]
fn a_call_at_the_start_returns() {
    // call; push rbx; jmp 8; pop rbx; ret
    let bytes = [0xe8, 0xfb, 0x0f, 0, 0, 0x53, 0xeb, 0, 0x5b, 0xc3];
    let rows = |pushed: i64| {
        let rows: [Written<'_>; 3] =
            [(0, (RSP, 8), &[]), (6, (RSP, pushed), &[(3, -16)]), (9, (RSP, 8), &[])];
        x86(&bytes, &rows)
    };
    assert_eq!(rows(16), (vec![], vec![]));
    assert_eq!(rows(24), (vec![(6, Kind::Mismatch)], vec![]));
}

/// GCC's `-mfunction-return=thunk-inline`: the call skips over a trap for speculation. The row at its target has the
/// pushed address, or a frame of its own that returns into the function, as in subroutines of OpenSSL.
#[test]
fn a_call_within_the_function_pushes_an_address() {
    let bytes = [
        0x53, // 0: push rbx
        0xe8, 0x07, 0, 0, 0, // 1: call 0xd
        0xf3, 0x90, // 6: pause
        0x0f, 0xae, 0xe8, // 8: lfence
        0xeb, 0xf9, // b: jmp 6
        0x48, 0x8d, 0x64, 0x24, 0x08, // d: lea rsp, [rsp+8]
        0x5b, // 12: pop rbx
        0xc3, // 13: ret
    ];
    let rbx: &[(u16, i64)] = &[(3, -16)];
    let rows = |called: (i64, &[(u16, i64)])| {
        let rows: [Written<'_>; 5] = [
            (0, (RSP, 8), &[]),
            (1, (RSP, 16), rbx),
            (0xd, (RSP, called.0), called.1),
            (0x12, (RSP, 16), rbx),
            (0x13, (RSP, 8), &[]),
        ];
        x86(&bytes, &rows)
    };
    assert_eq!(rows((24, rbx)), (vec![], vec![]));
    assert_eq!(rows((8, &[])), (vec![], vec![]));
    assert_eq!(rows((16, rbx)).0, [(1, Kind::Branch)]);
}

/// `__builtin_eh_return` adds the distance to another frame to the stack pointer, where the own frame is gone.
#[test]
fn a_stack_pointer_of_another_frame_proves_nothing() {
    // add sp, sp, x4; br x5
    assert_eq!(aarch64(&[0x8b24_63ff, 0xd61f_00a0], &[(0, (SP, 0), &[])]), []);
    // sub sp, sp, x4; br x5
    assert_eq!(aarch64(&[0xcb24_63ff, 0xd61f_00a0], &[(0, (SP, 0), &[])]), [(0, Kind::NoRow)]);
}

/// Compilers put barriers after returns and indirect jumps with `-mharden-sls`.
#[test]
fn barriers_after_a_return_are_no_unreached_code() {
    let doubts = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        judged(Arch::Aarch64, &bytes, &NoMemory, &[(0, (SP, 0), &[])]).1
    };
    let (ret, dsb, isb, sb, mov) = (0xd65f_03c0, 0xd503_3f9f, 0xd503_3fdf, 0xd503_30ff, 0xd280_0000);
    // cbz x0, 0x10
    let cbz = 0xb400_0080;
    assert_eq!(doubts(&[cbz, ret, dsb, isb, ret, sb]), []);
    assert_eq!(doubts(&[ret, mov, dsb]), [Doubt::NotReached]);
    assert_eq!(doubts(&[isb, ret]), []);
}

/// clang's `-mspeculative-load-hardening` masks the return address before a return. All bits of the mask are set.
#[test]
fn a_masked_return_address_is_not_accused() {
    let frame: &[(u16, i64)] = &[(29, -16), (30, -8)];
    let found = |mask: u32| {
        // stp x29, x30, [sp, #-16]!; bl; ldp x29, x30, [sp], #16; the mask; ret
        let code = [0xa9bf_7bfd, 0x9400_0400, 0xa8c1_7bfd, mask, 0xd65f_03c0];
        aarch64(&code, &[(0, (SP, 0), &[]), (4, (SP, 16), frame), (12, (SP, 0), &[])])
    };
    // and x30, x30, x16
    assert_eq!(found(0x8a10_03de), []);
    // and x30, x17, x16
    assert_eq!(found(0x8a10_023e), [(16, Kind::ReturnAddress)]);
}

/// A comparison of the stack pointer with a register of the same value decides a branch, as at the end of a stack probe.
#[test]
fn a_branch_that_is_decided_has_one_way() {
    // mov r11, rsp; cmp rsp, r11; je 9; push rbx; ret
    let bytes = [0x49, 0x89, 0xe3, 0x4c, 0x39, 0xdc, 0x74, 0x01, 0x53, 0xc3];
    assert_eq!(x86(&bytes, &[(0, (RSP, 8), &[])]), (vec![], vec![Doubt::NotReached]));
}

/// A bound that is too high makes a table lead out of the function. No function returns there, with or without rbx.
#[test]
fn a_jump_through_a_table_is_no_return() {
    struct Table([u8; 8]);
    impl Memory for Table {
        fn at(&self, address: Address) -> &[u8] {
            address.0.checked_sub(0x2000).and_then(|offset| self.0.get(offset as usize..)).unwrap_or_default()
        }
    }
    let bytes = [
        0x48, 0x89, 0x5c, 0x24, 0xf8, // 0: mov [rsp-8], rbx
        0x31, 0xdb, // 5: xor ebx, ebx
        0x83, 0xff, 0x01, // 7: cmp edi, 1
        0x77, 0x10, // a: ja 0x1c
        0x48, 0x8d, 0x15, 0xed, 0x0f, 0, 0, // c: lea rdx, [rip+0xfed]: 0x2000
        0x48, 0x63, 0x04, 0xba, // 13: movsxd rax, [rdx+4*rdi]
        0x48, 0x01, 0xd0, // 17: add rax, rdx
        0xff, 0xe0, // 1a: jmp rax
        0x48, 0x8b, 0x5c, 0x24, 0xf8, // 1c: mov rbx, [rsp-8]
        0xc3, // 21: ret
    ];
    let [first, second] = [0x1c_i32, 0x400].map(|target| (0x1000 + target - 0x2000).to_le_bytes());
    let table = Table([first, second].concat().try_into().unwrap());
    let found = |saved: &[(u16, i64)]| {
        let rows: [Written<'_>; 2] = [(0, (RSP, 8), &[]), (5, (RSP, 8), saved)];
        judged(Arch::Amd64, &bytes, &table, &rows).0
    };
    assert_eq!(found(&[(3, -16)]), []);
    assert_eq!(found(&[]), [(7, Kind::LostRegister)]);
}
