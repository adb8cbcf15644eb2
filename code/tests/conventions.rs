//! Functions that do not keep registers for their callers, as those of some runtimes: neither they nor the functions that
//! call them get rows.

use cfipack_code::{Candidate, Code, NoMemory, Omission, Surroundings, synthesize};
use cfipack_format::{Address, Arch};

/// Returns for each function why it gets no rows. Each takes 16 bytes from 0x1000 on.
fn reasons(functions: &[Vec<u8>]) -> Vec<Option<Omission>> {
    let candidates: Vec<_> = functions
        .iter()
        .zip((0x1000..).step_by(16))
        .map(|(bytes, start)| {
            let code = Code { arch: Arch::Amd64, start: Address(start), bytes, relocated: &[] };
            Candidate { code, call_sites: &[], noreturn: &[], is_known: true, is_exported: true }
        })
        .collect();
    let around = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
    let all = synthesize(&candidates, &around, &NoMemory);
    all.into_iter().map(|rows| rows.err().map(|refused| refused.omission)).collect()
}

/// Returns a call from a function's offset to another function, by their numbers.
fn call(from: usize, offset: usize, to: usize) -> Vec<u8> {
    let distance = (16 * to) as i32 - (16 * from + offset + 5) as i32;
    [&[0xe8][..], &distance.to_le_bytes()].concat()
}

/// xor ebp, ebp; ret
const CHANGES: [u8; 3] = [0x31, 0xed, 0xc3];

#[test]
fn a_function_changes_registers_if_a_function_that_it_calls_does() {
    let saving = [vec![0x55], call(3, 1, 2), vec![0x5d, 0xc3]].concat(); // push rbp; call 2; pop rbp; ret
    let functions = [
        CHANGES.to_vec(),
        [call(1, 0, 0), vec![0xc3]].concat(),
        [call(2, 0, 1), vec![0xc3]].concat(),
        saving,
        [call(4, 0, 3), vec![0xc3]].concat(),
    ];
    let odd = Some(Omission::OddCall);
    // Nearly all functions keep registers, so a call by a pointer does too (call rax; ret).
    let others = vec![vec![0xff, 0xd0, 0xc3]; 12];
    let reasons = reasons(&[&functions[..], &others].concat());
    assert_eq!(reasons[..5], [Some(Omission::FramePointer), odd, odd, odd, None]);
    assert!(reasons[5..].iter().all(Option::is_none));
}

#[test]
fn where_many_functions_change_registers_a_pointer_may_lead_to_one() {
    let calling = vec![0xff, 0xd0, 0xc3]; // call rax; ret
    let saving = vec![0x55, 0xff, 0xd0, 0x5d, 0xc3]; // push rbp; call rax; pop rbp; ret
    let leaf = vec![0x90, 0xc3];
    let functions = [CHANGES.to_vec(), CHANGES.to_vec(), calling, leaf, saving];
    let odd = Some(Omission::OddCall);
    let changes = Some(Omission::FramePointer);
    assert_eq!(reasons(&functions), [changes, changes, odd, None, odd]);
}

/// A function that ends with a jump changes what the function changes that it jumps to.
#[test]
fn a_function_changes_registers_if_a_function_that_it_jumps_to_does() {
    let jump = |from, to| [&[0xe9], &call(from, 0, to)[1..]].concat();
    let skips = vec![0x50, 0xc3]; // push rax; ret
    let functions = [
        CHANGES.to_vec(),
        jump(1, 0),
        jump(2, 1),
        [call(3, 0, 2), vec![0xc3]].concat(),
        skips,
        jump(5, 4),
        [call(6, 0, 5), vec![0xc3]].concat(),
        jump(7, 8),
        vec![0x90, 0xc3],
    ];
    // Nearly all functions keep registers, so a jump to an unknown address does too (jmp rax).
    let others = vec![vec![0xff, 0xe0]; 20];
    let reasons = reasons(&[&functions[..], &others].concat());
    let odd = Some(Omission::OddCall);
    let stack = Some(Omission::StackAtReturn);
    assert_eq!(reasons[..9], [Some(Omission::FramePointer), None, None, odd, stack, None, odd, None, None]);
    assert!(reasons[9..].iter().all(Option::is_none));
}

/// As in Haskell's code, where the stack pointer is no register of the program's own stack.
#[test]
fn where_many_functions_change_registers_a_jump_out_of_the_known_code_is_odd() {
    let pointer = vec![0xff, 0x65, 0]; // jmp [rbp]
    let stub = vec![0xff, 0x25, 0, 0, 0, 1]; // jmp [rip+0x1000000]
    let out = vec![0xe9, 0, 0, 1, 0];
    let functions = [CHANGES.to_vec(), pointer, stub, out, vec![0x90, 0xc3]];
    let odd = Some(Omission::OddCall);
    assert_eq!(reasons(&functions), [Some(Omission::FramePointer), odd, None, odd, None]);
}
