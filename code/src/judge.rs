//! Compares a function's rows with the function's code.
//!
//! - [`finding`]: disagreements as a caller sees them
//! - [`calls`]: the rows at calls alone
//! - [`compare`]: compares a row with a state
//! - `edges`: where the CFA becomes wrong; `registers`: where another rule does
//! - `outermost`: rows that hide the caller
//! - [`expected`]: a fast path for rows that agree

mod calls;
mod compare;
mod edges;
mod expected;
mod finding;
mod outermost;
mod registers;

use cfipack_format::{Arch, Cfa, CfaWords, Register, Rule};

use self::compare::{CfaState, Compared, OPEN, RETURN_ADDRESS};
use self::expected::Expected;
pub use self::finding::{Finding, Judgement, Kind};
use crate::analysis::Analysis;
use crate::instruction::{Flow, Instruction};
use crate::marks::Marks;
use crate::rows::{FullRow, Rows};
use crate::state::State;
use crate::value::Value;

/// Checks the rows of a function. Make a judge with [`Judge::new`], then call [`Judge::judge`].
pub struct Judge<'j, 'c> {
    arch: Arch,
    analysis: &'j Analysis<'c>,
    rows: &'j Rows,
    /// The number of bytes below the stack pointer that no signal handler overwrites.
    red_zone: u32,
    /// True if a called function has set the frame pointer for the frame, as far as the rows are right.
    has_helper: bool,
    /// True if the code signs return addresses with another key than the rows say.
    has_other_key: bool,
    /// The number of instructions.
    count: usize,
    /// Runs of instructions with the same verdict, ascending. There are few, also in a long function.
    verdicts: Vec<Verdict>,
    /// True if the CFA is right at every instruction that a path leads to.
    are_right: bool,
    /// Returns that leave the stack pointer in the wrong place.
    returns: Vec<Finding>,
    /// For each verdict with a wrong CFA: the last instruction that follows it with the same wrong CFA or row. One finding
    /// covers them all.
    ends: Vec<u32>,
}

/// What the comparison says about an instruction, and about those after it up to the next verdict.
#[derive(Clone, Copy)]
struct Verdict {
    /// The index of the first instruction.
    first: u32,
    compared: Compared,
    /// The registers, as bits, whose caller's value is stored or in a register. It is 0 if no register is lost or hidden.
    held: u64,
    /// True if a register is lost or hidden, and the instruction before is a call.
    follows_call: bool,
}

/// At most this many instructions after the first call, a row for the frame that the called function has made starts.
const HELPER: usize = 3;

fn is_wrong(cfa: CfaState) -> bool {
    matches!(cfa, CfaState::Off(_) | CfaState::Wrong)
}

impl std::fmt::Debug for Judge<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge").field("arch", &self.arch).finish_non_exhaustive()
    }
}

