//! Finds the places where the CFA becomes wrong: between an instruction and those that can execute next, and where no such
//! step explains it.

use cfipack_format::{Cfa, CfaWords, Register, RegisterName, Rule};

use super::compare::CfaState;
use super::{Finding, Judge, Judgement, Kind, is_wrong};
use crate::instruction::{Flow, Instruction, Op, index_of, register_of};
use crate::marks::Marks;
use crate::rows::FullRow;
use crate::state::State;
use crate::value::Value;

impl Judge<'_, '_> {
    /// Finds disagreements between an instruction and the instructions that can execute next.
    pub(super) fn edges(
        &self,
        index: usize,
        instruction: &Instruction,
        state: &State,
        found: &mut Vec<Finding>,
        explained: &mut Marks,
    ) {
        let [next, taken] = self.analysis.next_by(index, instruction.flow);
        for (to, is_taken) in [(next, false), (taken, true)] {
            let Some(to) = to else { continue };
            let enters_subroutine = || self.enters_subroutine((index, instruction.flow), to);
            if is_wrong(self.cfa(index)) || self.cfa(to) == CfaState::Unknown || enters_subroutine() {
                explained.mark(to);
            }
            // Most instructions do not change whether the CFA is right.
            if self.cfa(to) == self.cfa(index) && self.cfa(to) != CfaState::Unknown {
                continue;
            }
            let after = self.analysis.after(state, instruction, is_taken);
            let finding = self.edge((index, instruction), to, state, &after);
            if finding.is_some() {
                explained.mark(to);
            }
            found.extend(finding);
        }
    }

    /// Finds wrong CFAs that no edge explains: at the entry, where a jump table, a landing pad or another function leads,
    /// or after an instruction whose CFA is not known. A function with a wrong CFA always has a finding.
    pub(super) fn unexplained(&self, explained: &Marks, found: &mut Vec<Finding>, judgement: &mut Judgement) {
        let is_open = |index: usize| is_wrong(self.cfa(index)) && (index == 0 || !explained.contains(index));
        let is_explained = !(0..self.count).any(is_open);
        let has_subroutine = |(index, one): (usize, Instruction)| {
            let mut next = self.analysis.next_by(index, one.flow).into_iter().flatten();
            next.any(|to| is_wrong(self.cfa(to)) && self.enters_subroutine((index, one.flow), to))
        };
        let has_fault = !is_explained
            || found.iter().any(|finding| !finding.continues)
            || self.analysis.instructions().iter().enumerate().any(has_subroutine);
        let wrong = self.verdicts.iter().find(|verdict| is_wrong(verdict.compared.cfa));
        let first = wrong.map(|verdict| verdict.first as usize).filter(|_| !has_fault);
        let is_entry = |index: usize| {
            self.cfa(index) == CfaState::Unknown
                && !explained.contains(index)
                && self.analysis.is_start(index)
        };
        if is_explained && first.is_none() && !(0..self.count).any(is_entry) {
            return;
        }
        self.analysis.for_each(|index, _, state| {
            let (Some(state), Some(row)) = (state, self.row_at(index)) else { return };
            let is_lost = is_entry(index) && self.is_lost(index, state, row.row.cfa);
            if !is_lost && !is_open(index) && first != Some(index) {
                return;
            }
            if self.follows_call(index) {
                judgement.undecided += 1;
                judgement.first_undecided.get_or_insert(self.analysis.instructions().offset(index));
            } else if found.len() < Judgement::MAX_FINDINGS {
                found.push(self.entered(index, state, row));
            }
        });
    }

    /// Returns whether nothing is known about the register that the row's CFA is based on, although another register gives
    /// the CFA.
    pub(super) fn is_lost(&self, index: usize, state: &State, cfa: Cfa) -> bool {
        let Cfa::Register { register, .. } = cfa else { return false };
        let value = state.get(self.arch, register);
        matches!(value, Value::Unknown | Value::Perhaps(_) | Value::Site(..))
            && !(register == self.arch.stack_pointer() && value.can_be_other_stack())
            && self.analysis.cfa(state).is_some()
            && !self.becomes_stack_pointer(index, register)
    }

