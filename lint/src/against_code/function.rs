//! Compares one function's CFI with its code.

use cfipack_code::{
    Analysis, CallSite, Code, Disassembler, Doubt, Entry, FullRow, Instructions, Judge, Judgement,
    Memory as _, Rows, State, Value, Ways, landing_pads,
};
use cfipack_format::{Address, Arch, Cfa, CfaWords, FunctionOffset, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Function, Functions};

use super::Found;
use super::returns::{Imports, Returns};
use crate::FileMemory;

/// A function with more bytes of code than this is not followed.
const MAX_CODE: u64 = 1 << 24;

/// At most this many jumps that leave a function with its frame are followed.
const MAX_EXITS: usize = 1 << 12;

/// How often a function is followed again, each time with more calls that are assumed not to return.
const ROUNDS: usize = 4;

/// The size of a stub that an expression describes, in bytes.
const STUB: u64 = 16;

/// The reason why a function without code is not decided.
pub const NO_CODE: &str = "no-code";

/// Compares functions with their code. Use the same linter for many functions, because it reuses its memory.
pub struct Linter<'l, 'f> {
    memory: &'l FileMemory<'f>,
    arch: Arch,
    evaluator: Evaluator<'l>,
    instructions: Instructions,
    rows: Rows,
    entry: State,
    returns: Returns<'l, 'f>,
    red_zone: u32,
}

/// The result for a function.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Disagreements.
    pub findings: Vec<Found>,
    /// The reason why not every instruction was compared.
    pub doubt: Option<&'static str>,
    /// Jumps to other functions with the frame in place.
    pub exits: Vec<Leaving>,
    /// True if a way into this function from another function can decide more instructions.
    pub waits: bool,
    /// The number of instructions with the right row.
    pub right: u64,
}

impl Outcome {
    fn undecided(doubt: &'static str) -> Self {
        Self { doubt: Some(doubt), ..Self::default() }
    }
}

/// A jump to another function with the frame in place.
#[derive(Debug)]
pub struct Leaving {
    /// The target.
    pub target: Address,
    /// The state after the jump.
    pub state: State,
    /// True if the target comes from a jump table. If we read past the end of a jump table, we get targets of another
    /// function's table.
    pub is_from_table: bool,
}

/// A way into a function from another function.
#[derive(Clone, Debug)]
pub struct Way {
    /// The place of the entry, in bytes from the function's start.
    pub offset: u32,
    /// The state at the entry.
    pub state: State,
    /// True if the target comes from a jump table, as in [`Leaving`].
    pub is_from_table: bool,
}

/// The result of evaluating a function's CFI with gimli, besides its rows.
#[derive(Default)]
struct Evaluated {
    /// True if the CFI could not be evaluated to its end.
    is_partial: bool,
    /// The start and the end of the function's stubs, if it has stubs.
    stubs: Option<(u32, u32)>,
}

impl<'l, 'f> Linter<'l, 'f> {
    /// Creates a linter. `imports` has the functions that stubs jump to.
    pub fn new(
        memory: &'l FileMemory<'f>,
        functions: &'l Functions<'f>,
        arch: Arch,
        imports: &'l Imports,
    ) -> Self {
        Self {
            memory,
            arch,
            evaluator: Evaluator::new(functions),
            instructions: Instructions::default(),
            rows: Rows::new(),
            entry: State::at_entry(arch),
            returns: Returns::new(memory, functions, arch, imports),
            red_zone: memory.red_zone(),
        }
    }

    /// Compares a function's CFI with its code. `entries` are the ways into the function from other functions.
    pub fn compare(
        &mut self,
        function: &Function,
        entries: &[Way],
        is_function: &dyn Fn(Address) -> bool,
    ) -> Outcome {
        if function.end.0 - function.start.0 > MAX_CODE {
            return Outcome { doubt: Some(Doubt::TooLarge.name()), ..Outcome::default() };
        }
        let evaluated = self.evaluate(function);
        self.follow(function, entries, is_function, &evaluated)
    }

