//! Follows functions that jump into each other, until another round learns nothing new.
//!
//! Compilers move rarely executed code out of its function. GCC adds `.cold` to the name of the moved part, and we
//! call it a *fragment*. A fragment is not a function: jumps enter it while the frame of its function is in place, and
//! it jumps back into the middle of its function. So each round follows the functions again, with the states that
//! other functions bring into them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cfipack_format::Address;

use super::ways::{self, Way};
use super::{Candidate, MAX_CODE, Surroundings};
use crate::analysis::{Analysis, CallSite, Doubt, Entry, Ways};
use crate::instruction::{Flow, Op, index_of};
use crate::instructions::Instructions;
use crate::state::State;
use crate::stub::jump_slot;
use crate::synthesize::{Omission, Refused};
use crate::table::Memory;
use crate::value::Value;

/// How often synthesis goes over a file. One round finds the fragments of functions, the next round follows the
/// fragments, and another round follows the functions with the jumps that come back. Fragments of fragments need more
/// rounds. A function that still changes in the last round is omitted.
const ROUNDS: usize = 8;

/// This limits how many places in other functions one function may enter with a known state: one for every 32 bytes
/// of the function, plus 32. The limit bounds memory for hostile code. A function that exceeds it is omitted.
const TARGETS: (usize, usize) = (32, 32);

/// Whether a function's frame is in place when it jumps to a target. Both are possible if there are several jumps.
#[derive(Clone, Copy, Default)]
pub(super) struct Frames {
    /// At least one jump happens with a frame in place.
    pub some: bool,
    /// At least one jump happens without a frame, as a tail call does.
    pub none: bool,
    /// The offset of the first jump.
    pub first: u32,
}

/// The result of following a function once.
pub(super) struct Followed<T> {
    pub rows: Result<T, Refused>,
    /// True if some path leaves the function by a return, or by a jump to another function.
    pub leaves: bool,
    /// True if some path from the function's start leaves the function in this way.
    pub leaves_from_start: bool,
    /// The targets of jumps out of the function, ascending.
    pub jumps: Box<[(Address, Frames)]>,
    /// Targets outside of the function that its jump tables seem to have. A compiler's tables only lead into their
    /// own function, so this table has most likely been read beyond its end.
    pub table_targets: BTreeSet<Address>,
    /// The states in which this function jumps into other functions, by target, ascending. Plain jumps to the start
    /// of another function are not in the list. The states are shared, because a state is larger than a small
    /// function, and a target mostly has only one state.
    into: Box<[(Address, Rc<State>)]>,
    pub calls: Vec<Address>,
    /// The offset of the first call or jump to a function that is not known. A stub does not count: it jumps to a function of
    /// another file.
    pub unknown_call: Option<u32>,
    /// The number of bytes of padding at the function's start.
    lead: u32,
    /// True if no path removes more from the stack than the function's own frame.
    is_function: bool,
    /// True if this was asked because no path leaves the function, and is so.
    stays_below: bool,
}

/// The functions of a file, with the results of the rounds so far.
pub(super) struct Rounds<'r, T> {
    candidates: &'r [Candidate<'r>],
    memory: &'r dyn Memory,
    rows: &'r dyn Fn(&Analysis<'_>) -> Result<T, Refused>,
    instructions: Instructions,
    pub all: Vec<Followed<T>>,
    /// The targets of all direct calls, ascending.
    called: Vec<Address>,
    /// The indexes of fragments: a jump with a frame in place leads to a fragment's start, and no call does.
    pub fragments: BTreeSet<usize>,
    /// The states with which functions were entered in the last round.
    entries: Vec<Way>,
    /// The functions that the last round has followed again. They are still changing if rounds run out.
    pub unsettled: BTreeSet<usize>,
}

