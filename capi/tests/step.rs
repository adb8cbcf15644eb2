//! Steps through the C interface find what [`step`] finds in Rust, whatever the row, the registers and the memory are.

use cfipack_capi::*;
use cfipack_decoder::sframe::{Registers, StepError, step};
use cfipack_format::{Address, Arch, Cfa, FunctionOffset, Register, Row, Rule};
use cfipack_testkit::random::{Random, assert_enough, cases};

const ARCHS: [(Arch, u32); 4] = [
    (Arch::Amd64, CFIPACK_ARCH_AMD64),
    (Arch::Aarch64, CFIPACK_ARCH_AARCH64),
    (Arch::Aarch64Be, CFIPACK_ARCH_AARCH64_BE),
    (Arch::S390x, CFIPACK_ARCH_S390X),
];

/// The address of the stack, and how many bytes of it the registers and offsets reach.
const STACK: u64 = 0x7000;
const LEN: usize = 256;

fn register(random: &mut Random, arch: Arch) -> Register {
    let any = Register(random.below(40) as u16);
    random.pick(&[arch.stack_pointer(), arch.frame_pointer(), arch.return_address(), any])
}

/// Mostly the rule of a value in the frame, at any byte of the stack and a few bytes beside it.
fn rule(random: &mut Random, arch: Arch) -> Rule {
    let (register, offset) = (register(random, arch), random.between(-140, 140));
    let others = [
        Rule::Undefined,
        Rule::SameValue,
        Rule::Register { register, offset },
        Rule::Memory { register, offset },
        Rule::Expression,
    ];
    if random.chance(70) { Rule::Cfa(offset) } else { random.pick(&others) }
}

fn row(random: &mut Random, arch: Arch) -> Row {
    let (register, offset) = (register(random, arch), random.between(-140, 140));
    let others = [Cfa::Undefined, Cfa::Memory { register, offset }, Cfa::Expression];
    let cfa = if random.chance(85) { Cfa::Register { register, offset } } else { random.pick(&others) };
    let (return_address, frame_pointer) = (rule(random, arch), rule(random, arch));
    Row { start: FunctionOffset(0), cfa, return_address, frame_pointer, signed: random.chance(30) }
}

/// Steps in C. The stack is in one piece, or in two pieces.
fn in_c(
    arch: u32,
    row: &Row,
    registers: &Registers<'_>,
    (stack, first): (&[u8], usize),
) -> Result<cfipack_caller, cfipack_status> {
    let c_row = cfipack_row {
        is_signed: row.signed.into(),
        cfa: row.cfa.into(),
        return_address: row.return_address.into(),
        frame_pointer: row.frame_pointer.into(),
        ..cfipack_row::default()
    };
    let other = |&(register, value): &(Register, u64)| cfipack_register {
        reg: register.0.into(),
        reserved: 0,
        value,
    };
    let others: Vec<_> = registers.others.iter().map(other).collect();
    let registers = cfipack_registers {
        sp: registers.sp,
        fp: registers.fp.unwrap_or(!0),
        lr: registers.lr.unwrap_or(!0),
        has_fp: registers.fp.is_some().into(),
        has_lr: registers.lr.is_some().into(),
        reserved: [0; 6],
        others: others.as_ptr(),
        num_others: others.len(),
    };
    let piece = |bytes: &[u8], address| cfipack_memory { bytes: bytes.as_ptr(), len: bytes.len(), address };
    let memory = [piece(&stack[..first], STACK), piece(&stack[first..], STACK + first as u64)];
    let count = if first == stack.len() { 1 } else { 2 };
    let mut out = cfipack_caller { pc: !0, ..cfipack_caller::default() };
    // SAFETY: all pointers are valid for the call.
    match unsafe { cfipack_step(arch, &c_row, &registers, memory.as_ptr(), count, &mut out) } {
        cfipack_status::Ok => Ok(out),
        status => Err(status),
    }
}

#[test]
fn steps_equal_rusts() {
    let (seed, count) = cases("steps in C", 20_000);
    let mut found = 0;
    for case in 0..count {
        let mut random = Random::new(seed.wrapping_add(case as u64));
        let (arch, number) = random.pick(&ARCHS);
        let stack: Vec<_> = (0..LEN).map(|_| random.next() as u8).collect();
        // A word that is partly in the first piece and partly in the second piece is unknown.
        let first = if random.chance(80) { LEN } else { random.below(LEN as u64) as usize };
        let row = row(&mut random, arch);
        let others = [(Register(3), random.next()), (Register(20), STACK + 100)];
        let value = |random: &mut Random| STACK + random.below(LEN as u64);
        let registers = Registers {
            sp: value(&mut random),
            fp: random.chance(90).then(|| value(&mut random)),
            lr: random.chance(50).then(|| value(&mut random)),
            others: if random.chance(70) { &[] } else { &others },
        };
        let read = |address: Address| {
            let offset = usize::try_from(address.0.checked_sub(STACK)?).ok()?;
            let (before, after) = stack.split_at(first);
            let bytes = if offset < first { before.get(offset..) } else { after.get(offset - first..) };
            let word = *bytes?.first_chunk()?;
            let is_little = matches!(arch, Arch::Amd64 | Arch::Aarch64);
            Some(if is_little { u64::from_le_bytes(word) } else { u64::from_be_bytes(word) })
        };
        let expected = match step(arch, &row, &registers, read) {
            Ok(caller) => Ok(cfipack_caller {
                pc: caller.pc.0,
                cfa: caller.cfa.0,
                sp: caller.sp,
                fp: caller.fp.unwrap_or(0),
                has_fp: caller.fp.is_some().into(),
                is_signed: caller.signed.into(),
                reserved: [0; 6],
            }),
            Err(StepError::Outermost) => Err(cfipack_status::Outermost),
            Err(StepError::Rule) => Err(cfipack_status::Malformed),
            Err(_) => Err(cfipack_status::Unknown),
        };
        found += usize::from(expected.is_ok());
        let in_c = in_c(number, &row, &registers, (&stack, first));
        assert_eq!(in_c, expected, "case {case}: {arch:?} {row:?} {registers:?}");
    }
    assert_enough(found > count / 4, found);
}
