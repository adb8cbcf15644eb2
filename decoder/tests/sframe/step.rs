//! Steps over stacks that are laid out by hand according to the ABIs.

use cfipack_decoder::sframe::{Caller, Registers, StepError, step};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};

fn row(cfa: (u16, i64), return_address: Rule, frame_pointer: Rule) -> Row {
    let cfa = Cfa::Register { register: Register(cfa.0), offset: cfa.1 };
    Row { start: FunctionOffset(0), cfa, return_address, frame_pointer, signed: false }
}

/// Returns a memory with these words.
fn memory(words: &[(u64, u64)]) -> impl FnMut(Address) -> Option<u64> {
    |address| words.iter().find(|word| word.0 == address.0).map(|word| word.1)
}

#[test]
fn amd64_behind_push_rbp() {
    // call; push %rbp; mov %rsp, %rbp; sub $0x20, %rsp
    let stack = [(0x7fe8, 0x401234), (0x7fe0, 0x8100)];
    let row = row((6, 16), Rule::Cfa(-8), Rule::Cfa(-16));
    let registers = Registers { sp: 0x7fc0, fp: Some(0x7fe0), lr: None, others: &[] };
    let caller = step(Arch::Amd64, &row, &registers, memory(&stack)).unwrap();
    let (pc, cfa) = (Address(0x401234), Address(0x7ff0));
    assert_eq!(caller, Caller { pc, signed: false, cfa, sp: 0x7ff0, fp: Some(0x8100) });

    let missing = step(Arch::Amd64, &row, &registers, memory(&stack[1..]));
    assert_eq!(missing, Err(StepError::Memory { address: Address(0x7fe8) }));
    let unknown = Registers { fp: None, ..registers };
    let missing = step(Arch::Amd64, &row, &unknown, memory(&stack));
    assert_eq!(missing, Err(StepError::Register { arch: Arch::Amd64, register: Register(6) }));
}

#[test]
fn amd64_with_a_realigned_stack() {
    // gcc's dynamic realignment: the CFA is stored at rbp-8, and rbp at rbp+0.
    let row = Row {
        cfa: Cfa::Memory { register: Register(6), offset: -8 },
        ..row((7, 8), Rule::Cfa(-8), Rule::Memory { register: Register(6), offset: 0 })
    };
    let stack = [(0x7f58, 0x8000), (0x7f60, 0x8200), (0x7ff8, 0x5555)];
    let registers = Registers { sp: 0x7f00, fp: Some(0x7f60), lr: None, others: &[] };
    let caller = step(Arch::Amd64, &row, &registers, memory(&stack)).unwrap();
    assert_eq!((caller.pc, caller.sp, caller.fp), (Address(0x5555), 0x8000, Some(0x8200)));
}

#[test]
fn a_row_names_another_register() {
    // The return address is in r11, the CFA is r10.
    let r11 = Rule::Register { register: Register(11), offset: 0 };
    let row = row((10, 0), r11, Rule::SameValue);
    let others = [(Register(10), 0x9000), (Register(11), 0x1234)];
    let registers = Registers { sp: 0x7f00, fp: None, lr: None, others: &others };
    let caller = step(Arch::Amd64, &row, &registers, memory(&[])).unwrap();
    assert_eq!((caller.pc, caller.sp, caller.fp), (Address(0x1234), 0x9000, None));
    let missing = step(Arch::Amd64, &row, &Registers { others: &others[..1], ..registers }, memory(&[]));
    assert_eq!(missing, Err(StepError::Register { arch: Arch::Amd64, register: Register(11) }));
}

#[test]
fn aarch64_leaf_and_signed_frame() {
    // A leaf function: its return address is in x30. Its caller has no x30.
    let leaf = row((31, 0), Rule::SameValue, Rule::SameValue);
    let registers = Registers { sp: 0x8000, fp: Some(0x8010), lr: Some(0x40_0100), others: &[] };
    let caller = step(Arch::Aarch64, &leaf, &registers, memory(&[])).unwrap();
    assert_eq!((caller.pc, caller.sp), (Address(0x40_0100), 0x8000));
    let again = step(Arch::Aarch64, &leaf, &caller.registers(), memory(&[]));
    assert_eq!(again, Err(StepError::Register { arch: Arch::Aarch64, register: Register(30) }));

    // paciasp; stp x29, x30, [sp, #-32]!; mov x29, sp
    let frame = Row { signed: true, ..row((29, 32), Rule::Cfa(-24), Rule::Cfa(-32)) };
    let stack = [(0x8010, 0x8100), (0x8018, 0x002a_0000_0040_0200)];
    let caller = step(Arch::Aarch64, &frame, &caller.registers(), memory(&stack)).unwrap();
    assert!(caller.signed);
    assert_eq!((caller.sp, caller.fp), (0x8030, Some(0x8100)));
    assert_eq!(caller.without_signature(48), Address(0x40_0200));
    // In a kernel, bit 55 is set.
    let kernel = Caller { pc: Address(0x1faa_8000_0040_0200), ..caller };
    assert_eq!(kernel.without_signature(48), Address(0xffff_8000_0040_0200));
    assert_eq!(Caller { signed: false, ..kernel }.without_signature(48), kernel.pc);
    // With addresses of 52 bits, bits 47 and 51 belong to the address.
    let user = Caller { pc: Address(0x2a48_8000_0040_0200), ..caller };
    assert_eq!(user.without_signature(52), Address(0x0008_8000_0040_0200));
    let kernel = Caller { pc: Address(0x1fa8_0000_0040_0200), ..caller };
    assert_eq!(kernel.without_signature(52), Address(0xfff8_0000_0040_0200));
}

