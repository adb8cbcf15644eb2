//! Reads the paths from the start of a function whose end is not known.

use std::collections::{BTreeSet, HashSet};

use cfipack_code::{Analysis, Code, Flow, Instruction, Instructions, State, Ways};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Address, Arch, Family};

use super::search::ALIGNMENT;
use crate::FileMemory;

/// More bytes than an instruction has. One that the end of the decoded bytes cuts begins after the last whole one.
pub const LONGEST: u64 = 16;

/// What the paths from an address show.
#[derive(Default)]
pub struct Paths {
    /// The end of the instructions from the start on that paths lead to.
    pub end: u64,
    pub instructions: BTreeSet<u32>,
    pub noreturn: Vec<u32>,
    pub calls: Vec<Address>,
    pub fragments: BTreeSet<Address>,
    pub suggested: Vec<Address>,
    /// The number of bytes that were decoded.
    pub decoded: u64,
}

impl Paths {
    /// Reads the paths from the start of code, up to the first code that no path leads to. Returns the distance of the
    /// nearest place beyond the code where a path goes on, or `u64::MAX` if there is none.
    pub fn read(&mut self, analysis: &Analysis<'_>) -> u64 {
        let (code, instructions) = (analysis.code(), analysis.instructions());
        let mut is_reached = vec![false; instructions.len()];
        let (mut is_cut, mut last) = (false, 0);
        analysis.for_each(|index, instruction, state| {
            if state.is_some() {
                last = instruction.end();
            }
            is_cut |= state.is_none() && !instruction.is_padding;
            if state.is_none() || is_cut {
                return;
            }
            is_reached[index] = true;
            self.end = instruction.end().into();
            self.instructions.insert(instruction.offset);
            if let Flow::Call(Some(target)) = instruction.flow {
                self.calls.push(target);
            }
        });
        self.fragments = analysis.fragments();
        let constants = instructions.constants().filter(|(index, _)| is_reached[*index]);
        self.suggested = constants.map(|(_, value)| Address(value)).collect();
        // A path that runs over the end of the code may lead back to code that seems to be reached by no path.
        let size = code.bytes.len().to_u64();
        let mut nearest = if u64::from(last) + LONGEST > size { size } else { u64::MAX };
        for (instruction, _) in instructions.iter().zip(is_reached).filter(|(_, is)| *is) {
            let (Flow::Jump(Some(target)) | Flow::Branch(Some(target), _)) = instruction.flow else {
                continue;
            };
            let distance = target.0.wrapping_sub(code.start.0);
            if distance >= size {
                nearest = nearest.min(distance);
            }
            if distance < self.end {
                continue;
            }
            // With a frame in place, the function goes on there.
            let state = analysis.index_of(target).and_then(|index| analysis.state_before(index));
            if state.is_some_and(|state| state.has_frame(code.arch)) {
                self.fragments.insert(target);
            } else {
                self.suggested.push(target);
            }
        }
        nearest
    }
}

/// Follows code from its start.
pub fn follow<'c>(
    code: Code<'c>,
    instructions: &'c Instructions,
    memory: &FileMemory<'_>,
    noreturn: &[u32],
) -> Analysis<'c> {
    let entry = State::at_entry(code.arch);
    Analysis::new(
        code,
        instructions,
        memory,
        Ways { start: Some(&entry), entries: &[], call_sites: &[], noreturn },
    )
}

/// Returns whether another function may start after a call: after padding, at an aligned address, or where x30 is
/// [saved](saves_link).
pub fn may_end(code: &Code<'_>, instructions: &Instructions, call: u32) -> bool {
    let Some(next) = instructions.index_of(call).map(|index| index + 1) else { return true };
    instructions.get(next).is_none_or(|after| {
        let start = code.start.offset(after.offset.into());
        after.is_padding || start.0.is_multiple_of(ALIGNMENT) || saves_link(code, instructions, next)
    })
}

