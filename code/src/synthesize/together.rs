//! Synthesizes rows for all functions of a file that have no CFI.
//!
//! The functions are treated together, because one function often shows how another is entered. For example, a jump
//! with a frame in place shows that its target is a `.cold` fragment and not a function.
//!
//! - [`rounds`] follows the functions until their jumps into each other are known.
//! - [`ways`] sorts and joins the states that functions bring into each other.
//! - This file then omits each function with an entry that the synthesis cannot describe.

mod rounds;
mod ways;

use cfipack_format::{Address, Row};

use self::rounds::{Followed, Frames, Rounds};
use super::{Omission, Refused};
use crate::analysis::{Analysis, CallSite};
use crate::instructions::Code;
use crate::table::Memory;

/// A function of this size in bytes or more is not followed. It is omitted as [`Doubt::TooLarge`](super::Doubt).
const MAX_CODE: usize = 1 << 24;

/// A function without CFI, for which you want rows.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'c> {
    /// The function's code.
    pub code: Code<'c>,
    /// The function's calls that have landing pads, if you know them. For example, they can come from an LSDA.
    pub call_sites: &'c [CallSite],
    /// The offsets of calls that you know not to return, ascending.
    pub noreturn: &'c [u32],
    /// Set this to true if something shows that a function starts here, for example a symbol or a call. Otherwise the
    /// candidate is omitted unless a function jumps to it with a frame in place.
    pub is_known: bool,
    /// Set this to true if calls from other files may lead here. Then the candidate gets rows even if no path leaves it,
    /// as long as its stack stays below the return address. The entry of a program is no such function.
    pub is_exported: bool,
}

/// A jump from one function into another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The address that the jump leads to.
    pub target: Address,
    /// True if the jumping function still has its frame: the stack pointer is not where the call left it.
    pub has_frame: bool,
}

/// Describes the rest of the file, as far as it shows how functions are entered.
#[derive(Clone, Copy)]
pub struct Surroundings<'s> {
    /// Jumps out of functions that have CFI. They may lead anywhere.
    pub jumps: &'s [Jump],
    /// Targets of direct calls in functions that have CFI.
    pub calls: &'s [Address],
    /// Returns whether an address lies in some function of the file, after the function's first byte.
    pub is_inside: &'s dyn Fn(Address) -> bool,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jumps, calls, is_inside: _ } = self;
        f.debug_struct("Surroundings").field("jumps", jumps).field("calls", calls).finish_non_exhaustive()
    }
}