impl<'j, 'c> Judge<'j, 'c> {
    /// Compares the rows with the state before every instruction. `red_zone` is the number of bytes below the stack
    /// pointer that no signal handler overwrites, for example [`Arch::red_zone`]. No register is saved below them.
    pub fn new(analysis: &'j Analysis<'c>, rows: &'j Rows, red_zone: u32) -> Self {
        let arch = analysis.code().arch;
        let count = analysis.instructions().len();
        let signed = rows.key_b.filter(|_| rows.iter().any(|row| row.row.signed));
        let has_other_key = signed.is_some_and(|key_b| {
            analysis.instructions().signs_by_b().is_some_and(|signs_by_b| signs_by_b != key_b)
        });
        let mut judge = Self {
            arch,
            analysis,
            rows,
            red_zone,
            has_helper: false,
            has_other_key,
            count,
            verdicts: Vec::new(),
            are_right: true,
            returns: Vec::new(),
            ends: Vec::new(),
        };
        let (mut row_index, mut first_call, mut follows_call) = (0, None, false);
        // `kept` has registers that every return and tail call restores.
        let (mut kept, mut returns, mut is_left, mut is_left_with_frame) = (u64::MAX, false, false, false);
        let mut last: Option<(usize, Compared)> = None;
        // What the instruction before can change.
        let mut affected = 0;
        let mut expected = rows.get(0).map(|row| Expected::new(arch, row, red_zone));
        let starts_at = |index| rows.get(index).map_or(u32::MAX, |row| row.row.start.0);
        let (first, mut next) = (starts_at(0), starts_at(1));
        let has_link = arch.pushed_by_call() == 0;
        analysis.for_each(|index, instruction, state| {
            let before = row_index;
            while next <= instruction.offset && row_index + 1 < rows.len() {
                row_index += 1;
                next = starts_at(row_index + 1);
            }
            if row_index != before {
                expected = rows.get(row_index).map(|row| Expected::new(arch, row, red_zone));
                let row = state.zip(rows.get(row_index));
                let is_near = first_call.is_some_and(|call| index - call <= HELPER);
                judge.has_helper |= is_near && row.is_some_and(|(state, row)| judge.sets_frame(state, row));
            }
            let row = expected.as_ref().filter(|_| row_index != 0 || first <= instruction.offset);
            let (is_same, compared) = match (state, row, last) {
                // Most instructions change nothing that a row describes.
                (Some(_), Some(row), Some((known, compared)))
                    if known == row_index && !row.depends_on(affected) =>
                {
                    (true, compared)
                }
                (Some(state), Some(row), _) if row.is_met_by(state) => (false, Compared::RIGHT),
                (Some(state), Some(row), _) => (false, judge.compare(state, row.row)),
                _ => (false, Compared { cfa: CfaState::Unknown, ..Compared::RIGHT }),
            };
            affected = instruction.affects;
            judge.are_right &= state.is_none() || compared.cfa == CfaState::Right;
            let is_call = matches!(instruction.flow, Flow::Call(_));
            first_call = first_call.or_else(|| is_call.then_some(index));
            let is_lost = has_link
                && is_call
                && row.is_some_and(|row| state.is_some() && judge.loses_link(index, row.row));
            let goes_on = state.is_some() && row.is_some() && !is_lost && !analysis.is_start(index + 1);
            last = goes_on.then_some((row_index, compared));
            if !is_same || is_lost || !compared.is_plain() {
                let wrong = compared.wrong | if is_lost { RETURN_ADDRESS } else { 0 };
                let (compared, first) = (Compared { wrong, ..compared }, index as u32);
                let odd = state.filter(|_| !compared.is_plain());
                let held = odd.map_or(0, |state| state.held(arch));
                let follows_call = odd.is_some() && follows_call;
                judge.add(Verdict { first, compared, held, follows_call }, row_index != before);
            }
            follows_call = is_call;
            if let Some(state) = state.filter(|state| judge.leaves(index, instruction, state)) {
                (kept, is_left) = (kept & !judge.changed(state), true);
            } else {
                is_left_with_frame |= state.is_some() && judge.jumps_out(index, instruction.flow);
            }
            if let (Flow::Return, Some(state)) = (instruction.flow, state) {
                returns = true;
                if judge.returns.len() < Judgement::MAX_FINDINGS {
                    judge.returns.extend(judge.at_return(index, state));
                }
            }
        });
        if judge.verdicts.iter().any(|verdict| is_wrong(verdict.compared.cfa)) {
            judge.ends = judge.ends();
        }
        // A function that never restores a register follows its own convention. So this is not a fault.
        let is_lost = judge.verdicts.iter().any(|verdict| verdict.compared.lost & kept != 0);
        let owned = if is_lost && analysis.has_own_convention() { 0 } else { kept };
        for Verdict { compared, held, follows_call, .. } in &mut judge.verdicts {
            // If the value is nowhere, the function never returns from here, unless a call before has not returned.
            compared.wrong |= compared.lost & owned & if returns && *follows_call { u64::MAX } else { *held };
            // Other functions may save registers for this one, and restore them where it ends.
            if is_left_with_frame && compared.lost & owned & !compared.wrong != 0 {
                compared.wrong |= OPEN;
            }
            // No unwinder recovers such a register, although the function restores it.
            compared.wrong |= compared.hidden & kept & *held & if is_left { !RETURN_ADDRESS } else { 0 };
        }
        if judge.verdicts.iter().any(|verdict| verdict.compared.hidden & RETURN_ADDRESS != 0) {
            judge.find_hidden_callers();
        }
        judge
    }

    /// Adds the verdict about an instruction, unless the last verdict says the same.
    #[inline]
    fn add(&mut self, verdict: Verdict, is_other_row: bool) {
        let Verdict { compared, held, follows_call, .. } = verdict;
        // Another row is another fault.
        let is_apart = is_other_row && (is_wrong(compared.cfa) || compared.hidden & RETURN_ADDRESS != 0);
        let last = self.verdicts.last().filter(|last| last.compared == compared && !is_apart);
        if last.is_none_or(|last| last.held != held || last.follows_call != follows_call) {
            self.verdicts.push(verdict);
        }
    }

    /// Returns the number of the verdict about an instruction.
    fn verdict(&self, index: usize) -> usize {
        self.verdicts.partition_point(|verdict| verdict.first as usize <= index) - 1
    }

