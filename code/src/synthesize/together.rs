//! The functions of a file that have no CFI, together: what one does shows how another is entered.

mod rounds;
mod ways;

use cfipack_format::{Address, Row};

use self::rounds::Rounds;
use super::Omission;
use crate::analysis::{Analysis, CallSite};
use crate::instructions::Code;
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
    /// False if only a call shows that a function starts there: in what is no code, it can be one that seems to be. Then a
    /// way has to leave it as a function does, with which other places than a function's start do not agree.
    pub is_named: bool,
}

/// A jump into another function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    /// The target.
    pub target: Address,
    /// True if a frame is in place: the stack pointer is not where the call left it.
    pub has_frame: bool,
}

/// The rest of the file, as far as it shows how functions are entered.
#[derive(Clone, Copy)]
pub struct Surroundings<'s> {
    /// Jumps of functions that have CFI.
    pub jumps: &'s [Jump],
    /// Targets of direct calls of functions that have CFI.
    pub calls: &'s [Address],
    /// Returns whether an address is in a function of the file, behind its start.
    pub is_inside: &'s dyn Fn(Address) -> bool,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jumps, calls, is_inside: _ } = self;
        f.debug_struct("Surroundings").field("jumps", jumps).field("calls", calls).finish_non_exhaustive()
    }
}

/// Makes the rows of functions, ascending and apart, as [`Analysis::synthesize`] does for one.
///
/// Functions that jump into the middle of others, or with a frame in place, are followed together: all of them get rows, or
/// none. What jumps alone enter, with a frame in place, is a fragment of those that have them, as compilers divide functions;
/// one that no way leaves as a function does gets rows if a call leads to it. A function gets none if one with CFI enters it
/// elsewhere than at its start, or with a frame in place; if it jumps into one with CFI; or if it calls one that does not
/// keep its registers or stack pointer.
pub fn synthesize(
    candidates: &[Candidate<'_>],
    surroundings: &Surroundings<'_>,
    memory: &dyn Memory,
) -> Vec<Result<Vec<Row>, Omission>> {
    synthesize_with(candidates, surroundings, memory, |analysis| analysis.synthesize())
}

/// Makes of each function what `rows` makes of its analysis, and omits the same functions as [`synthesize`]. Of a function
/// that is followed more than once the last result counts.
pub fn synthesize_with<T>(
    candidates: &[Candidate<'_>],
    surroundings: &Surroundings<'_>,
    memory: &dyn Memory,
    rows: impl Fn(&Analysis<'_>) -> Result<T, Omission>,
) -> Vec<Result<T, Omission>> {
    let mut rounds = Rounds::new(candidates, surroundings, memory, &rows);
    omit_entered(&mut rounds, surroundings);
    omit_odd_calls(&mut rounds);
    omit_groups(&mut rounds, candidates);
    rounds.all.into_iter().map(|followed| followed.rows).collect()
}

/// Omits a function, if it is not already.
fn omit<T>(rounds: &mut Rounds<'_, T>, index: usize, omission: Omission) {
    let rows = &mut rounds.all[index].rows;
    if rows.is_ok() {
        *rows = Err(omission);
    }
}

/// Omits functions with ways into them, or into others, that are not known.
fn omit_entered<T>(rounds: &mut Rounds<'_, T>, surroundings: &Surroundings<'_>) {
    let mut omitted = Vec::new();
    for jump in surroundings.jumps {
        let around = rounds.around(jump.target).filter(|(_, offset)| *offset != 0 || jump.has_frame);
        omitted.extend(around.map(|(index, _)| (index, Omission::Entered)));
    }
    omitted.extend(rounds.unsettled.iter().map(|index| (*index, Omission::Entered)));
    for index in 0..rounds.all.len() {
        omit_by(rounds, index, surroundings, &mut omitted);
    }
    for (index, omission) in omitted {
        omit(rounds, index, omission);
    }
}

/// The functions that are omitted because of what a function does, with the reasons.
fn omit_by<T>(
    rounds: &Rounds<'_, T>,
    index: usize,
    surroundings: &Surroundings<'_>,
    omitted: &mut Vec<(usize, Omission)>,
) {
    let followed = &rounds.all[index];
    for (target, frames) in &*followed.jumps {
        match rounds.around(*target) {
            None if (surroundings.is_inside)(*target) => omitted.push((index, Omission::IntoFunction)),
            None => {}
            // A fragment that something enters as a function, or a function that is called and entered with a frame in place.
            Some((other, 0)) if rounds.fragments.contains(&other) && frames.none => {
                omitted.push((other, Omission::Entered));
            }
            Some((other, 0)) if !rounds.fragments.contains(&other) && frames.some => {
                omitted.extend([(other, Omission::Entered), (index, Omission::IntoFunction)]);
            }
            Some(_) => {}
        }
    }
    if !rounds.is_trusted(index) {
        omitted.extend(rounds.entered_by(index).map(|other| (other, Omission::Entered)));
    }
    let targets = followed.table_targets.iter().filter_map(|target| rounds.around(*target));
    for (other, offset) in targets {
        // If it is a fragment's place, or the start of what seems to be a function, a table may have it after all.
        if rounds.is_start(other, offset) || rounds.fragments.contains(&other) {
            omitted.push((other, Omission::Entered));
        }
    }
    let calls = followed.calls.iter().filter_map(|target| rounds.around(*target));
    omitted.extend(calls.filter(|(_, offset)| *offset != 0).map(|(other, _)| (other, Omission::Entered)));
}

/// Omits functions that call one after which what is nowhere cannot be restored.
fn omit_odd_calls<T>(rounds: &mut Rounds<'_, T>) {
    let is_odd = |rows: &Result<_, _>| match rows {
        Err(omission) => matches!(
            omission,
            Omission::SavedRegister | Omission::StackAtReturn | Omission::FramePointer | Omission::NoPlace
        ),
        Ok(_) => false,
    };
    let odd: Vec<bool> = rounds.all.iter().map(|followed| is_odd(&followed.rows)).collect();
    for index in 0..rounds.all.len() {
        let calls = rounds.all[index].calls.iter();
        if calls.filter_map(|target| rounds.around(*target)).any(|(called, _)| odd[called]) {
            omit(rounds, index, Omission::OddCall);
        }
    }
}

/// Omits functions that are divided into parts of which one has no rows, or that nothing shows to be functions.
fn omit_groups<T>(rounds: &mut Rounds<'_, T>, candidates: &[Candidate<'_>]) {
    let count = rounds.all.len();
    let (mut into, mut from) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (index, into) in into.iter_mut().enumerate() {
        for other in rounds.entered_by(index) {
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
        let is_function = |index: &usize| {
            rounds.all[*index].leaves || rounds.is_called(*index) && candidates[*index].is_named
        };
        let is_function = group.iter().any(is_function);
        for index in
            group.iter().filter(|index| !rounds.is_entered_as_followed(**index)).copied().collect::<Vec<_>>()
        {
            omit(rounds, index, Omission::NeverReturns);
        }
        let is_whole = group.iter().all(|index| rounds.all[*index].rows.is_ok());
        for index in group {
            if !is_function {
                omit(rounds, index, Omission::NeverReturns);
            } else if !is_whole {
                let omission =
                    if into[index].is_empty() { Omission::Entered } else { Omission::IntoFunction };
                omit(rounds, index, omission);
            }
        }
    }
}