/// Returns whether code after a call on AArch64 begins with `stp x29, x30, [sp, #-N]!`. In x30 is the return address of
/// the call, which no function saves, so that another function starts there. gcc aligns functions with at most 11 bytes
/// of padding, and leaves out the padding where it takes more.
fn saves_link(code: &Code<'_>, instructions: &Instructions, next: usize) -> bool {
    let bytes = |one: Instruction| code.bytes.get(one.offset.to_usize()..one.end().to_usize());
    let first =
        instructions.iter_from(next).filter_map(bytes).find(|one| !MARKS.iter().any(|mark| mark == one));
    code.arch.family() == Family::Aarch64 && first.is_some_and(|first| saves(code.arch, first))
}

/// The instructions `bti c` and `paciasp` of AArch64, which may come before a prologue.
const MARKS: [[u8; 4]; 2] = [[0x5f, 0x24, 0x03, 0xd5], [0x3f, 0x23, 0x03, 0xd5]];

/// What instructions look like.
pub enum Looks {
    /// Compilers do not make one of them.
    Data,
    /// One saves a register as only prologues do. Runtimes with stacks of their own do not have it.
    Saving,
    Plain,
}

/// Returns what the instructions look like.
pub fn looks(arch: Arch, code: &Code<'_>, instructions: &Instructions) -> Looks {
    let mut looks = Looks::Plain;
    for instruction in instructions.iter() {
        let place = instruction.offset.to_usize()..instruction.end().to_usize();
        let bytes = code.bytes.get(place).unwrap_or_default();
        match (arch.family(), bytes) {
            (Family::X86, [0, 0]) => return Looks::Data,
            // ret $N. The psABI of x86-64 lets the caller remove its arguments.
            (Family::X86, [0xc2, ..]) if arch == Arch::Amd64 => return Looks::Data,
            _ if saves(arch, bytes) => looks = Looks::Saving,
            _ => {}
        }
    }
    looks
}

/// Returns whether an instruction saves a register as only prologues do.
fn saves(arch: Arch, instruction: &[u8]) -> bool {
    match (arch.family(), instruction) {
        // push %rbx, %rbp, %r12 to %r15
        (Family::X86, [0x53 | 0x55] | [0x41, 0x54..=0x57]) => true,
        // stp x29, x30, [sp, #-N]!
        (Family::Aarch64, [0xfd, 0x7b, 0x80..=0xbf, 0xa9]) => true,
        _ => false,
    }
}

/// Returns whether a path goes on after a call that was made without a frame. Compilers align the stack before a call, unless
/// it never returns. So the frame can be in place from before the code's start, and not be in place after the call.
pub fn calls_without_frame(analysis: &Analysis<'_>) -> bool {
    let mut calls = false;
    analysis.for_each(|index, instruction, state| {
        let is_call = matches!(instruction.flow, Flow::Call(_)) && !analysis.is_noreturn(index);
        calls |= is_call && state.is_some_and(|state| !state.has_frame(analysis.code().arch));
    });
    calls
}

/// Returns the offsets, ascending, where paths go on after code that no path leads to, and a frame is in place.
pub fn resumed(analysis: &Analysis<'_>) -> Vec<u32> {
    let (mut was_reached, mut offsets) = (true, Vec::new());
    analysis.for_each(|_, instruction, state| {
        let Some(state) = state else {
            was_reached &= instruction.is_padding;
            return;
        };
        let is_first = !std::mem::replace(&mut was_reached, true);
        if is_first && state.has_frame(analysis.code().arch) {
            offsets.push(instruction.offset);
        }
    });
    offsets
}

/// Returns the offsets of calls after which no path returns, leaves the code, or leads back to the call or before it. A jump
/// through a table shows nothing, because the table may belong to another function after the call. If
/// the code is only the first part of a function, a path that reaches its end leaves it. Calls before the
/// [start of a function](starts_after) count too.
pub fn lost_calls(analysis: &Analysis<'_>, is_part: bool) -> Vec<u32> {
    let all = analysis.instructions();
    let (first, targets) = (first_reached(analysis, is_part), targets(analysis));
    let is_lost = |index: &usize| {
        !analysis.is_noreturn(*index)
            && analysis
                .returns_to(*index)
                .is_some_and(|next| starts_after(analysis, &targets, *index) || first[next] > *index)
    };
    (0..all.len()).filter(is_lost).map(|index| all.offset(index)).collect()
}

