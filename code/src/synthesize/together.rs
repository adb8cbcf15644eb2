//! The functions of a file that have no CFI, together: what one does shows how another is entered.

use std::collections::BTreeSet;

use cfipack_format::{Address, Row};

use super::Omission;
use crate::analysis::{Analysis, CallSite, Doubt, Ways};
use crate::instruction::Flow;
use crate::instructions::{Code, Instructions};
use crate::state::State;
use crate::table::Memory;

/// Bytes of a function beyond which it is not followed.
const MAX_CODE: usize = 1 << 24;

/// A function to make rows of.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'c> {
    /// The function's code.
    pub code: Code<'c>,
    /// Calls of the function that have landing pads, if they are known from elsewhere.
    pub call_sites: &'c [CallSite],
}

/// A jump into another function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The target.
    pub target: Address,
    /// True if a frame is in place: the stack pointer is not where the call left it.
    pub has_frame: bool,
}

/// The result of following one function.
struct Followed<T> {
    rows: Result<T, Omission>,
    /// Jumps out of it.
    exits: Vec<Jump>,
    calls: Vec<Address>,
}

/// Makes the rows of functions, ascending and apart, as [`Analysis::synthesize`] does for one; `is_inside` tells whether an
/// address is in a function of the file, behind its start, and `jumps` are those of functions that are none of these.
///
/// A function gets none if another one enters it elsewhere than at its start, or with a frame in place; if it jumps into
/// another function; or if it calls one that does not keep its registers or stack pointer.
pub fn synthesize(
    candidates: &[Candidate<'_>],
    jumps: &[Jump],
    memory: &dyn Memory,
    is_inside: &dyn Fn(Address) -> bool,
) -> Vec<Result<Vec<Row>, Omission>> {
    synthesize_with(candidates, jumps, memory, is_inside, |analysis| analysis.synthesize())
}

/// Makes of each function what `rows` makes of its analysis, and omits the same functions as [`synthesize`].
pub fn synthesize_with<T>(
    candidates: &[Candidate<'_>],
    jumps: &[Jump],
    memory: &dyn Memory,
    is_inside: &dyn Fn(Address) -> bool,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> Vec<Result<T, Omission>> {
    let mut instructions = Instructions::default();
    let mut all: Vec<_> =
        candidates.iter().map(|candidate| follow(candidate, &mut instructions, memory, &rows)).collect();
    let around = |address: Address| {
        let index = candidates.partition_point(|one| one.code.start <= address).checked_sub(1)?;
        let code = &candidates[index].code;
        let offset = address.0 - code.start.0;
        (offset < code.bytes.len() as u64).then_some((index, offset))
    };
    let entered_by = |jump: &Jump| {
        let candidate = around(jump.target).filter(|(_, offset)| *offset != 0 || jump.has_frame);
        candidate.map(|(index, _)| index)
    };
    let mut entered: BTreeSet<_> = jumps.iter().filter_map(entered_by).collect();
    for followed in &mut all {
        for jump in &followed.exits {
            entered.extend(entered_by(jump));
            let is_middle =
                around(jump.target).map_or_else(|| is_inside(jump.target), |(_, offset)| offset != 0);
            if is_middle && followed.rows.is_ok() {
                followed.rows = Err(Omission::IntoFunction);
            }
        }
    }
    // What is nowhere cannot be restored.
    let is_odd = |rows: &Result<_, _>| match rows {
        Err(omission) => matches!(
            omission,
            Omission::SavedRegister | Omission::StackAtReturn | Omission::FramePointer | Omission::NoPlace
        ),
        Ok(_) => false,
    };
    let odd: Vec<bool> = all.iter().map(|followed| is_odd(&followed.rows)).collect();
    for (index, followed) in all.iter_mut().enumerate() {
        let calls_odd = |target: &Address| around(*target).is_some_and(|(index, _)| odd[index]);
        if followed.rows.is_ok() && entered.contains(&index) {
            followed.rows = Err(Omission::Entered);
        } else if followed.rows.is_ok() && followed.calls.iter().any(calls_odd) {
            followed.rows = Err(Omission::OddCall);
        }
    }
    all.into_iter().map(|followed| followed.rows).collect()
}

fn follow<T>(
    candidate: &Candidate<'_>,
    instructions: &mut Instructions,
    memory: &dyn Memory,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> Followed<T> {
    let Candidate { code, call_sites } = *candidate;
    let omitted = |omission| Followed { rows: Err(omission), exits: Vec::new(), calls: Vec::new() };
    match code.bytes.len() {
        0 => return omitted(Omission::NoCode),
        MAX_CODE.. => return omitted(Omission::Doubt(Doubt::TooLarge)),
        _ => {}
    }
    instructions.decode(&code);
    let entry = State::at_entry(code.arch);
    let ways = Ways { start: Some(&entry), entries: &[], call_sites, noreturn: &[] };
    let analysis = Analysis::new(code, instructions, memory, ways);
    let stack = code.arch.stack_pointer();
    let mut exits = Vec::new();
    // A way without a target leads to a function.
    if analysis.exits().iter().any(|exit| exit.target.is_some()) {
        analysis.for_each_exit(|exit, state| {
            let has_frame = state.get(code.arch, stack) != entry.get(code.arch, stack);
            exits.extend(exit.target.map(|target| Jump { target, has_frame }));
        });
    }
    let mut calls: Vec<Address> = instructions
        .as_slice()
        .iter()
        .filter_map(|instruction| match instruction.flow {
            Flow::Call(target) => target,
            _ => None,
        })
        .collect();
    calls.sort_unstable();
    calls.dedup();
    Followed { rows: rows(&analysis), exits, calls }
}