impl<'r, T> Rounds<'r, T> {
    /// Follows all functions, first each by itself and then in rounds. The candidates must be ascending.
    pub fn new(
        candidates: &'r [Candidate<'r>],
        surroundings: &'r Surroundings<'r>,
        memory: &'r dyn Memory,
        rows: &'r dyn Fn(&Analysis<'_>) -> Result<T, Refused>,
    ) -> Self {
        let mut rounds = Self {
            candidates,
            memory,
            rows,
            instructions: Instructions::default(),
            all: Vec::with_capacity(candidates.len()),
            called: surroundings.calls.to_vec(),
            fragments: BTreeSet::new(),
            entries: Vec::new(),
            unsettled: BTreeSet::new(),
        };
        for index in 0..candidates.len() {
            let followed = rounds.follow(index, true, &[]);
            rounds.called.extend(&followed.calls);
            rounds.all.push(followed);
        }
        rounds.called.sort_unstable();
        rounds.called.dedup();
        rounds.settle();
        rounds
    }

    /// Returns the index of the function that contains an address, and the offset of the address in it.
    pub fn around(&self, address: Address) -> Option<(usize, u32)> {
        around(self.candidates, address)
    }

    /// Returns whether a direct call leads to a function's start.
    pub fn is_called(&self, index: usize) -> bool {
        self.called.binary_search(&self.candidates[index].code.start).is_ok()
    }

    /// Returns whether we know how a function is entered. We know it if the function is a fragment, or if something shows its
    /// start, and a call leads to it, a path from its start leaves it, or it jumps into the middle of another function.
    pub fn is_entered_as_followed(&self, index: usize) -> bool {
        let followed = &self.all[index];
        let leaves = followed.leaves_from_start || !followed.into.is_empty();
        let is_known = self.candidates[index].is_known;
        self.fragments.contains(&index)
            || is_known && (leaves || self.is_called(index) || self.may_stay(index))
    }

    /// Returns whether a function gets rows although no path leaves it, and no call in the file leads to it.
    pub fn may_stay(&self, index: usize) -> bool {
        self.candidates[index].is_exported && self.all[index].stays_below
    }

    /// Returns the functions that a function jumps into with a frame in place, or in the middle, and the offsets there.
    pub fn entered_by(&self, index: usize) -> impl Iterator<Item = (usize, u32)> {
        self.all[index].into.iter().filter_map(|way| self.around(way.0))
    }

    /// Returns the offset of a function's first such jump.
    pub fn first_jump_into(&self, index: usize) -> Option<u32> {
        let Followed { jumps, into, .. } = &self.all[index];
        let jumps = into.iter().filter_map(|way| jumps.binary_search_by_key(&way.0, |jump| jump.0).ok());
        jumps.map(|jump| self.all[index].jumps[jump].1.first).min()
    }

    /// Returns the offset of a function's first call or jump that leads to a place in the function `called`.
    pub fn call_into(&mut self, index: usize, called: usize) -> u32 {
        self.instructions.decode(&self.candidates[index].code);
        let is_into = |target| self.around(target).is_some_and(|(other, _)| other == called);
        let mut all = self.instructions.iter();
        let call = all.find(|one| match one.flow {
            Flow::Call(target) | Flow::Jump(target) | Flow::Branch(target, _) => target.is_some_and(is_into),
            _ => false,
        });
        call.map_or(0, |call| call.offset)
    }

    /// Returns whether a function stores the frame pointer somewhere.
    pub fn saves_frame_pointer(&mut self, index: usize) -> bool {
        let code = &self.candidates[index].code;
        self.instructions.decode(code);
        let own = index_of(code.arch, code.arch.frame_pointer());
        let stores = |op: &Op| matches!(op, Op::Store { from, .. } if *from == own);
        let mut steps = self.instructions.steps(0);
        while let Some((_, _, ops)) = steps.next_slice() {
            if ops.iter().any(stores) {
                return true;
            }
        }
        false
    }

    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let stale = self.find_fragments();
            let new = self.ways(&stale);
            let mut all: Vec<_> = new
                .iter()
                .chain(&self.entries)
                .map(|way| way.function)
                .chain(stale.iter().copied())
                .collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|index| {
                stale.contains(index)
                    || ways::into_function(&new, *index) != ways::into_function(&self.entries, *index)
            });
            self.unsettled = all.into_iter().collect();
            if self.unsettled.is_empty() {
                return;
            }
            for index in self.unsettled.clone() {
                let ways: Vec<_> = ways::into_function(&new, index)
                    .iter()
                    .map(|way| Entry { offset: way.offset, state: &way.state })
                    .collect();
                self.all[index] = self.follow(index, !self.fragments.contains(&index), &ways);
            }
            self.entries = new;
        }
    }

    /// Collects the states that functions bring into other functions. This omits functions in `stale` and functions
    /// that are not [trusted](Self::is_trusted), because their states are not right.
    fn ways(&self, stale: &BTreeSet<usize>) -> Vec<Way> {
        let mut ways = Vec::new();
        for (index, followed) in self.all.iter().enumerate() {
            if stale.contains(&index) || !self.is_trusted(index) {
                continue;
            }
            for (target, state) in &*followed.into {
                let Some((other, offset)) = self.around(*target) else { continue };
                // An ordinary function that is entered at its start with a frame in place is omitted later.
                if offset != 0 || self.fragments.contains(&other) {
                    ways.push(Way { function: other, offset, state: Rc::clone(state) });
                }
            }
        }
        ways::sort(&mut ways);
        ways
    }

    /// Returns whether an offset is a function's first instruction, or lies in the padding before it.
    pub fn is_start(&self, index: usize, offset: u32) -> bool {
        offset <= self.all[index].lead
    }

    /// Returns whether the states of a function can be trusted. A fragment that was followed as if it were a function
    /// has wrong states, because they start with the wrong frame.
    pub fn is_trusted(&self, index: usize) -> bool {
        self.all[index].is_function || self.fragments.contains(&index)
    }

    /// Finds new fragments. Returns the functions that have just become fragments. Their results are stale.
    fn find_fragments(&mut self) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for (index, followed) in self.all.iter().enumerate() {
            let with_frame = followed.jumps.iter().filter(|(_, frames)| frames.some);
            for (target, _) in with_frame.filter(|_| self.is_trusted(index)) {
                let Some((other, offset)) = self.around(*target) else { continue };
                let is_start = self.is_start(other, offset);
                if is_start && !self.is_called(other) && !self.fragments.contains(&other) {
                    found.insert(other);
                }
            }
        }
        self.fragments.extend(&found);
        found
    }

    fn follow(&mut self, index: usize, starts: bool, entries: &[Entry<'_>]) -> Followed<T> {
        let Candidate { code, call_sites, noreturn, is_known, is_exported } = self.candidates[index];
        let omitted = |omission| Followed {
            rows: Err(Omission::at(omission, 0)),
            leaves: false,
            leaves_from_start: false,
            jumps: Box::default(),
            table_targets: BTreeSet::new(),
            into: Box::default(),
            calls: Vec::new(),
            unknown_call: None,
            lead: 0,
            is_function: true,
            stays_below: false,
        };
        match code.bytes.len() {
            0 => return omitted(Omission::NoCode),
            MAX_CODE.. => return omitted(Omission::Doubt(Doubt::TooLarge)),
            _ => {}
        }
        self.instructions.decode(&code);
        let entry = State::at_entry(code.arch);
        let ways = Ways { start: starts.then_some(&entry), entries, call_sites, noreturn };
        let red_zone = Some(code.arch.red_zone());
        let mut analysis = Analysis::with_red_zone(code, &self.instructions, self.memory, ways, red_zone);
        let mut followed = omitted(Omission::NoCode);
        let most = code.bytes.len() / TARGETS.0 + TARGETS.1;
        let mut is_too_large = false;
        let (mut jumps, mut into) = (BTreeMap::<_, Frames>::new(), BTreeMap::new());
        // A jump without a known target counts as a tail call, which needs no state.
        if analysis.exits().iter().any(|exit| exit.target.is_some()) {
            analysis.for_each_exit(|exit, state| {
                let Some(target) = exit.target else { return };
                if exit.is_from_table {
                    followed.table_targets.insert(target);
                    return;
                }
                let instruction = self.instructions.at(exit.index);
                // A landing pad belongs to the frame of the call, so the call's frame is in place there.
                let has_frame = matches!(instruction.flow, Flow::Call(_)) || state.has_frame(code.arch);
                let first = Frames { first: instruction.offset, ..Frames::default() };
                let frames = jumps.entry(target).or_insert(first);
                (frames.some, frames.none) = (frames.some | has_frame, frames.none | !has_frame);
                let other = around(self.candidates, target);
                if other.is_none_or(|(_, offset)| offset == 0 && !has_frame) {
                    return;
                }
                let after = analysis.after(state, &instruction, true).carried();
                is_too_large |= into.len() >= most;
                match into.get_mut(&target) {
                    Some(known) => ways::join(known, &after),
                    None if is_too_large => {}
                    None => _ = into.insert(target, Rc::new(after)),
                }
            });
        }
        let fragment = !starts;
        (followed.jumps, followed.into) = (jumps.into_iter().collect(), into.into_iter().collect());
        analysis.let_leave(followed.into.iter().map(|way| way.0), fragment);
        followed.is_function = fragment || followed.into.is_empty() || analysis.keeps_to_its_frame();
        followed.rows = (self.rows)(&analysis);
        let never = |refused: &Refused| refused.omission == Omission::NeverReturns;
        followed.leaves = !followed.rows.as_ref().is_err_and(never);
        if !followed.leaves {
            analysis.may_stay = true;
            followed.stays_below = is_exported && analysis.keeps_to_its_frame();
            followed.rows = (self.rows)(&analysis);
        }
        followed.leaves &= is_known || analysis.returns();
        followed.leaves_from_start = match entries {
            [] => followed.leaves,
            _ => starts && analysis.returning().first() == Some(&true),
        };
        if is_too_large {
            followed.rows = Err(Omission::Doubt(Doubt::TooLarge).at(0));
        }
        if followed.rows.is_ok() && analysis.pushes_for_landing_pads(call_sites) {
            followed.rows = Err(Omission::Cfa.at(0));
        }
        let first = self.instructions.iter().find(|instruction| !instruction.is_padding);
        followed.lead = first.map_or(0, |first| first.offset);
        let is_stub = jump_slot(&code, &self.instructions).is_some();
        for (index, instruction) in self.instructions.iter().enumerate() {
            let is_unknown = match instruction.flow {
                Flow::Call(Some(target)) => {
                    followed.calls.push(target);
                    false
                }
                Flow::Call(None) => true,
                Flow::JumpRegister(_) | Flow::JumpMemory => {
                    !is_stub && analysis.exits().binary_search_by_key(&index, |exit| exit.index).is_ok()
                }
                _ => false,
            };
            if is_unknown {
                followed.unknown_call.get_or_insert(instruction.offset);
            }
        }
        followed.calls.sort_unstable();
        followed.calls.dedup();
        followed
    }
}