#[test]
fn s390x_register_save_area() {
    // stmg %r11,%r15,88(%r15); lay %r15,-176(%r15): CFA = r15 + 336, r11 at CFA-72, r14 at CFA-48.
    let row = row((15, 336), Rule::Cfa(-48), Rule::Cfa(-72));
    let stack = [(0x10f0, 0x4_0000), (0x10d8, 0x1_1111)];
    let registers = Registers { sp: 0xfd0, fp: Some(1), lr: None, others: &[] };
    let caller = step(Arch::S390x, &row, &registers, memory(&stack)).unwrap();
    assert_eq!((caller.pc, caller.cfa), (Address(0x4_0000), Address(0x1120)));
    assert_eq!((caller.sp, caller.fp), (0x1080, Some(0x1_1111)));
}

/// `_dl_runtime_resolve` of glibc keeps the stack pointer in rbx while it calls. Its caller is found only if
/// it is the innermost frame.
#[test]
fn a_base_that_only_the_innermost_frame_has() {
    let resolve = row((3, 24), Rule::Cfa(-8), Rule::SameValue);
    assert_eq!(resolve.innermost_register(Arch::Amd64), Some(Register(3)));
    let stack = [(0x7010, 0x40_0100)];
    let rbx = [(Register(3), 0x7000)];
    let registers = Registers { sp: 0x6f00, fp: Some(0), lr: None, others: &rbx };
    let caller = step(Arch::Amd64, &resolve, &registers, memory(&stack)).unwrap();
    assert_eq!((caller.pc, caller.sp), (Address(0x40_0100), 0x7018));
    let error = step(Arch::Amd64, &resolve, &caller.registers(), memory(&stack)).unwrap_err();
    assert_eq!(error, StepError::Register { arch: Arch::Amd64, register: Register(3) });
    let words = "the value of rbx is not known: a table does not restore it for a caller";
    assert_eq!(error.to_string(), words);
    // Tables restore these registers, so another reason applies.
    for (register, name) in [(6, "rbp"), (7, "rsp")] {
        let error = StepError::Register { arch: Arch::Amd64, register: Register(register) };
        assert_eq!(error.to_string(), format!("the value of {name} is not known"));
    }
}

#[test]
fn registers_that_a_table_restores() {
    let needed = |arch: Arch, cfa, return_address| {
        let row = Row { cfa, return_address, ..row((0, 0), Rule::SameValue, Rule::SameValue) };
        row.innermost_register(arch).map(|register| register.0)
    };
    let plain = |register| Cfa::Register { register: Register(register), offset: 16 };
    let loaded = |register| Cfa::Memory { register: Register(register), offset: -8 };
    let from = |register, offset| Rule::Register { register: Register(register), offset };
    let at = |register| Rule::Memory { register: Register(register), offset: 0 };
    for (arch, [sp, fp], other) in
        [(Arch::Amd64, [7, 6], 10), (Arch::Aarch64, [31, 29], 9), (Arch::S390x, [15, 11], 12)]
    {
        for register in [sp, fp] {
            assert_eq!(needed(arch, plain(register), Rule::Cfa(-8)), None);
            assert_eq!(needed(arch, loaded(register), at(register)), None);
        }
        assert_eq!(needed(arch, plain(other), Rule::Cfa(-8)), Some(other));
        assert_eq!(needed(arch, loaded(other), Rule::Cfa(-8)), Some(other));
        assert_eq!(needed(arch, plain(sp), from(other, 0)), Some(other));
        assert_eq!(needed(arch, plain(sp), at(other)), Some(other));
        assert_eq!(needed(arch, plain(other), Rule::Undefined), None);
        assert_eq!(needed(arch, plain(sp), Rule::SameValue), None);
        assert_eq!(needed(arch, plain(sp), from(arch.return_address().0, 0)), None);
    }
}

#[test]
fn the_end_of_the_stack() {
    let row = row((7, 8), Rule::Undefined, Rule::SameValue);
    let registers = Registers { sp: 0, fp: Some(0), lr: None, others: &[] };
    assert_eq!(step(Arch::Amd64, &row, &registers, memory(&[])), Err(StepError::Outermost));
    let row = Row { return_address: Rule::ValCfa(0), ..row };
    assert_eq!(step(Arch::Amd64, &row, &registers, memory(&[])), Err(StepError::Rule));
}

#[test]
fn offsets_wrap_as_addresses_do() {
    let row = row((7, i64::MAX), Rule::Cfa(i64::MIN), Rule::Cfa(i64::MAX));
    let registers = Registers { sp: u64::MAX, fp: None, lr: None, others: &[] };
    let caller = step(Arch::Amd64, &row, &registers, |_| Some(1)).unwrap();
    assert_eq!(caller.sp, (i64::MAX as u64) - 1);
}