    /// Returns whether the row is right at a call just before, which counts as a call that does not return. Then either
    /// the call returns and the row is right, or the code is entered from elsewhere and the row is wrong. For example,
    /// the range of a landing pad has calls that cannot throw.
    pub(super) fn follows_call(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1) else { return false };
        let row = |index: usize| self.row_at(index).map(|row| row.row.start);
        self.analysis.is_noreturn(before) && self.cfa(before) == CfaState::Right && row(before) == row(index)
    }

    /// Describes a wrong CFA where the code is entered.
    fn entered(&self, index: usize, state: &State, row: FullRow<'_>) -> Finding {
        let (kind, comes) = if index != 0 {
            (Kind::Branch, "the code comes here with the CFA at")
        } else if state.has_frame(self.arch) {
            (Kind::Branch, "the jumps that lead here leave the CFA at")
        } else {
            (Kind::Entry, "a call leaves the CFA at")
        };
        let cfa = self.analysis.cfa(state);
        let has =
            cfa.map_or("another place".to_string(), |(register, offset)| self.cfa_words(register, offset));
        let words = format!("{comes} {has}, but the row has {}", CfaWords(self.arch, row.row.cfa));
        self.finding(index, index, kind, words)
    }

    /// Finds the disagreement between two instructions that execute one after the other.
    fn edge(
        &self,
        (from, instruction): (usize, &Instruction),
        to: usize,
        state: &State,
        after: &State,
    ) -> Option<Finding> {
        let off = match self.cfa(from) {
            CfaState::Right => 0,
            CfaState::Off(off) => off,
            CfaState::Unknown | CfaState::Wrong => return None,
        };
        let (before, full) = (self.row_at(from)?.row.cfa, self.row_at(to)?);
        let row = full.row;
        // Until another row starts, or until the row is right again, this is one fault: a row is missing.
        if self.is_same_fault(from, to) || self.enters_subroutine((from, instruction.flow), to) {
            return None;
        }
        if row.return_address == Rule::Undefined || full.moves_stack(self.arch) {
            return None;
        }
        let Cfa::Register { register, offset } = row.cfa else { return None };
        let is_same = before == row.cfa;
        let all = self.analysis.instructions();
        let is_call = matches!(instruction.flow, Flow::Call(_)) && all.returns_to(from) == Some(to);
        let changes = |register| all.changes(instruction, self.arch, register) && !instruction.is_unknown;
        // The instruction gives the register a value that is no address of the frame: it is neither loaded nor copied.
        let is_lost = |register| {
            let is_own = |index| register_of(index) == register;
            let is_sum = |op: &Op| matches!(op, Op::Sum { to, .. } if is_own(*to));
            let is_written =
                index_of(self.arch, register).is_some_and(|index| instruction.writes & 1 << index != 0);
            is_written
                || (after.get(self.arch, register) == Value::Unknown
                    && all.ops(instruction).iter().any(is_sum))
        };
        let has = match after.get(self.arch, register) {
            // We assume that the row before was right, so that a disagreement is only reported where it begins.
            Value::Cfa(place) => match i64::from(place).saturating_sub(off).saturating_add(offset) {
                0 => return None,
                _ => format!("the CFA is now {}", self.cfa_words(register, -i64::from(place))),
            },
            Value::Caller(own) if self.has_helper && own == self.arch.frame_pointer() => return None,
            Value::Caller(own) if own == register => {
                format!("{} has the caller's value now", RegisterName(self.arch, register))
            }
            Value::Caller(_) | Value::Signed | Value::Number(_) | Value::Near(_) | Value::Target(_)
                if register != self.arch.stack_pointer() =>
            {
                format!("{} has another value", RegisterName(self.arch, register))
            }
            // Functions in assembler sometimes rely on callees that keep more registers than the ABI asks for. We
            // cannot decide this.
            _ if is_call && (is_same || matches!(state.get(self.arch, register), Value::Cfa(_))) => {
                return None;
            }
            // The row can be true for another stack that the code switches to.
            value if register == self.arch.stack_pointer() && value.can_be_other_stack() => return None,
            _ if is_same && changes(register) => {
                format!("{} has another value now", RegisterName(self.arch, register))
            }
            Value::Unknown | Value::Perhaps(_) | Value::Site(..)
                if !is_same
                    && (!changes(register) || is_lost(register))
                    && self.knows_better(after, before)
                    && !self.becomes_stack_pointer(to, register) =>
            {
                format!("nothing known is in {}", RegisterName(self.arch, register))
            }
            _ => return None,
        };
        let words = CfaWords(self.arch, row.cfa);
        let (index, kind, words) = if to != from + 1 && !is_call {
            let target = all.offset(to);
            (from, Kind::Branch, format!("{has}, but the row at the target, +{target:#x}, has {words}"))
        } else if is_same {
            (from, Kind::NoRow, format!("no row follows: {has}, but the row still has {words}"))
        } else if matches!(before, Cfa::Register { register, .. } if !changes(register)) {
            let words = format!("the row changes, but the instruction before does not: {has}");
            (to, Kind::NoInstruction, words)
        } else {
            (to, Kind::Mismatch, format!("the instruction before differs from the row: {has}"))
        };
        Some(Finding { after_call: is_call.then_some(from), ..self.finding(index, to, kind, words) })
    }

    /// Returns whether a call leads into the function, to a row for the stack as a call leaves it. A subroutine of the
    /// function can have a frame of its own, which returns into the function.
    fn enters_subroutine(&self, (from, flow): (usize, Flow), to: usize) -> bool {
        let entry =
            Cfa::Register { register: self.arch.stack_pointer(), offset: self.arch.cfa_offset_at_entry() };
        matches!(flow, Flow::Call(_))
            && self.analysis.instructions().returns_to(from) != Some(to)
            && self.row_at(to).is_some_and(|row| row.row.cfa == entry)
    }

    /// Returns whether two instructions have the same wrong row.
    pub(super) fn is_same_fault(&self, from: usize, to: usize) -> bool {
        let row = |index: usize| self.row_at(index).map(|row| row.row.start);
        is_wrong(self.cfa(from)) && is_wrong(self.cfa(to)) && row(from) == row(to)
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
        all.ops(&all.at(index)).iter().any(
            |op| matches!(op, Op::Set { to, from, .. } if register_of(*to) == stack && register_of(*from) == register),
        )
    }
}