fn around(candidates: &[Candidate<'_>], address: Address) -> Option<(usize, u32)> {
    let index = candidates.partition_point(|candidate| candidate.code.start <= address).checked_sub(1)?;
    let code = &candidates[index].code;
    let offset = address.0 - code.start.0;
    (offset < code.bytes.len() as u64).then_some((index, offset as u32))
}

impl Analysis<'_> {
    /// Returns whether the stack pointer never rises above its value at the function's entry.
    fn keeps_to_its_frame(&self) -> bool {
        let arch = self.code().arch;
        let (stack, entry) = (arch.stack_pointer(), -(arch.cfa_offset_at_entry() as i32));
        let mut keeps = true;
        self.for_each(|_, _, state| {
            let at = state.map(|state| state.get(arch, stack));
            keeps &= !matches!(at, Some(Value::Cfa(offset)) if offset > entry);
        });
        keeps
    }
    /// Returns whether a call with a landing pad may have arguments on the stack.
    ///
    /// Only CFI tells an unwinder how many bytes of arguments it has to remove before it enters the landing pad, and
    /// this function has no CFI. We suspect arguments if another call or branch, after the frame is made, has less on
    /// the stack.
    fn pushes_for_landing_pads(&self, call_sites: &[CallSite]) -> bool {
        if call_sites.iter().all(|site| site.stack.is_some()) {
            return false;
        }
        let arch = self.code().arch;
        let entry = -(arch.cfa_offset_at_entry() as i32);
        let (mut highest, mut lowest) = (i32::MIN, i32::MAX);
        self.for_each(|_, instruction, state| {
            let Some(Value::Cfa(at)) = state.map(|state| state.get(arch, arch.stack_pointer())) else {
                return;
            };
            match instruction.flow {
                Flow::Call(_) => {
                    let site = call_sites.partition_point(|site| site.end <= instruction.offset);
                    let site = call_sites.get(site).filter(|site| site.start <= instruction.offset);
                    if site.is_some_and(|site| site.stack.is_none()) {
                        lowest = lowest.min(at);
                    }
                    highest = highest.max(at);
                }
                Flow::Branch(..) if at != entry => highest = highest.max(at),
                _ => {}
            }
        });
        lowest < highest
    }
}
