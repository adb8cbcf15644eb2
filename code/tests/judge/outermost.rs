//! Rows without a return address, or without the value of a register.

use cfipack_code::Kind;
use cfipack_format::{Arch, Register, Rule};

use super::{Described, Function, RBX, RSP, SAVES_RBX, SP, X30};

const RA: Register = Register(16);
const OUTERMOST: [(Register, Rule); 1] = [(RA, Rule::Undefined)];

/// Returns the findings and the number of undecided instructions of a function whose only row is that of an outermost frame.
fn outermost(bytes: &[u8]) -> (Vec<(Kind, u32)>, u64) {
    let (function, rows) = (Function::new(Arch::Amd64, bytes), [(0, (RSP, 8), &OUTERMOST[..])]);
    (function.found(&rows), function.judged(&rows).undecided)
}

#[test]
fn an_outermost_frame_does_not_return() {
    let hidden = (vec![(Kind::ReturnAddress, 0)], 0);
    // xor ebp, ebp; call rdi; hlt
    assert_eq!(outermost(&[0x31, 0xed, 0xff, 0xd7, 0xf4]), (vec![], 0));
    // xor eax, eax; ret
    assert_eq!(outermost(&[0x31, 0xc0, 0xc3]), hidden);
    // xor eax, eax; jmp elsewhere
    assert_eq!(outermost(&[0x31, 0xc0, 0xe9, 0xfb, 0x10, 0, 0]), hidden);
    // pop rcx; jmp rcx
    assert_eq!(outermost(&[0x59, 0xff, 0xe1]), hidden);
    // push rax; ret: this is no return to the caller.
    assert_eq!(outermost(&[0x50, 0xc3]).0, [(Kind::Return, 1)]);
    // A register is changed and restored. Nobody restores registers in vain.
    assert_eq!(outermost(&SAVES_RBX), hidden);
    // test edi, edi; je 6; call rdi; ret: a path has no call.
    assert_eq!(outermost(&[0x85, 0xff, 0x74, 0x02, 0xff, 0xd7, 0xc3]), hidden);
}

/// Go's `mstart` calls the scheduler and then has a return that is never reached.
#[test]
fn a_return_after_a_call_is_not_decided() {
    // call rdi; ret
    assert_eq!(outermost(&[0xff, 0xd7, 0xc3]), (vec![], 2));
    // str x30, [sp, #-16]!; bl; ldr x30, [sp], #16; ret
    let words = [0xf81f_0ffe_u32, 0x9400_0400, 0xf841_07fe, 0xd65f_03c0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let judged = |last: &[(Register, Rule)]| {
        let rows: [Described<'_>; 2] = [(0, (SP, 0), &[(X30, Rule::Undefined)]), (12, (SP, 0), last)];
        let function = Function::new(Arch::Aarch64, &bytes);
        (function.found(&rows), function.judged(&rows).undecided)
    };
    assert_eq!(judged(&[(X30, Rule::Undefined)]), (vec![], 1));
    // The row at the return knows the caller.
    assert_eq!(judged(&[]), (vec![(Kind::ReturnAddress, 0)], 0));
}

#[test]
fn a_single_row_hides_the_caller() {
    let stored = (RBX, Rule::Cfa(-16));
    let found = |at: u32, rules: &[(Register, Rule)]| {
        let rows: [Described<'_>; 4] =
            [(0, (RSP, 8), &[]), (1, (RSP, 16), &[stored]), (at, (RSP, 16), rules), (6, (RSP, 8), &[])];
        Function::new(Arch::Amd64, &SAVES_RBX).found(&rows)
    };
    assert_eq!(found(3, &[stored]), []);
    for at in [3, 5] {
        assert_eq!(found(at, &[stored, OUTERMOST[0]]), [(Kind::ReturnAddress, at)]);
    }
    // The part of a function that never returns, as the child of `clone`: test eax, eax; je 5; ret; call rdi; hlt
    let child = [0x85, 0xc0, 0x74, 0x01, 0xc3, 0xff, 0xd7, 0xf4];
    let rows: [Described<'_>; 2] = [(0, (RSP, 8), &[]), (5, (RSP, 8), &OUTERMOST)];
    assert_eq!(Function::new(Arch::Amd64, &child).found(&rows), []);
}

/// No unwinder recovers a register whose value is undefined.
#[test]
fn a_register_that_the_function_restores_is_not_undefined() {
    let undefined = [(RBX, Rule::Undefined)];
    let found = |bytes: &[u8]| Function::new(Arch::Amd64, bytes).found(&[(0, (RSP, 8), &undefined)]);
    // xor eax, eax; ret
    assert_eq!(found(&[0x31, 0xc0, 0xc3]), [(Kind::SavedRegister, 0)]);
    // xor ebx, ebx; ret: such a function has a convention of its own.
    assert_eq!(found(&[0x31, 0xdb, 0xc3]), []);
    // xor eax, eax; call rdi; hlt: a function that never returns restores nothing.
    assert_eq!(found(&[0x31, 0xc0, 0xff, 0xd7, 0xf4]), []);
    let rows: [Described<'_>; 3] = [(0, (RSP, 8), &[]), (1, (RSP, 16), &undefined), (6, (RSP, 8), &[])];
    assert_eq!(Function::new(Arch::Amd64, &SAVES_RBX).found(&rows), [(Kind::SavedRegister, 1)]);
}
