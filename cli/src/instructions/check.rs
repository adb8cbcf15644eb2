//! Compares a function's CFI with what its instructions do: wherever execution goes from one instruction to another,
//! the CFA must stay the same.

use std::collections::BTreeMap;

use cfipack_format::{Address, Arch, Cfa, Family, Register, Rule};
use cfipack_roundtrip::words::Name;
use serde::Serialize;

use super::disassembly::Instruction;
use super::effect::{Flow, State, Value};
use super::rows::{self, CfaWords, CfiRow};

/// A disagreement, at an instruction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Mark {
    pub kind: Kind,
    /// One sentence.
    pub words: String,
}

/// A kind of disagreement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The instruction changes the register that the CFA is based on, and no row follows.
    NoRow,
    /// A row changes the CFA, and the instruction before does not.
    NoInstruction,
    /// A row and the instruction before it change the CFA differently.
    Mismatch,
    /// The row at a branch's target has another CFA.
    Branch,
    /// The stack pointer is not where the call left it.
    Return,
    /// A row starts inside the instruction.
    Boundary,
    /// The row of the file's table differs.
    Table,
}

/// A function's instructions with the rows of its CFI.
pub struct Checker<'l> {
    pub arch: Arch,
    pub start: Address,
    pub instructions: &'l [Instruction],
    pub rows: &'l [CfiRow],
    /// The index of the row of each instruction.
    in_force: Vec<Option<usize>>,
    /// The states before each instruction; none where execution is not seen to come.
    states: Vec<Option<State>>,
}

impl<'l> Checker<'l> {
    /// Follows execution through the function.
    pub fn new(arch: Arch, start: Address, instructions: &'l [Instruction], rows: &'l [CfiRow]) -> Self {
        let in_force = instructions.iter().map(|one| rows::index_at(rows, one.offset)).collect();
        let states = vec![None; instructions.len()];
        let mut checker = Self { arch, start, instructions, rows, in_force, states };
        match arch.family() {
            Family::X86 | Family::Aarch64 => checker.follow(),
            // Nothing is known about instructions.
            Family::S390x => {}
        }
        checker
    }

