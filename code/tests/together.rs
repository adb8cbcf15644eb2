//! Functions that jump into each other get rows together, or none of them does. GNU as made the bytes.

use cfipack_code::{CallSite, Candidate, Code, NoMemory, Omission, Surroundings, synthesize};
use cfipack_format::{Address, Arch, Cfa};

/// For each function: the start of each row with the distance of the CFA from the stack pointer, or why it gets no rows.
type Synthesized = Vec<Result<Vec<(u32, i64)>, Omission>>;

/// Follows functions together that start at multiples of 32 bytes.
fn together(functions: &[&[u8]], call_sites: &[CallSite]) -> Synthesized {
    let candidates: Vec<_> = functions
        .iter()
        .zip((0..).step_by(32))
        .map(|(bytes, start)| {
            let code = Code { arch: Arch::Amd64, start: Address(start), bytes, relocated: &[] };
            Candidate { code, call_sites, noreturn: &[], is_known: true, is_exported: false }
        })
        .collect();
    let around = Surroundings { jumps: &[], calls: &[], is_inside: &|_| false };
    let all = synthesize(&candidates, &around, &NoMemory);
    let distance = |cfa| match cfa {
        Cfa::Register { offset, .. } => offset,
        other => panic!("{other:?}"),
    };
    all.into_iter()
        .map(|rows| match rows {
            Ok(rows) => Ok(rows.iter().map(|row| (row.start.0, distance(row.cfa))).collect()),
            Err(refused) => Err(refused.omission),
        })
        .collect()
}

/// `push rbx; test edi, edi; jne COLD; pop rbx; ret`, where COLD is a distance from the end of the jump.
fn hot(cold: i32) -> Vec<u8> {
    [&[0x53, 0x85, 0xff, 0x0f, 0x85][..], &cold.to_le_bytes(), &[0x5b, 0xc3]].concat()
}

const HOT: [(u32, i64); 3] = [(0, 8), (1, 16), (10, 8)];

/// `push rbx; push rbp; test edi, edi; jne COLD; pop rbp; pop rbx; ret`.
fn deep(cold: i32) -> Vec<u8> {
    [&[0x53, 0x55, 0x85, 0xff, 0x0f, 0x85][..], &cold.to_le_bytes(), &[0x5d, 0x5b, 0xc3]].concat()
}

/// xor ebx, ebx; jmp BACK
fn cold(back: i8) -> Vec<u8> {
    vec![0x31, 0xdb, 0xeb, back as u8]
}

/// ud2
const STOP: [u8; 2] = [0x0f, 0x0b];

#[test]
fn a_fragment_has_the_frame_of_its_function() {
    let all = together(&[&hot(32 - 9), &cold(9 - 36)], &[]);
    assert_eq!(all, [Ok(HOT.to_vec()), Ok(vec![(0, 16)])]);
}

/// The fragment comes back with one more word on the stack, so no row is right at the place where it comes back.
#[test]
fn a_fragment_brings_its_stack_back() {
    // push rax; jmp 9
    let pushes = [0x50, 0xeb, (9 - 35_i8) as u8];
    let all = together(&[&hot(32 - 9), &pushes], &[]);
    assert!(all.iter().all(Result::is_err), "{all:?}");
}

/// A call enters it without a frame, and a jump with a frame: no row is right for both.
#[test]
fn a_function_that_is_called_is_no_fragment() {
    let call = [&[0xe8][..], &(32 - 69_i32).to_le_bytes(), &[0xc3]].concat();
    let all = together(&[&hot(32 - 9), &STOP, &call], &[]);
    assert_eq!(all[..2], [Err(Omission::IntoFunction), Err(Omission::Entered)]);
}

/// The first function's fragment comes last, so the ways into fragments are not in the order of the functions.
#[test]
fn each_fragment_has_its_own_frame() {
    let all = together(&[&hot(96 - 9), &deep(64 - 42), &STOP, &STOP], &[]);
    assert_eq!(all[0], Ok(HOT.to_vec()));
    assert_eq!(all[2..], [Ok(vec![(0, 24)]), Ok(vec![(0, 16)])]);
}

#[test]
fn a_fragment_of_two_frames_has_no_rows() {
    let all = together(&[&hot(64 - 9), &deep(64 - 42), &STOP], &[]);
    assert!(all.iter().all(Result::is_err), "{all:?}");
    let all = together(&[&hot(64 - 9), &hot(64 - 41), &STOP], &[]);
    assert_eq!(all, [Ok(HOT.to_vec()), Ok(HOT.to_vec()), Ok(vec![(0, 16)])]);
}

/// If a call with a landing pad has arguments on the stack, only CFI says how many bytes an unwinder removes.
#[test]
fn no_landing_pad_is_entered_with_arguments_on_the_stack() {
    let call = [0xff, 0xd7]; // call rdi
    let pushed = [0x50, 0xff, 0xd7, 0x58]; // push rax; call rdi; pop rax
    let found = |first: &[u8], second: &[u8], site: (u32, u32)| {
        // push rbx; the calls; pop rbx; ret; the landing pad: ud2
        let bytes = [&[0x53], first, second, &[0x5b, 0xc3, 0x0f, 0x0b]].concat();
        let landing_pad = Address(bytes.len() as u64 - 2);
        let site = CallSite { start: site.0, end: site.1, landing_pad, stack: None };
        together(&[&bytes], &[site]).remove(0)
    };
    assert!(found(&call, &pushed, (1, 3)).is_ok(), "the second call has no landing pad");
    assert!(found(&pushed, &call, (5, 7)).is_ok(), "the first call has no landing pad");
    assert_eq!(found(&call, &pushed, (4, 6)), Err(Omission::Cfa));
    assert_eq!(found(&pushed, &call, (2, 4)), Err(Omission::Cfa));
}