    /// Compares the rows in `self.rows` with the function's code.
    fn follow(
        &mut self,
        function: &Function,
        entries: &[Way],
        is_function: &dyn Fn(Address) -> bool,
        evaluated: &Evaluated,
    ) -> Outcome {
        let size = function.end.0 - function.start.0;
        let Some((bytes, relocated)) = self.memory.code(function.start, size) else {
            return Outcome::undecided(NO_CODE);
        };
        if self.rows.is_empty() {
            return Outcome::undecided("cfi");
        }
        // An unwinder ends at an outermost frame, and never uses the CFA.
        if self.rows.iter().all(|row| row.row.return_address == Rule::Undefined) {
            return Outcome::default();
        }
        let code = Code { arch: self.arch, start: function.start, bytes, relocated: &relocated };
        self.instructions.decode(&code);
        let (entry, mut own) = (self.entry.clone(), Vec::new());
        let starts = self.starts(evaluated.stubs, &entry, &mut own);
        // Targets of another function's jump table are followed only into fragments, which have no other entry.
        let ways = entries.iter().filter(|way| !starts || !way.is_from_table);
        own.extend(ways.map(|way| Entry { offset: way.offset, state: &way.state }));
        let is_fragment = !starts && evaluated.stubs.is_none();
        let is_entered = starts || (is_fragment && own.is_empty() && is_function(function.start));
        if !is_entered && own.is_empty() {
            return Outcome { waits: true, ..Outcome::undecided("fragment") };
        }
        let call_sites = self.call_sites(function, size as u32);
        let (mut noreturn, mut is_asked) = (Vec::new(), false);
        let start = is_entered.then_some(&entry);
        for round in 0..=ROUNDS {
            let ways = Ways { start, entries: &own, call_sites: &call_sites, noreturn: &noreturn };
            let analysis = Analysis::new(code, &self.instructions, self.memory, ways);
            let judgement = Judge::new(&analysis, &self.rows, self.red_zone).judge();
            // After a call that does not return, the state can be wrong everywhere. So can a guess at the calls that do
            // not return.
            let mut calls = Vec::new();
            if !judgement.findings.is_empty() && !is_asked {
                is_asked = true;
                calls = self.returns.ending_calls(&analysis);
            }
            if calls.is_empty() {
                calls = judgement.unconfirmed_calls(&analysis).collect();
            }
            if calls.is_empty() || round == ROUNDS {
                return self.outcome(&analysis, judgement, evaluated);
            }
            noreturn.extend(calls);
            noreturn.sort_unstable();
        }
        Outcome::undecided(Doubt::TooLarge.name())
    }

    /// Evaluates the CFI into `rows`.
    fn evaluate(&mut self, function: &Function) -> Evaluated {
        let mut evaluated = Evaluated::default();
        let rows = &mut self.rows;
        rows.clear();
        let first = function.start.0;
        let result = self.evaluator.evaluate_registers(function, |range, answer, saved| {
            let offset = |pc: u64| FunctionOffset((pc - first) as u32);
            match *answer {
                Answer::Row(row) => rows.push(Row { start: offset(range.start), ..row }, saved),
                Answer::Plt { from, .. } => {
                    evaluated.stubs = Some((offset(range.start).0, offset(range.end).0));
                    let mut pc = range.start;
                    while pc < range.end {
                        let Answer::Row(at) = answer.at(pc) else { break };
                        rows.push(Row { start: offset(pc), ..at }, saved);
                        pc = if pc % STUB < from { pc - pc % STUB + from } else { pc - pc % STUB + STUB };
                    }
                }
                Answer::StackPointer { row, rule } => {
                    let mut saved = saved.to_vec();
                    let own = self.arch.stack_pointer();
                    saved.insert(saved.partition_point(|(register, _)| *register < own), (own, rule));
                    rows.push(Row { start: offset(range.start), ..row }, &saved);
                }
                Answer::Nothing | Answer::SignState(_) => {
                    let nothing = Row::at_entry(self.arch);
                    rows.push(Row { start: offset(range.start), cfa: Cfa::Expression, ..nothing }, saved);
                }
            }
        });
        evaluated.is_partial = result.is_err();
        evaluated
    }