    /// Returns whether an instruction's CFA is right.
    fn cfa(&self, index: usize) -> CfaState {
        self.verdicts[self.verdict(index)].compared.cfa
    }

    /// Returns the registers with wrong rules at an instruction, as bits. Bit 63 stands for the return address, bit 62 for
    /// its signature, and bit 61 for a rule that cannot be evaluated.
    fn wrong(&self, index: usize) -> u64 {
        self.verdicts[self.verdict(index)].compared.wrong
    }

    /// Finds the end of each run of instructions with the same fault.
    fn ends(&self) -> Vec<u32> {
        let nexts = self.verdicts.iter().skip(1).map(|next| next.first).chain([self.count as u32]);
        let mut ends: Vec<u32> = nexts.map(|next| next - 1).collect();
        for number in (1..ends.len()).rev() {
            let [before, verdict] = [number - 1, number].map(|number| self.verdicts[number].compared.cfa);
            let first = self.verdicts[number].first as usize;
            if self.is_same_fault(first - 1, first)
                || (matches!(verdict, CfaState::Off(_)) && before == verdict)
            {
                ends[number - 1] = ends[number];
            }
        }
        ends
    }

    /// Returns whether an instruction returns, or jumps to another function with the stack as a call leaves it.
    fn leaves(&self, index: usize, instruction: &Instruction, state: &State) -> bool {
        match instruction.flow {
            Flow::Return => true,
            Flow::JumpRegister(to) if state.at(to) == Value::Caller(self.arch.return_address()) => true,
            flow => self.jumps_out(index, flow) && !state.has_frame(self.arch),
        }
    }

    /// Returns whether an instruction jumps to another function.
    fn jumps_out(&self, index: usize, flow: Flow) -> bool {
        if matches!(flow, Flow::Next | Flow::Call(_)) {
            return false;
        }
        let exits = self.analysis.exits();
        let exit = exits.get(exits.partition_point(|exit| exit.index < index));
        exit.is_some_and(|exit| exit.index == index && !exit.is_from_table)
    }

    /// Returns whether a called function can have set the frame pointer: the row has the CFA by it, and the code has only
    /// stored it. For example, LLVM moves prologues into functions for `-Oz`.
    fn sets_frame(&self, state: &State, row: FullRow<'_>) -> bool {
        let own = self.arch.frame_pointer();
        let value = Value::Caller(own);
        let Value::Cfa(top) = state.get(self.arch, self.arch.stack_pointer()) else { return false };
        matches!(row.row.cfa, Cfa::Register { register, .. } if register == own)
            && state.get(self.arch, own) == value
            && state.slots().any(|slot| slot.0 >= top && slot.1 == value)
    }

    /// Returns whether a call that does not return overwrites the link register, where the row has the return address.
    /// After a call that returns, the rule is wrong anyway.
    fn loses_link(&self, index: usize, row: FullRow<'_>) -> bool {
        row.row.return_address == Rule::SameValue && self.analysis.next(index) == [None, None]
    }