/// Synthesizes rows for functions that have no CFI, all at once. The candidates must be ascending and must not
/// overlap.
///
/// The result has one entry per candidate, in the same order, like [`Analysis::synthesize`] gives for a single
/// function. Call this function instead if functions jump into each other. For example, a `.cold` fragment is entered
/// by jumps with a frame in place. The fragment and its function are then followed together: either all of them get
/// rows, or none.
///
/// A function is omitted for the reasons of [`Analysis::synthesize`], and also if
///
/// - a function with CFI jumps into its middle, or to it with a frame in place ([`Omission::Entered`]);
/// - it jumps into the middle of a function with CFI ([`Omission::IntoFunction`]);
/// - it calls a function that does not keep its caller's registers or stack pointer ([`Omission::OddCall`]);
/// - no path leaves it as a function does, and no call leads to it ([`Omission::NeverReturns`]).
pub fn synthesize(
    candidates: &[Candidate<'_>],
    surroundings: &Surroundings<'_>,
    memory: &dyn Memory,
) -> Vec<Result<Vec<Row>, Refused>> {
    synthesize_with(candidates, surroundings, memory, |analysis| analysis.synthesize())
}

/// Does the same as [`synthesize`], but calls `rows` on the [`Analysis`] of each function to make the result.
///
/// The function `rows` can run more than once for the same candidate, because candidates that jump into each other
/// are followed several times. The last result counts.
pub fn synthesize_with<T>(
    candidates: &[Candidate<'_>],
    surroundings: &Surroundings<'_>,
    memory: &dyn Memory,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Refused>,
) -> Vec<Result<T, Refused>> {
    let mut rounds = Rounds::new(candidates, surroundings, memory, &rows);
    omit_entered(&mut rounds, surroundings);
    omit_odd_calls(&mut rounds);
    omit_groups(&mut rounds, candidates);
    rounds.all.into_iter().map(|followed| followed.rows).collect()
}

/// Omits a function, unless it is omitted already. The first reason stays.
fn omit<T>(rounds: &mut Rounds<'_, T>, index: usize, refused: Refused) {
    let rows = &mut rounds.all[index].rows;
    if rows.is_ok() {
        *rows = Err(refused);
    }
}

/// Omits functions that are entered, or that enter other functions, in a manner that the synthesis cannot describe.
fn omit_entered<T>(rounds: &mut Rounds<'_, T>, surroundings: &Surroundings<'_>) {
    let mut omitted = Vec::new();
    for jump in surroundings.jumps {
        let around = rounds.around(jump.target).filter(|(_, offset)| *offset != 0 || jump.has_frame);
        omitted.extend(around.map(|(index, offset)| (index, Omission::Entered.at(offset))));
    }
    omitted.extend(rounds.unsettled.iter().map(|index| (*index, Omission::Entered.at(0))));
    for index in 0..rounds.all.len() {
        omit_by(rounds, index, surroundings, &mut omitted);
    }
    for (index, refused) in omitted {
        omit(rounds, index, refused);
    }
}

/// Adds to `omitted` the functions that cannot get rows because of the function at `index`, each with its reason.
fn omit_by<T>(
    rounds: &Rounds<'_, T>,
    index: usize,
    surroundings: &Surroundings<'_>,
    omitted: &mut Vec<(usize, Refused)>,
) {
    let followed = &rounds.all[index];
    for (target, frames) in &*followed.jumps {
        let into = (index, Omission::IntoFunction.at(frames.first));
        match rounds.around(*target) {
            None if (surroundings.is_inside)(*target) => omitted.push(into),
            None => {}
            // Either something enters a fragment as if it were a function, or a function is both called and entered
            // with a frame.
            Some((other, 0)) if rounds.fragments.contains(&other) && frames.none => {
                omitted.push((other, Omission::Entered.at(0)));
            }
            Some((other, 0)) if !rounds.fragments.contains(&other) && frames.some => {
                omitted.extend([(other, Omission::Entered.at(0)), into]);
            }
            Some(_) => {}
        }
    }
    if !rounds.is_trusted(index) {
        let entered = rounds.entered_by(index);
        omitted.extend(entered.map(|(other, offset)| (other, Omission::Entered.at(offset))));
    }
    let targets = followed.table_targets.iter().filter_map(|target| rounds.around(*target));
    for (other, offset) in targets {
        // The jump table may have been read too far. But if the entry leads to a fragment or to the start of a
        // function, then it may be a real entry, and the target must not get rows.
        if rounds.is_start(other, offset) || rounds.fragments.contains(&other) {
            omitted.push((other, Omission::Entered.at(offset)));
        }
    }
    let calls = followed.calls.iter().filter_map(|target| rounds.around(*target));
    let inside = calls.filter(|(_, offset)| *offset != 0);
    omitted.extend(inside.map(|(other, offset)| (other, Omission::Entered.at(offset))));
}

/// Omits functions that call a function after which the caller's registers or stack pointer cannot be restored.
///
/// If the called function changes registers, and the caller does not save the frame pointer, then the caller changes it
/// too, for its own callers.
fn omit_odd_calls<T>(rounds: &mut Rounds<'_, T>) {
    let reason = |followed: &Followed<T>| followed.rows.as_ref().err().map(|refused| refused.omission);
    let all: Vec<_> = rounds.all.iter().map(reason).collect();
    let changes = |omission: &Option<Omission>| {
        matches!(omission, Some(Omission::SavedRegister | Omission::FramePointer | Omission::NoPlace))
    };
    let mut changing: Vec<bool> = all.iter().map(changes).collect();
    let leaves_stack = |omission: &Option<Omission>| *omission == Some(Omission::StackAtReturn);
    let mut is_odd: Vec<bool> =
        all.iter().map(|omission| changes(omission) || leaves_stack(omission)).collect();
    let mut waiting: Vec<usize> = (0..all.len()).filter(|index| is_odd[*index]).collect();
    if waiting.is_empty() {
        return;
    }
    let keeps_registers = changing.iter().filter(|changes| **changes).count() <= all.len() / CHANGING;
    let callers = callers(rounds);
    let mut found = Vec::new();
    if !keeps_registers {
        found.extend((0..all.len()).filter_map(|index| Some((index, goes_on_in_unknown(rounds, index)?))));
    }
    loop {
        for (index, call) in found.drain(..) {
            omit(rounds, index, Omission::OddCall.at(call));
            if !changing[index] && !rounds.saves_frame_pointer(index) {
                changing[index] = true;
                waiting.push(index);
            }
        }
        let Some(called) = waiting.pop() else { return };
        let first = callers.partition_point(|call| call.0 < called as u32);
        for (_, caller, is_jump) in callers[first..].iter().take_while(|call| call.0 == called as u32) {
            let caller = *caller as usize;
            let call = rounds.call_into(caller, called);
            if *is_jump {
                // The function leaves as the function to which it jumps.
                let known = if changing[called] { &mut changing } else { &mut is_odd };
                if !std::mem::replace(&mut known[caller], true) {
                    waiting.push(caller);
                }
            } else if changing[called] {
                found.push((caller, call));
            }
            if !is_jump || !keeps_registers {
                omit(rounds, caller, Omission::OddCall.at(call));
            }
        }
    }
}

/// Returns the offset of a call through a pointer in a function, or of a jump to an address where no function gets rows.
fn goes_on_in_unknown<T>(rounds: &Rounds<'_, T>, index: usize) -> Option<u32> {
    let followed = &rounds.all[index];
    let is_unknown = |(target, frames): &&(Address, Frames)| {
        frames.none && rounds.around(*target).is_none_or(|(other, _)| rounds.all[other].rows.is_err())
    };
    let jump = followed.jumps.iter().find(is_unknown).map(|(_, frames)| frames.first);
    followed.unknown_call.or(jump)
}

/// Returns the calls and tail calls between functions, ascending: the called function, the caller, and whether it jumps.
fn callers<T>(rounds: &Rounds<'_, T>) -> Vec<(u32, u32, bool)> {
    let mut callers = Vec::new();
    for (index, followed) in rounds.all.iter().enumerate() {
        let calls = followed.calls.iter().filter_map(|target| rounds.around(*target));
        callers.extend(calls.map(|(called, _)| (called as u32, index as u32, false)));
        let jumps = followed.jumps.iter().filter(|(_, frames)| frames.none);
        let starts =
            jumps.filter_map(|(target, _)| rounds.around(*target).filter(|(_, offset)| *offset == 0));
        callers.extend(starts.map(|(called, _)| (called as u32, index as u32, true)));
    }
    callers.sort_unstable();
    callers
}

/// If more than one of so many functions changes registers of its caller, the code has a convention of its own: a
/// function that is called by a pointer may change them too. Other code has one such function in a hundred at most.
const CHANGING: usize = 8;

/// Omits each group of functions that jump into each other if one of them has no rows, or if nothing shows that the
/// group is a function.
fn omit_groups<T>(rounds: &mut Rounds<'_, T>, candidates: &[Candidate<'_>]) {
    let count = rounds.all.len();
    let (mut into, mut from) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (index, into) in into.iter_mut().enumerate() {
        for (other, _) in rounds.entered_by(index) {
            into.push(other);
            from[other].push(index);
        }
    }
    let mut seen = vec![false; count];
    for first in 0..count {
        let mut group = vec![first];
        let mut next = 0;
        if std::mem::replace(&mut seen[first], true) {
            continue;
        }
        while let Some(index) = group.get(next).copied() {
            next += 1;
            for other in into[index].iter().chain(&from[index]) {
                if !std::mem::replace(&mut seen[*other], true) {
                    group.push(*other);
                }
            }
        }
        let is_function = group.iter().any(|&index| {
            rounds.all[index].leaves
                || rounds.is_called(index) && candidates[index].is_known
                || rounds.may_stay(index)
        });
        for &index in &group {
            if !rounds.is_entered_as_followed(index) {
                omit(rounds, index, Omission::NeverReturns.at(0));
            }
        }
        let is_whole = group.iter().all(|index| rounds.all[*index].rows.is_ok());
        for index in group {
            if !is_function {
                omit(rounds, index, Omission::NeverReturns.at(0));
            } else if !is_whole {
                let jump = rounds.first_jump_into(index);
                let entered = Omission::Entered.at(0);
                omit(rounds, index, jump.map_or(entered, |jump| Omission::IntoFunction.at(jump)));
            }
        }
    }
}