    /// Returns whether the function's first row has the CFA that a call leaves. For stubs, adds the start of each stub
    /// to `entries` and returns false.
    fn starts<'e>(&self, stubs: Option<(u32, u32)>, entry: &'e State, entries: &mut Vec<Entry<'e>>) -> bool {
        if let Some((first, end)) = stubs {
            let starts = (first..end).step_by(STUB as usize);
            entries.extend(starts.map(|offset| Entry { offset, state: entry }));
            return false;
        }
        let Some(row) = self.rows.get(0) else { return false };
        let stack = self.arch.stack_pointer();
        let entry = Cfa::Register { register: stack, offset: self.arch.cfa_offset_at_entry() };
        // If a fragment begins with a landing pad, GCC puts a nop before it. The nop is never executed.
        let is_led_by_nop = match (self.instructions.as_slice(), self.rows.get(1)) {
            ([first, second, ..], Some(next)) => {
                first.is_padding && next.row.start.0 == second.offset && next.row.cfa != entry
            }
            _ => false,
        };
        row.row.cfa == entry && !is_led_by_nop
    }

    fn call_sites(&mut self, function: &Function, size: u32) -> Vec<CallSite> {
        let handler = self.evaluator.handler(function).ok();
        let Some(lsda) = handler.and_then(|handler| handler.lsda) else { return Vec::new() };
        let mut sites = landing_pads::read(self.memory.at(lsda), lsda, function.start, size, self.arch);
        for site in &mut sites {
            site.stack = self.stack_at(function.start, site.landing_pad);
        }
        sites
    }

    /// Returns the stack pointer at an address from the CFI. The CFI includes the arguments that were pushed for a
    /// call.
    fn stack_at(&self, start: Address, at: Address) -> Option<i32> {
        let offset = u32::try_from(at.0.checked_sub(start.0)?).ok()?;
        match self.rows.get(self.rows.index_at(offset)?)?.row.cfa {
            Cfa::Register { register, offset } if register == self.arch.stack_pointer() => {
                i32::try_from(offset.checked_neg()?).ok()
            }
            _ => None,
        }
    }

    fn outcome(&self, analysis: &Analysis<'_>, judgement: Judgement, evaluated: &Evaluated) -> Outcome {
        let right = judgement.right;
        let doubt = doubt(analysis, &judgement, evaluated, &self.rows);
        let not_reached = analysis.doubts().any(|(doubt, _)| doubt == Doubt::NotReached);
        let mut disassembler = None;
        let code = analysis.code();
        let findings = judgement.findings.into_iter().filter(|finding| !finding.continues);
        let findings = findings.map(|finding| {
            let offset = self.instructions.as_slice()[finding.index].offset;
            let row = self.rows.index_at(offset).and_then(|index| self.rows.get(index));
            Found {
                pc: code.start.offset(offset.into()),
                text: disassembler.get_or_insert_with(Disassembler::new).text(code, offset),
                cfa: row.map(|row| CfaWords(self.arch, row.row.cfa).to_string()).unwrap_or_default(),
                finding,
            }
        });
        let findings = findings.collect();
        Outcome { findings, doubt, exits: self.exits(analysis), waits: not_reached, right }
    }

    /// Returns the jumps that leave the function with a frame in place.
    fn exits(&self, analysis: &Analysis<'_>) -> Vec<Leaving> {
        let entry = self.entry.get(self.arch, self.arch.stack_pointer());
        let mut exits = Vec::new();
        if analysis.exits().iter().all(|exit| exit.target.is_none()) {
            return exits;
        }
        analysis.for_each_exit(|exit, state| {
            let Some(target) = exit.target.filter(|_| exits.len() < MAX_EXITS) else { return };
            let after = analysis.after(state, &analysis.instructions().as_slice()[exit.index], true);
            let stack = after.get(self.arch, self.arch.stack_pointer());
            if stack != entry && stack != Value::Unknown {
                exits.push(Leaving { target, state: after, is_from_table: exit.is_from_table });
            }
        });
        exits
    }
}

/// The reason why not every instruction was compared.
fn doubt(
    analysis: &Analysis<'_>,
    judgement: &Judgement,
    evaluated: &Evaluated,
    rows: &Rows,
) -> Option<&'static str> {
    if evaluated.is_partial {
        return Some("cfi");
    }
    if judgement.is_cut {
        return Some(Doubt::TooLarge.name());
    }
    let blocking = analysis.doubts().map(|doubt| doubt.0).find(|doubt| match doubt {
        Doubt::NoDisassembler
        | Doubt::IndirectJump
        | Doubt::IntoInstruction
        | Doubt::UnknownInstruction
        | Doubt::NotReached
        | Doubt::TooLarge => true,
        // These doubts do not keep an instruction from being compared.
        Doubt::FallsOff | Doubt::Conflict => false,
        _ => true,
    });
    if let Some(doubt) = blocking {
        return Some(doubt.name());
    }
    let (offset, arch) = (judgement.first_undecided?, analysis.code().arch);
    let row = rows.index_at(offset).and_then(|index| rows.get(index));
    let has_expression = |row: FullRow<'_>| row.rules(arch).any(|(_, rule)| rule == Rule::Expression);
    match row.map(|row| row.row.cfa) {
        Some(Cfa::Expression) => Some("expression"),
        Some(_) if row.is_some_and(has_expression) => Some("expression"),
        Some(Cfa::Register { .. } | Cfa::Memory { .. }) => Some("cfa-not-known"),
        Some(Cfa::Undefined) | None => Some("no-row"),
    }
}

#[cfg(test)]
impl Linter<'_, '_> {
    /// Compares a function after `change` has changed its rows. Returns whether nothing is found, or `None` if `change`
    /// returned false.
    pub fn with_rows(&mut self, function: &Function, change: impl FnOnce(&mut Rows) -> bool) -> Option<bool> {
        let evaluated = self.evaluate(function);
        let changed = change(&mut self.rows);
        let outcome = changed.then(|| self.follow(function, &[], &|_| true, &evaluated))?;
        Some(outcome.findings.is_empty())
    }
}