    /// The row in force before an instruction.
    pub fn row(&self, index: usize) -> Option<&'l CfiRow> {
        self.rows.get((*self.in_force.get(index)?)?)
    }

    fn cfa(&self, index: usize) -> Option<Cfa> {
        self.row(index).map(|row| row.row.cfa)
    }

    /// The state before an instruction, and what the CFI has about it.
    pub fn state(&self, index: usize) -> State {
        let mut state = self.states.get(index).copied().flatten().unwrap_or(State::UNKNOWN);
        if let Some(Cfa::Register { register, offset }) = self.cfa(index) {
            let value = offset.checked_neg().and_then(|offset| i32::try_from(offset).ok());
            state.set(register, value.map_or(Value::Unknown, Value::Cfa));
        }
        state
    }

    /// The state after an instruction.
    fn after(&self, index: usize) -> State {
        let mut state = self.state(index);
        let row = self.row(index);
        let rule = |register| row.map_or(Rule::SameValue, |row| row.rule(self.arch, register));
        state.apply(&self.instructions[index].effect, rule);
        state
    }

    fn follow(&mut self) {
        let mut waiting = Vec::new();
        for first in 0..self.instructions.len() {
            // What is not reached from before is a target of an indirect branch, a landing pad, or padding.
            let is_padding = first != 0 && self.instructions[first].is_padding;
            if self.states[first].is_some() || is_padding {
                continue;
            }
            self.states[first] = Some(State::UNKNOWN);
            waiting.push(first);
            while let Some(index) = waiting.pop() {
                let after = self.after(index);
                for next in self.successors(index).into_iter().flatten() {
                    let changed = match &mut self.states[next] {
                        Some(state) => state.meet(&after),
                        none => {
                            *none = Some(after);
                            true
                        }
                    };
                    if changed {
                        waiting.push(next);
                    }
                }
            }
        }
    }

    /// The next instruction in memory, if execution can continue there, and the target of a branch in the function.
    fn successors(&self, index: usize) -> [Option<usize>; 2] {
        let next = (index + 1 < self.instructions.len()).then_some(index + 1);
        match self.instructions[index].flow {
            Flow::Next => [next, None],
            Flow::Call => [next.filter(|_| self.returns(index)), None],
            Flow::Branch(target) => [next, self.index_of(target)],
            Flow::Jump(target) => [None, self.index_of(target)],
            Flow::Return | Flow::Stop => [None, None],
        }
    }

    /// Returns whether a call returns as far as rows show: after one that does not, another block starts with another row,
    /// perhaps after padding.
    fn returns(&self, call: usize) -> bool {
        let rest = self.instructions.iter().enumerate().skip(call + 1);
        let next = rest.map(|(index, one)| (index, one.is_padding)).find(|(_, is_padding)| !is_padding);
        next.is_some_and(|(next, _)| self.cfa(next) == self.cfa(call))
    }

    /// The instruction at an address.
    pub fn index_of(&self, target: Option<Address>) -> Option<usize> {
        let offset = u32::try_from(target?.0.checked_sub(self.start.0)?).ok()?;
        self.instructions.binary_search_by_key(&offset, |one| one.offset).ok()
    }

    /// The instruction that an address is in.
    pub fn index_around(&self, pc: Address) -> Option<usize> {
        let offset = u32::try_from(pc.0.checked_sub(self.start.0)?).ok()?;
        let index = self.instructions.partition_point(|one| one.offset <= offset).checked_sub(1)?;
        let instruction = &self.instructions[index];
        (offset - instruction.offset < u32::from(instruction.len)).then_some(index)
    }

    /// Every disagreement, by the instruction.
    pub fn marks(&self) -> BTreeMap<usize, Vec<Mark>> {
        let mut marks = BTreeMap::<_, Vec<Mark>>::new();
        let mut add = |index, kind, words| marks.entry(index).or_default().push(Mark { kind, words });
        for (index, instruction) in self.instructions.iter().enumerate() {
            if self.states[index].is_none() {
                continue;
            }
            let after = self.after(index);
            for next in self.successors(index).into_iter().flatten() {
                if let Some((at, kind, words)) = self.edge(index, next, &after) {
                    add(at, kind, words);
                }
            }
            if instruction.flow == Flow::Return
                && let Some(words) = self.at_return(index)
            {
                add(index, Kind::Return, words);
            }
        }
        for row in self.rows {
            let pc = self.start.offset(row.row.start.0.into());
            if let Some(around) = self.index_around(pc).filter(|_| self.index_of(Some(pc)).is_none()) {
                let words = format!("a row starts inside this instruction, at +{}", row.row.start);
                // Without a disassembler there are no instructions to compare with.
                if !self.instructions[around].text.is_empty() {
                    add(around, Kind::Boundary, words);
                }
            }
        }
        marks
    }

    /// The disagreement between two instructions that execute one after the other.
    fn edge(&self, from: usize, to: usize, after: &State) -> Option<(usize, Kind, String)> {
        let (before, cfa) = (self.cfa(from)?, self.cfa(to)?);
        // No unwinder needs the CFA of an outermost frame.
        if self.row(to)?.row.return_address == Rule::Undefined {
            return None;
        }
        let Cfa::Register { register, offset } = cfa else { return None };
        let is_same = before == cfa;
        let effect = &self.instructions[from].effect;
        let has = match after.get(register) {
            Value::Cfa(place) if i64::from(place).checked_add(offset) == Some(0) => return None,
            Value::Cfa(place) => format!("the CFA is now {}", self.cfa_words(register, -i64::from(place))),
            Value::Caller => format!("{} has the caller's value now", Name(self.arch, register)),
            Value::Unknown
                if is_same && effect.changes(register) && self.instructions[from].flow == Flow::Call =>
            {
                format!("the called function may change {}", Name(self.arch, register))
            }
            Value::Unknown if is_same && effect.changes(register) => {
                format!("{} has another value now", Name(self.arch, register))
            }
            Value::Unknown => return None,
        };
        let row = CfaWords(self.arch, cfa);
        let is_branch = to != from + 1;
        Some(if is_branch {
            let target = self.instructions[to].offset;
            (from, Kind::Branch, format!("{has}, but the row at the target, +{target:#x}, has {row}"))
        } else if is_same {
            (from, Kind::NoRow, format!("no row follows: {has}, but the row still has {row}"))
        } else if matches!(before, Cfa::Register { register, .. } if !effect.changes(register)) {
            (to, Kind::NoInstruction, format!("the row changes, but the instruction before does not: {has}"))
        } else {
            (to, Kind::Mismatch, format!("the instruction before differs from the row: {has}"))
        })
    }

    fn cfa_words(&self, register: Register, offset: i64) -> String {
        CfaWords(self.arch, Cfa::Register { register, offset }).to_string()
    }

    /// The fault of a return: the stack pointer must be where it was at the function's entry.
    fn at_return(&self, index: usize) -> Option<String> {
        let stack = self.arch.stack_pointer();
        let expected = -self.arch.pushed_by_call();
        match self.state(index).get(stack) {
            Value::Cfa(place) if i64::from(place) != expected => {
                let here = self.cfa_words(stack, -i64::from(place));
                let entry = self.cfa_words(stack, -expected);
                Some(format!("returns where the CFA is {here}, not {entry}"))
            }
            _ => None,
        }
    }
}