    fn row_at(&self, index: usize) -> Option<FullRow<'j>> {
        let all = self.analysis.instructions();
        let offset = (index < all.len()).then(|| all.offset(index))?;
        self.rows.get(self.rows.index_at(offset)?)
    }

    /// Returns every disagreement between the rows and the code, and where it ends.
    pub fn judge(&self) -> Judgement {
        let mut judgement = Judgement::default();
        let mut pending: Vec<Finding> = self.returns.clone();
        if self.is_clean() {
            self.count(&mut judgement);
        } else {
            // The last call, if execution runs from it to this instruction.
            let mut call = None;
            // For each instruction, whether a finding or an instruction before it explains a wrong CFA, or an instruction
            // before it an unknown CFA.
            let mut explained = Marks::new(self.count);
            self.analysis.for_each(|index, instruction, state| {
                match (self.cfa(index), state) {
                    (CfaState::Right, _) if self.wrong(index) & OPEN == 0 => judgement.right += 1,
                    (CfaState::Unknown, None) if instruction.is_padding => {}
                    (CfaState::Right | CfaState::Unknown, _) => {
                        judgement.undecided += 1;
                        judgement.first_undecided.get_or_insert(instruction.offset);
                    }
                    (CfaState::Off(_) | CfaState::Wrong, _) => {}
                }
                match state {
                    Some(_) if pending.len() >= Judgement::MAX_FINDINGS => {}
                    Some(state) => {
                        self.edges(index, instruction, state, &mut pending, &mut explained);
                        self.registers(index, call, state, &mut pending);
                    }
                    None => {}
                }
                match instruction.flow {
                    Flow::Call(_) => call = Some(index),
                    flow if !flow.falls_through() && !instruction.is_padding => call = None,
                    _ => {}
                }
            });
            self.unexplained(&explained, &mut pending, &mut judgement);
        }
        let room = Judgement::MAX_FINDINGS.saturating_sub(pending.len());
        pending.extend(self.boundaries().take(room));
        judgement.is_cut = pending.len() >= Judgement::MAX_FINDINGS;
        pending.truncate(Judgement::MAX_FINDINGS);
        pending.sort_by_key(|finding| (finding.index, finding.kind));
        pending.dedup_by(|finding, before| {
            finding.wrong == before.wrong && finding.kind == before.kind && finding.words == before.words
        });
        judgement.findings = pending;
        judgement
    }

    /// Returns whether no instruction that a path leads to has a wrong row or an unknown CFA. Then a slow search for
    /// findings is not needed.
    fn is_clean(&self) -> bool {
        self.are_right && self.verdicts.iter().all(|verdict| verdict.compared.wrong == 0)
    }

    /// Counts the instructions of a function without findings.
    fn count(&self, judgement: &mut Judgement) {
        let all = self.analysis.instructions();
        for (number, Verdict { first, compared, .. }) in self.verdicts.iter().enumerate() {
            let end = self.verdicts.get(number + 1).map_or(self.count, |next| next.first as usize);
            let (first, len) = (*first as usize, end - *first as usize);
            if compared.cfa == CfaState::Right {
                judgement.right += len as u64;
                continue;
            }
            for instruction in all.iter_from(first).take(len).filter(|one| !one.is_padding) {
                judgement.undecided += 1;
                judgement.first_undecided.get_or_insert(instruction.offset);
            }
        }
    }

    /// Returns the offsets of the run of instructions from `first` on where a rule of one of these registers is wrong.
    fn extent(&self, first: usize, bits: u64) -> (u32, u32) {
        let all = self.analysis.instructions();
        let mut after = self.verdicts[self.verdict(first) + 1..].iter();
        let next = after.find(|verdict| verdict.compared.wrong & bits == 0);
        let end = next.map_or(self.count, |next| next.first as usize);
        (all.offset(first), all.at(end - 1).end())
    }

    fn finding(&self, index: usize, to: usize, kind: Kind, words: String) -> Finding {
        let is_end = self.cfa(to) == CfaState::Right;
        let all = self.analysis.instructions();
        let wrong = if is_end {
            (all.offset(to), all.offset(to))
        } else {
            let end = self.ends.get(self.verdict(to)).filter(|_| is_wrong(self.cfa(to)));
            let last = end.map_or(to, |end| *end as usize);
            (all.offset(to), all.at(last).end())
        };
        Finding { continues: is_end, ..Finding::new(index, wrong, kind, words) }
    }

    fn cfa_words(&self, register: Register, offset: i64) -> String {
        CfaWords(self.arch, Cfa::Register { register, offset }).to_string()
    }

    /// Checks a return: the stack pointer must be where it was at the function's entry.
    fn at_return(&self, index: usize, state: &State) -> Option<Finding> {
        let stack = self.arch.stack_pointer();
        let expected = -self.arch.cfa_offset_at_entry();
        match state.get(self.arch, stack) {
            Value::Cfa(place) if i64::from(place) != expected => {
                let link = Value::Caller(self.arch.return_address());
                // A call within the function returns here.
                if self.analysis.calls_itself && state.pointed(self.arch, stack, 0) != link {
                    return None;
                }
                let here = self.cfa_words(stack, -i64::from(place));
                let entry = self.cfa_words(stack, -expected);
                let words = format!("returns where the CFA is {here}, not {entry}");
                Some(self.at(index, Kind::Return, words))
            }
            _ => None,
        }
    }

    /// Finds rows that start inside an instruction.
    fn boundaries(&self) -> impl Iterator<Item = Finding> {
        let instructions = self.analysis.instructions();
        let inside = |row: &FullRow<'_>| instructions.index_of(row.row.start.0).is_none();
        let mut reached = Vec::new();
        if self.rows.iter().any(|row| inside(&row)) {
            self.analysis.for_each(|_, _, state| reached.push(state.is_some()));
        }
        self.rows.iter().filter(inside).filter_map(move |row| {
            let around = instructions.index_around(row.row.start.0).filter(|around| reached[*around])?;
            if instructions.at(around).is_unknown {
                return None;
            }
            let words = format!("a row starts inside this instruction, at +{}", row.row.start);
            Some(self.at(around, Kind::Boundary, words))
        })
    }
}
