//! Long functions, whose instructions are not stored: they are the same as those of a short function with the same bytes.

use cfipack_code::{Analysis, Code, Doubt, Instruction, Instructions, NoMemory, State, Ways};
use cfipack_format::{Address, Arch};

const START: Address = Address(0x1000);
/// More than 64 KB, and less.
const LONG: usize = 70_000;
const SHORT: usize = 60_000;
/// Up to here, instructions do not depend on code after [`SHORT`] bytes.
const SAME: u32 = 59_000;

/// Returns pieces of code in a random order, at least [`LONG`] bytes.
fn shuffled(pieces: &[&[u8]], mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < LONG {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend(pieces[(seed >> 33) as usize % pieces.len()]);
    }
    bytes
}

/// Describes an instruction as far as callers see it.
fn words(one: &Instruction) -> String {
    format!("{:x} {} {:?} {} {}", one.offset, one.len, one.flow, one.is_padding, one.is_unknown)
}

fn check(arch: Arch, bytes: &[u8]) {
    let code = Code { arch, start: START, bytes, relocated: &[0x40, 0x100] };
    let short = Instructions::new(&Code { bytes: &bytes[..SHORT], ..code });
    let long = Instructions::new(&code);
    let first = |all: &Instructions| -> Vec<_> {
        all.iter().take_while(|one| one.offset < SAME).map(|one| words(&one)).collect()
    };
    let same = first(&short);
    assert_eq!(first(&long), same, "{arch:?}");
    let constants = |all: &Instructions| -> Vec<_> {
        all.constants().take_while(|(index, _)| *index < same.len()).collect()
    };
    assert_eq!(constants(&long), constants(&short), "{arch:?}");
    for (index, expected) in same.iter().enumerate() {
        let one = long.at(index);
        assert_eq!(words(&one), *expected, "{arch:?}");
        assert_eq!(long.offset(index), one.offset);
        assert_eq!(long.index_of(one.offset), Some(index));
        assert_eq!(long.index_around(one.end() - 1), Some(index));
    }
    assert_eq!(long.get(long.len()).map(|one| one.offset), None);
    assert_eq!(long.index_around(bytes.len() as u32), None);
}

#[test]
fn instructions_of_a_long_function_are_the_same() {
    let x86: &[&[u8]] = &[
        &[0x90],
        &[0xcc],
        &[0x50],
        &[0x5b],
        &[0x53, 0x48, 0x89, 0xe5],
        &[0x48, 0x83, 0xec, 0x18],
        &[0x48, 0xc7, 0xc0, 0x78, 0x56, 0x34, 0x12],
        &[0x89, 0xc8],
        &[0x48, 0x89, 0x5c, 0x24, 0x08],
        &[0x0f, 0x84, 0x40, 0, 0, 0],
        &[0x75, 0xe0],
        &[0xe8, 0, 0, 0x20, 0],
        &[0xe8, 0x20, 0, 0, 0, 0x90],
        &[0xff, 0xe0],
        &[0xeb, 0x03],
        &[0xc3, 0xf0],
        &[0xc5, 0xf8],
    ];
    // nop, stp x29, x30, [sp, #-16]!, ldp x29, x30, [sp], #16, bl, b.eq, cbz, ret, dsb sy, isb, paciasp, adrp x0, mov x0, x19.
    let words: Vec<[u8; 4]> = [
        0xd503_201f_u32,
        0xa9bf_7bfd,
        0xa8c1_7bfd,
        0x9400_1000,
        0x5400_0100,
        0xb4ff_ff00,
        0xd65f_03c0,
        0xd503_3f9f,
        0xd503_3fdf,
        0xd503_233f,
        0x9000_0000,
        0xaa13_03e0,
    ]
    .map(u32::to_le_bytes)
    .into();
    let aarch64: Vec<&[u8]> = words.iter().map(<[u8; 4]>::as_slice).collect();
    for (arch, pieces) in [(Arch::Amd64, x86), (Arch::I386, x86), (Arch::Aarch64, &aarch64)] {
        for seed in 0..4 {
            check(arch, &shuffled(pieces, seed));
        }
    }
}

/// Each `call` of an error's function follows another number in rbx, and so has another state.
#[test]
fn a_long_function_with_many_states_is_followed_to_its_end() {
    let mut bytes = Vec::new();
    for number in 0..5_000_u32 {
        // mov ebx, number; je over the call; call; nop...
        bytes.push(0xbb);
        bytes.extend(number.to_le_bytes());
        bytes.extend([0x74, 5, 0xe8, 0, 0, 0x20, 0]);
        bytes.extend([0x90; 400]);
    }
    bytes.push(0xc3);
    followed(&bytes, |analysis| {
        assert_eq!(analysis.doubts().next(), None);
        assert!(analysis.state_before(analysis.instructions().len() - 1).is_some());
    });
}

/// Follows a function from its entry.
fn followed(bytes: &[u8], check: impl Fn(&Analysis<'_>)) {
    let code = Code { arch: Arch::Amd64, start: START, bytes, relocated: &[] };
    let (instructions, entry) = (Instructions::new(&code), State::at_entry(Arch::Amd64));
    let ways = Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn: &[] };
    check(&Analysis::new(code, &instructions, &NoMemory, ways));
}

/// An analysis that reaches a limit does not reach the code after that. The limit is the reason.
#[test]
fn a_limit_is_the_reason_why_code_is_not_reached() {
    // push rbp; mov rbp, rsp; rdtsc
    let head: &[u8] = &[0x55, 0x48, 0x89, 0xe5, 0x0f, 0x31];
    // push rax; je over the call; call. The states differ in rsp, and after the call in the registers that it changes.
    let with_state: &[u8] = &[0x50, 0x74, 5, 0xe8, 0, 0, 0x20, 0];
    // push rax; je to the next instruction
    let block: &[u8] = &[0x50, 0x74, 0];
    // push rbx, which stores a caller's value; xor eax, eax; je to the next instruction
    let with_slot: &[u8] = &[0x53, 0x31, 0xc0, 0x74, 0];
    for (limit, part) in [("states", with_state), ("blocks", block), ("slots", with_slot)] {
        let mut bytes = [head, &part.repeat(200_000 / part.len())].concat();
        // mov rsp, rbp; mov ebx, 5; jmp to the first part, with less known about rbx
        bytes.extend([0x48, 0x89, 0xec, 0xbb, 5, 0, 0, 0, 0xe9]);
        let back = head.len() as i32 - bytes.len() as i32 - 4;
        bytes.extend(back.to_le_bytes());
        bytes.push(0xc3);
        followed(&bytes, |analysis| {
            let doubts: Vec<_> = analysis.doubts().map(|doubt| doubt.0).collect();
            assert_eq!(doubts[0], Doubt::TooLarge, "{limit}: {doubts:?}");
            assert!(doubts.contains(&Doubt::NotReached), "{limit}: {doubts:?}");
        });
    }
}
