//! Compares a function's rows with the function's code.
//!
//! - [`finding`]: disagreements as a caller sees them
//! - [`calls`]: the rows at calls alone
//! - [`compare`]: compares a row with a state
//! - [`expected`]: a fast path for rows that agree

mod calls;
mod compare;
mod expected;
mod finding;

use cfipack_format::{Arch, Cfa, CfaWords, Register, RegisterName, Rule};

use self::compare::{CfaState, Compared, OPEN, RETURN_ADDRESS, SIGNATURE};
use self::expected::Expected;
pub use self::finding::{Finding, Judgement, Kind};
use crate::analysis::Analysis;
use crate::instruction::{Flow, Instruction, Op, register_of};
use crate::rows::{FullRow, Rows};
use crate::state::State;
use crate::value::Value;
use crate::words::{PlaceWords, ValueWords, name};

/// Checks the rows of a function. Make a judge with [`Judge::new`], then call [`Judge::judge`].
pub struct Judge<'j, 'c> {
    arch: Arch,
    analysis: &'j Analysis<'c>,
    rows: &'j Rows,
    /// The number of bytes below the stack pointer that no signal handler overwrites.
    red_zone: u32,
    cfa: Vec<CfaState>,
    /// For each instruction the registers with wrong rules, as bits. Bit 63 stands for the return address, bit 62 for
    /// its signature, and bit 61 for a rule that cannot be evaluated.
    wrong: Vec<u64>,
    /// True if the CFA is right at every instruction that a path leads to.
    are_right: bool,
    /// Returns that leave the stack pointer in the wrong place.
    returns: Vec<Finding>,
    /// For each instruction with a wrong CFA: the last instruction of the run that follows it with the same wrong
    /// CFA or row. One finding covers the whole run.
    ends: Vec<u32>,
}

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
        let count = analysis.instructions().as_slice().len();
        let (cfa, wrong, returns) = (Vec::with_capacity(count), Vec::with_capacity(count), Vec::new());
        let mut judge =
            Self { arch, analysis, rows, red_zone, cfa, wrong, are_right: true, returns, ends: Vec::new() };
        let mut row_index = 0;
        // `lost` has registers without a rule that have lost the caller's value, and those of them that are stored in
        // the frame. `kept` has registers that every return and tail call restores.
        let (mut lost, mut kept, mut returns) = (Vec::new(), u64::MAX, false);
        let mut last: Option<(usize, Compared)> = None;
        let mut expected = rows.get(0).map(|row| Expected::new(arch, row, red_zone));
        let starts_at = |index| rows.get(index).map_or(u32::MAX, |row| row.row.start.0);
        let (first, mut next) = (starts_at(0), starts_at(1));
        analysis.for_each(|index, instruction, state| {
            let before = row_index;
            while next <= instruction.offset && row_index + 1 < rows.len() {
                row_index += 1;
                next = starts_at(row_index + 1);
            }
            if row_index != before {
                expected = rows.get(row_index).map(|row| Expected::new(arch, row, red_zone));
            }
            let row = expected.as_ref().filter(|_| row_index != 0 || first <= instruction.offset);
            let compared = match (state, row, last) {
                // Most instructions change nothing that a row describes.
                (Some(_), Some(row), Some((known, compared)))
                    if known == row_index && !row.depends_on(analysis.instructions(), index - 1) =>
                {
                    compared
                }
                (Some(state), Some(row), _) if row.is_met_by(state) => Compared::RIGHT,
                (Some(state), Some(row), _) => judge.compare(state, row.row),
                _ => Compared { cfa: CfaState::Unknown, wrong: 0, lost: 0 },
            };
            let goes_on = state.is_some() && row.is_some() && !analysis.is_start(index + 1);
            last = goes_on.then_some((row_index, compared));
            judge.are_right &= state.is_none() || compared.cfa == CfaState::Right;
            judge.cfa.push(compared.cfa);
            judge.wrong.push(compared.wrong);
            if compared.lost != 0 {
                lost.push((index, compared.lost, state.map_or(0, |state| state.stored(arch))));
            }
            if let Some(state) = state.filter(|state| judge.leaves(index, instruction, state)) {
                kept &= !judge.changed(state);
            }
            if let (Flow::Return, Some(state)) = (instruction.flow, state) {
                returns = true;
                if judge.returns.len() < Judgement::MAX_FINDINGS {
                    judge.returns.extend(judge.at_return(index, state));
                }
            }
        });
        if judge.cfa.iter().any(|cfa| is_wrong(*cfa)) {
            judge.ends = judge.ends();
        }
        // A function that never restores a register follows its own convention, and so does a function that never
        // returns and does not save the register. So this is not a fault.
        for (index, lost, stored) in lost {
            judge.wrong[index] |= lost & kept & if returns { u64::MAX } else { stored };
        }
        judge
    }

    /// Finds the end of each run of instructions with the same fault.
    fn ends(&self) -> Vec<u32> {
        let mut ends: Vec<u32> = (0..self.cfa.len() as u32).collect();
        for index in (1..self.cfa.len()).rev() {
            if self.is_same_fault(index - 1, index)
                || (matches!(self.cfa[index], CfaState::Off(_)) && self.cfa[index - 1] == self.cfa[index])
            {
                ends[index - 1] = ends[index];
            }
        }
        ends
    }

    /// Returns whether an instruction returns, or jumps to another function with the stack as a call leaves it.
    fn leaves(&self, index: usize, instruction: &Instruction, state: &State) -> bool {
        if matches!(instruction.flow, Flow::Next | Flow::Call(_) | Flow::Return) {
            return instruction.flow == Flow::Return;
        }
        let exits = self.analysis.exits();
        let exit = exits.get(exits.partition_point(|exit| exit.index < index));
        let entry = Value::Cfa(-(self.arch.cfa_offset_at_entry() as i32));
        exit.is_some_and(|exit| exit.index == index && !exit.is_from_table)
            && state.get(self.arch, self.arch.stack_pointer()) == entry
    }

    fn row_at(&self, index: usize) -> Option<FullRow<'j>> {
        let offset = self.analysis.instructions().as_slice().get(index)?.offset;
        self.rows.get(self.rows.index_at(offset)?)
    }

    /// Returns every disagreement between the rows and the code, and where it ends.
    pub fn judge(&self) -> Judgement {
        let mut judgement = Judgement::default();
        let mut pending: Vec<Finding> = self.returns.clone();
        if self.is_clean() {
            self.count(&mut judgement);
        } else {
            // The last instruction before this one that is not padding.
            let mut before = None;
            // For each instruction, whether a finding or the instruction before it explains a wrong CFA.
            let mut explained = vec![false; self.cfa.len()];
            self.analysis.for_each(|index, instruction, state| {
                match (self.cfa[index], state) {
                    (CfaState::Right, _) if self.wrong[index] & OPEN == 0 => judgement.right += 1,
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
                        self.registers(index, before, state, &mut pending);
                    }
                    None => {}
                }
                if !instruction.is_padding {
                    before = Some(index);
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

    /// Returns whether no instruction has a wrong row, so that a slow search for findings is not needed.
    ///
    /// An instruction with an unknown CFA counts as wrong if it can execute after an instruction with a right CFA. For
    /// example, the analysis may have taken a call for a call that does not return.
    fn is_clean(&self) -> bool {
        let all = self.analysis.instructions().as_slice();
        if !self.are_right || self.wrong.iter().any(|wrong| *wrong != 0) {
            return false;
        }
        if self.cfa.iter().all(|cfa| *cfa == CfaState::Right) {
            return true;
        }
        (0..self.cfa.len()).filter(|index| self.cfa[*index] == CfaState::Right).all(|index| {
            if all[index].flow == Flow::Next {
                return self.cfa.get(index + 1).is_none_or(|next| *next == CfaState::Right);
            }
            let next = self.analysis.next(index).into_iter().flatten();
            next.into_iter().all(|next| self.cfa[next] == CfaState::Right)
        })
    }

    /// Counts the instructions of a function without findings.
    fn count(&self, judgement: &mut Judgement) {
        for (instruction, cfa) in self.analysis.instructions().as_slice().iter().zip(&self.cfa) {
            if *cfa == CfaState::Right {
                judgement.right += 1;
            } else if !instruction.is_padding {
                judgement.undecided += 1;
                judgement.first_undecided.get_or_insert(instruction.offset);
            }
        }
    }

    /// Returns the offsets of the run of instructions from `first` on for which `is_wrong` returns true.
    fn extent(&self, first: usize, is_wrong: impl Fn(usize) -> bool) -> (u32, u32) {
        let all = self.analysis.instructions().as_slice();
        let mut last = first;
        while last + 1 < all.len() && is_wrong(last + 1) {
            last += 1;
        }
        (all[first].offset, all[last].end())
    }

    fn finding(&self, index: usize, to: usize, kind: Kind, words: String) -> Finding {
        let is_end = self.cfa[to] == CfaState::Right;
        let all = self.analysis.instructions().as_slice();
        let wrong = if is_end {
            (all[to].offset, all[to].offset)
        } else {
            let last = self.ends.get(to).map_or(to, |end| *end as usize);
            (all[to].offset, all[last].end())
        };
        Finding { index, wrong, kind, words, continues: is_end, after_call: None }
    }

    /// Finds disagreements between an instruction and the instructions that can execute next.
    fn edges(
        &self,
        index: usize,
        instruction: &Instruction,
        state: &State,
        found: &mut Vec<Finding>,
        explained: &mut [bool],
    ) {
        let [next, taken] = self.analysis.next(index);
        for (to, is_taken) in [(next, false), (taken, true)] {
            let Some(to) = to else { continue };
            explained[to] |= is_wrong(self.cfa[index]) || self.enters_subroutine(index, to);
            // Most instructions do not change whether the CFA is right.
            if self.cfa[to] == self.cfa[index] && self.cfa[to] != CfaState::Unknown {
                continue;
            }
            let after = self.analysis.after(state, instruction, is_taken);
            let finding = self.edge(index, to, &after);
            explained[to] |= finding.is_some();
            found.extend(finding);
        }
    }

    /// Finds wrong CFAs that no edge explains: at the entry, where a jump table, a landing pad or another function leads,
    /// or after an instruction whose CFA is not known. A function with a wrong CFA always has a finding.
    fn unexplained(&self, explained: &[bool], found: &mut Vec<Finding>, judgement: &mut Judgement) {
        let is_open = |index: usize| is_wrong(self.cfa[index]) && (index == 0 || !explained[index]);
        let is_explained = !(0..self.cfa.len()).any(is_open);
        let has_subroutine = |index: usize| {
            let mut next = self.analysis.next(index).into_iter().flatten();
            next.any(|to| is_wrong(self.cfa[to]) && self.enters_subroutine(index, to))
        };
        let has_fault = !is_explained
            || found.iter().any(|finding| !finding.continues)
            || (0..self.cfa.len()).any(has_subroutine);
        let first = self.cfa.iter().position(|cfa| is_wrong(*cfa)).filter(|_| !has_fault);
        if is_explained && first.is_none() {
            return;
        }
        self.analysis.for_each(|index, _, state| {
            let (true, Some(state), Some(row)) =
                (is_open(index) || first == Some(index), state, self.row_at(index))
            else {
                return;
            };
            if self.follows_call(index) {
                judgement.undecided += 1;
                judgement
                    .first_undecided
                    .get_or_insert(self.analysis.instructions().as_slice()[index].offset);
            } else if found.len() < Judgement::MAX_FINDINGS {
                found.push(self.entered(index, state, row));
            }
        });
    }

    /// Returns whether the row is right at a call just before, which counts as a call that does not return. Then either
    /// the call returns and the row is right, or the code is entered from elsewhere and the row is wrong. For example,
    /// the range of a landing pad has calls that cannot throw.
    fn follows_call(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1) else { return false };
        let row = |index: usize| self.row_at(index).map(|row| row.row.start);
        self.analysis.is_noreturn(before) && self.cfa[before] == CfaState::Right && row(before) == row(index)
    }

    /// Describes a wrong CFA where the code is entered.
    fn entered(&self, index: usize, state: &State, row: FullRow<'_>) -> Finding {
        let stack = state.get(self.arch, self.arch.stack_pointer());
        let (kind, comes) = if index != 0 {
            (Kind::Branch, "the code comes here with the CFA at")
        } else if stack == Value::Cfa(-(self.arch.cfa_offset_at_entry() as i32)) {
            (Kind::Entry, "a call leaves the CFA at")
        } else {
            (Kind::Branch, "the jumps that lead here leave the CFA at")
        };
        let cfa = self.analysis.cfa(state);
        let has =
            cfa.map_or("another place".to_string(), |(register, offset)| self.cfa_words(register, offset));
        let words = format!("{comes} {has}, but the row has {}", CfaWords(self.arch, row.row.cfa));
        self.finding(index, index, kind, words)
    }

    /// Finds the disagreement between two instructions that execute one after the other.
    fn edge(&self, from: usize, to: usize, after: &State) -> Option<Finding> {
        let off = match self.cfa[from] {
            CfaState::Right => 0,
            CfaState::Off(off) => off,
            CfaState::Unknown | CfaState::Wrong => return None,
        };
        let (before, full) = (self.row_at(from)?.row.cfa, self.row_at(to)?);
        let row = full.row;
        // Until another row starts, or until the row is right again, this is one fault: a row is missing.
        if self.is_same_fault(from, to) || self.enters_subroutine(from, to) {
            return None;
        }
        if row.return_address == Rule::Undefined || full.moves_stack(self.arch) {
            return None;
        }
        let Cfa::Register { register, offset } = row.cfa else { return None };
        let is_same = before == row.cfa;
        let is_call = self.analysis.returns_to(from) == Some(to);
        let instruction = &self.analysis.instructions().as_slice()[from];
        let changes = |register| {
            self.analysis.instructions().changes(instruction, self.arch, register) && !instruction.is_unknown
        };
        let has = match after.get(self.arch, register) {
            // We assume that the row before was right, so that a disagreement is only reported where it begins.
            Value::Cfa(place) => match i64::from(place).saturating_sub(off).saturating_add(offset) {
                0 => return None,
                _ => format!("the CFA is now {}", self.cfa_words(register, -i64::from(place))),
            },
            Value::Caller(own) if own == register => {
                format!("{} has the caller's value now", RegisterName(self.arch, register))
            }
            Value::Caller(_) | Value::Signed | Value::Number(_) | Value::Near(_)
                if register != self.arch.stack_pointer() =>
            {
                format!("{} has another value", RegisterName(self.arch, register))
            }
            // Functions in assembler sometimes rely on callees that keep more registers than the ABI asks for. We
            // cannot decide this.
            _ if is_call => return None,
            // The row can be true for another stack that the code switches to.
            value if register == self.arch.stack_pointer() && value.can_be_other_stack() => return None,
            _ if is_same && changes(register) => {
                format!("{} has another value now", RegisterName(self.arch, register))
            }
            Value::Unknown | Value::Site(..)
                if !is_same
                    && !changes(register)
                    && self.knows_better(after, before)
                    && !self.becomes_stack_pointer(to, register) =>
            {
                format!("nothing known is in {}", RegisterName(self.arch, register))
            }
            _ => return None,
        };
        let words = CfaWords(self.arch, row.cfa);
        let (index, kind, words) = if to != from + 1 && !is_call {
            let target = self.analysis.instructions().as_slice()[to].offset;
            (from, Kind::Branch, format!("{has}, but the row at the target, +{target:#x}, has {words}"))
        } else if is_same {
            (from, Kind::NoRow, format!("no row follows: {has}, but the row still has {words}"))
        } else if matches!(before, Cfa::Register { register, .. } if !changes(register)) {
            let words = format!("the row changes, but the instruction before does not: {has}");
            (to, Kind::NoInstruction, words)
        } else {
            (to, Kind::Mismatch, format!("the instruction before differs from the row: {has}"))
        };
        Some(Finding {
            after_call: (is_call && !is_same).then_some(from),
            ..self.finding(index, to, kind, words)
        })
    }

    /// Returns whether a call leads into the function, to a row for the stack as a call leaves it. A subroutine of the
    /// function can have a frame of its own, which returns into the function.
    fn enters_subroutine(&self, from: usize, to: usize) -> bool {
        let flow = self.analysis.instructions().as_slice()[from].flow;
        let entry =
            Cfa::Register { register: self.arch.stack_pointer(), offset: self.arch.cfa_offset_at_entry() };
        matches!(flow, Flow::Call(_))
            && self.analysis.returns_to(from) != Some(to)
            && self.row_at(to).is_some_and(|row| row.row.cfa == entry)
    }

    /// Returns whether two instructions have the same wrong row.
    fn is_same_fault(&self, from: usize, to: usize) -> bool {
        let row = |index: usize| self.row_at(index).map(|row| row.row.start);
        is_wrong(self.cfa[from]) && is_wrong(self.cfa[to]) && row(from) == row(to)
    }

    /// Returns whether the CFA is known without a register whose distance to it is not known: it follows from the stack
    /// pointer, or the row before is still right. Then no code needs a row with this register.
    fn knows_better(&self, state: &State, before: Cfa) -> bool {
        matches!(state.get(self.arch, self.arch.stack_pointer()), Value::Cfa(_))
            || self.compare_cfa(state, before) == CfaState::Right
    }

    /// Returns whether an instruction copies a register to the stack pointer, as before a jump into another frame
    /// (`__builtin_eh_return`).
    fn becomes_stack_pointer(&self, index: usize, register: Register) -> bool {
        let all = self.analysis.instructions();
        let stack = self.arch.stack_pointer();
        all.ops(&all.as_slice()[index]).iter().any(
            |op| matches!(op, Op::Set { to, from, .. } if register_of(*to) == stack && register_of(*from) == register),
        )
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
                let wrong = self.extent(index, |_| false);
                Some(Finding { index, wrong, kind: Kind::Return, words, continues: false, after_call: None })
            }
            _ => None,
        }
    }

    /// Finds registers with rules that are right before an instruction and wrong at it.
    fn registers(&self, index: usize, call: Option<usize>, state: &State, found: &mut Vec<Finding>) {
        let before = index.checked_sub(1).map_or(0, |before| self.wrong[before]);
        let mut new = self.wrong[index] & !before & !OPEN;
        let Some(row) = self.row_at(index).filter(|_| new != 0) else { return };
        let after_call = call.filter(|call| self.is_after_call(*call, index));
        while new != 0 {
            let bit = new.trailing_zeros();
            new &= new - 1;
            let (kind, words) = self.wrong_register(bit, state, row);
            let wrong = self.extent(index, |other| self.wrong[other] & (1 << bit) != 0);
            found.push(Finding { index, wrong, kind, words, continues: false, after_call });
        }
    }

    /// Returns whether the last instruction before `index`, not counting padding, is a call, and a row starts in
    /// between.
    fn is_after_call(&self, before: usize, index: usize) -> bool {
        let all = self.analysis.instructions().as_slice();
        let row = |index: usize| self.rows.index_at(all[index].offset);
        matches!(all[before].flow, Flow::Call(_)) && row(before) != row(index)
    }

    fn wrong_register(&self, bit: u32, state: &State, row: FullRow<'_>) -> (Kind, String) {
        let arch = self.arch;
        let link = arch.return_address();
        if 1 << bit == SIGNATURE {
            let words = if row.row.signed {
                "the row has a signed return address, but the code has not signed it"
            } else {
                "the return address is signed, but the row has it unsigned"
            };
            return (Kind::Signature, words.to_string());
        }
        let is_link = 1 << bit == RETURN_ADDRESS;
        let register = if is_link { link } else { register_of(bit as u8) };
        let rule = row.rule(arch, register);
        let own = if is_link { "the return address".to_string() } else { name(arch, register) };
        let is = self.whereabouts(state, register);
        let value = self.value_by(state, register, rule).unwrap_or(Value::Unknown);
        let is_below = matches!(rule, Rule::Cfa(offset) if self.stored(state, offset) != state.slot(offset));
        let there = match (rule, value) {
            _ if is_below => "where the next signal overwrites it".to_string(),
            (Rule::Cfa(_) | Rule::Memory { .. }, Value::Unknown) => {
                "nothing known is stored there".to_string()
            }
            (Rule::SameValue, Value::Unknown) => "which has another value".to_string(),
            (_, value) => format!("where the code has {}", ValueWords(arch, value)),
        };
        let kind = match (is_link, rule) {
            (true, _) => Kind::ReturnAddress,
            (false, Rule::SameValue) => Kind::LostRegister,
            (false, _) => Kind::SavedRegister,
        };
        (kind, format!("the row has {own} {}, {there}{is}", PlaceWords(arch, register, rule)))
    }

    /// Returns where the caller's value of a register is, as the end of a sentence.
    fn whereabouts(&self, state: &State, register: Register) -> String {
        let arch = self.arch;
        let is_own = |value: Value| {
            value == Value::Caller(register) || (value == Value::Signed && register == arch.return_address())
        };
        if is_own(state.get(arch, register)) {
            return format!("; it is in {}", name(arch, register));
        }
        let slot = state.slots().find(|slot| is_own(slot.1));
        slot.map_or_else(String::new, |(offset, _)| format!("; it is at CFA{offset:+}"))
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
            let instruction = instructions.as_slice()[around];
            if instruction.is_unknown {
                return None;
            }
            let words = format!("a row starts inside this instruction, at +{}", row.row.start);
            let wrong = (instruction.offset, instruction.end());
            Some(Finding {
                index: around,
                wrong,
                kind: Kind::Boundary,
                words,
                continues: false,
                after_call: None,
            })
        })
    }
}