/// Returns for each instruction the number of the first instruction that paths from it lead to. It is 0 if a path returns
/// or leaves the code.
fn first_reached(analysis: &Analysis<'_>, is_part: bool) -> Vec<usize> {
    let all = analysis.instructions();
    let exits: BTreeSet<usize> = analysis.exits().iter().map(|exit| exit.index).collect();
    let mut before = vec![Vec::new(); all.len()];
    let mut first = vec![usize::MAX; all.len()];
    let mut waiting = Vec::new();
    for (index, instruction) in all.iter().enumerate() {
        let is_last = is_part && index + 1 == all.len();
        if instruction.flow == Flow::Return || exits.contains(&index) || is_last {
            waiting.push((index, 0));
        }
        analysis.next(index).into_iter().flatten().for_each(|next| before[next].push(index));
    }
    for index in 0..all.len() {
        while let Some((reached, number)) = waiting.pop() {
            if first[reached] == usize::MAX {
                first[reached] = number;
                waiting.extend(before[reached].iter().map(|before| (*before, number)));
            }
        }
        waiting.push((index, index));
    }
    first
}

/// Returns the addresses that jumps of the code lead to.
fn targets(analysis: &Analysis<'_>) -> HashSet<Address> {
    let all = analysis.instructions().iter();
    let target = |flow| match flow {
        Flow::Jump(target) | Flow::Branch(target, _) => target,
        _ => None,
    };
    all.filter_map(|one| target(one.flow)).collect()
}

/// Returns whether another function [starts](starts_after) within code.
pub fn has_other_function(analysis: &Analysis<'_>) -> bool {
    let targets = targets(analysis);
    (0..analysis.instructions().len())
        .any(|index| analysis.returns_to(index).is_some() && starts_after(analysis, &targets, index))
}

/// Returns whether a function starts after a call, at an address to which nothing jumps: where x30 is
/// [saved](saves_link), or after padding at an aligned address where a register is saved or the stack grows. Within a
/// function, compilers align only what is jumped to.
fn starts_after(analysis: &Analysis<'_>, targets: &HashSet<Address>, call: usize) -> bool {
    let (code, all) = (analysis.code(), analysis.instructions());
    let next = all.iter_from(call + 1).enumerate().find(|(_, one)| !one.is_padding);
    let Some((padding, after)) = next else { return false };
    let start = code.start.offset(after.offset.into());
    let bytes = code.bytes.get(after.offset.to_usize()..after.end().to_usize()).unwrap_or_default();
    let is_aligned = padding != 0 && start.0.is_multiple_of(ALIGNMENT);
    let is_prologue =
        saves_link(code, all, call + 1 + padding) || is_aligned && is_prologue(code.arch, bytes);
    is_prologue && !targets.contains(&start)
}

/// Returns whether an instruction saves a register or lets the stack grow, as prologues do.
fn is_prologue(arch: Arch, instruction: &[u8]) -> bool {
    match (arch.family(), instruction) {
        // push %rax; sub $N, %rsp
        (Family::X86, [0x50] | [0x48, 0x81 | 0x83, 0xec, ..]) => true,
        _ => saves(arch, instruction),
    }
}

/// Returns whether code starts with a prologue. The instruction `endbr64` may come first, on AArch64 `bti c` or `paciasp`.
pub fn starts_with_prologue(arch: Arch, bytes: &[u8], instructions: &Instructions) -> bool {
    let mark: &[[u8; 4]] = match arch.family() {
        Family::X86 => &[[0xf3, 0x0f, 0x1e, 0xfa]],
        Family::Aarch64 => &MARKS,
        Family::S390x | Family::Riscv => &[],
    };
    let all = instructions.iter();
    let mut all = all.map(|one| bytes.get(one.offset.to_usize()..one.end().to_usize()).unwrap_or_default());
    all.find(|one| !mark.iter().any(|mark| mark == one)).is_some_and(|first| is_prologue(arch, first))
}
