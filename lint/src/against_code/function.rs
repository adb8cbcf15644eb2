//! Compares one function's CFI with its code.

use cfipack_code::{
    Analysis, CallSite, Code, Condition, Disassembler, Doubt, Entry, Finding, Flow, FullRow, Instructions,
    Judge, Judgement, Kind, Memory as _, Rows, State, Value, Ways, landing_pads,
};
use cfipack_format::{Address, Arch, Cfa, CfaWords, Family, FunctionOffset, Row, Rule};
use cfipack_roundtrip::cfi::{Answer, Evaluator, Function, Functions};

use super::Found;
use super::outcome::{Leaving, Outcome, Pass, Way};
use super::targets::Targets;
use crate::FileMemory;
use crate::returns::{Imports, Returns};

/// A function with more bytes of code than this is not followed.
const MAX_CODE: u64 = 1 << 24;

/// At most this many jumps that leave a function with its frame are followed.
const MAX_EXITS: usize = 1 << 12;

/// How often a function is followed again, each time with more calls that are assumed not to return.
const ROUNDS: usize = 4;

/// If several functions jump to a fragment, at most this many of them are tried.
const MAX_SOURCES: usize = 8;

/// The size of a stub that an expression describes, in bytes.
const STUB: u64 = 16;

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
    /// The targets of calls and jumps of all functions that were compared.
    pub targets: Targets,
}

/// The result of evaluating a function's CFI with gimli, besides its rows.
#[derive(Default)]
struct Evaluated {
    /// True if the CFI could not be evaluated to its end.
    is_partial: bool,
    /// True if calls have pushed arguments, which an unwinder takes off the stack before a landing pad.
    pushes: bool,
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
            targets: Targets::default(),
        }
    }

    /// Compares a function's CFI with its code. `entries` are the ways into the function from other functions.
    pub fn compare(&mut self, function: &Function, entries: &[Way], pass: Pass) -> Outcome {
        if function.end.0 - function.start.0 > MAX_CODE {
            return Outcome::undecided(Doubt::TooLarge.name());
        }
        let evaluated = self.evaluate(function);
        let outcome = self.follow(function, entries, pass, &evaluated);
        if outcome.findings.is_empty() {
            return outcome;
        }
        // A fragment belongs to one function. Jumps from other functions are never taken: compilers let code that is
        // unreachable run over its end, which can be the start of a fragment.
        let mut sources: Vec<_> = entries.iter().map(|way| way.from).collect();
        sources.sort_unstable();
        sources.dedup();
        let single = sources.iter().filter(|_| (2..=MAX_SOURCES).contains(&sources.len()));
        let mut single = single.map(|source| {
            let own: Vec<_> = entries.iter().filter(|way| way.from == *source).cloned().collect();
            self.follow(function, &own, pass, &evaluated)
        });
        if let Some(right) = single.find(|outcome| outcome.findings.is_empty()) {
            return right;
        }
        let real: Vec<_> = entries.iter().filter(|way| !way.is_default).cloned().collect();
        if real.len() == entries.len() { outcome } else { self.follow(function, &real, pass, &evaluated) }
    }

    /// Compares the rows in `self.rows` with the function's code.
    fn follow(&mut self, function: &Function, entries: &[Way], pass: Pass, evaluated: &Evaluated) -> Outcome {
        let size = function.end.0 - function.start.0;
        let Some((bytes, relocated)) = self.memory.code(function.start, size) else {
            return Outcome::undecided("no-code");
        };
        if self.rows.is_empty() {
            return Outcome::undecided("cfi");
        }
        let code = Code { arch: self.arch, start: function.start, bytes, relocated: &relocated };
        self.instructions.decode(&code);
        self.targets.add(&code, &self.instructions);
        let (entry, handler, mut own) = (self.entry.clone(), self.entry_with_error_code(), Vec::new());
        own.extend(handler.iter().map(|state| Entry { offset: 0, state }));
        // Only jumps lead to a part of a function. It has these ways if they do not leave the stack as a call does.
        let is_part = entries.iter().any(|way| way.is_to_part);
        let starts = !is_part && self.starts(evaluated.stubs, &entry, &mut own);
        // Targets of another function's jump table are followed only into fragments, which have no other entry.
        let is_fragment = !starts && evaluated.stubs.is_none();
        let ways = entries.iter().filter(|way| is_fragment || !way.is_from_table);
        own.extend(ways.map(|way| Entry { offset: way.offset, state: &way.state }));
        let needs_call = is_fragment && own.is_empty() && !self.evaluator.is_signal_frame(function);
        let is_entered = starts || (needs_call && pass.is_called);
        if !is_entered && own.is_empty() {
            return Outcome { waits: true, needs_call, ..Outcome::undecided("fragment") };
        }
        let call_sites = self.call_sites(function, size as u32, evaluated.pushes);
        let (mut noreturn, mut is_asked) = (Vec::new(), false);
        let start = is_entered.then_some(&entry);
        let (is_closed, mut has_last_calls) = (pass.is_closed && !self.mentions_itself(&code), false);
        for round in 0..=ROUNDS {
            let ways = Ways { start, entries: &own, call_sites: &call_sites, noreturn: &noreturn };
            let analysis = Analysis::new(code, &self.instructions, self.memory, ways);
            let judge = Judge::new(&analysis, &self.rows, self.red_zone);
            let judgement = judge.judge();
            // After a call that does not return, the state can be wrong everywhere. So can a guess at the calls that do
            // not return.
            let mut calls = Vec::new();
            if !judgement.findings.is_empty() && !is_asked {
                is_asked = true;
                calls = self.returns.ending_calls(&analysis);
            }
            if calls.is_empty() {
                let is_closed = is_closed && analysis.doubts().all(|doubt| doubt.0 != Doubt::IndirectJump);
                calls = judgement.unconfirmed_calls(&analysis, is_closed);
                has_last_calls |= !calls.is_empty();
            }
            if calls.is_empty() || round == ROUNDS {
                let outcome = self.outcome(&analysis, &judge, judgement, evaluated);
                return Outcome { is_entered, has_last_calls, ..outcome };
            }
            noreturn.extend(calls);
            noreturn.sort_unstable();
        }
        Outcome::undecided(Doubt::TooLarge.name())
    }

    /// Returns whether instructions mention addresses of the function. Then it may be entered there, as handlers of OCaml
    /// are.
    fn mentions_itself(&self, code: &Code<'_>) -> bool {
        let size = code.bytes.len() as u64;
        self.instructions.constants().any(|(_, value)| (1..size).contains(&value.wrapping_sub(code.start.0)))
    }

    /// Evaluates the CFI into `rows`.
    fn evaluate(&mut self, function: &Function) -> Evaluated {
        let mut evaluated = Evaluated::default();
        let rows = &mut self.rows;
        rows.clear();
        let first = function.start.0;
        let nothing =
            Row { cfa: Cfa::Expression, return_address: Rule::Expression, ..Row::at_entry(self.arch) };
        let mut reached = FunctionOffset(0);
        let result = self.evaluator.evaluate_registers(function, |range, answer, saved, pushed| {
            let offset = |pc: u64| FunctionOffset((pc - first) as u32);
            reached = offset(range.end);
            evaluated.pushes |= pushed != 0;
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
                Answer::Nothing | Answer::SignState(_) | Answer::SignedWithPc { .. } => {
                    rows.push(Row { start: offset(range.start), ..nothing }, saved);
                }
            }
        });
        let has_keys = self.arch.family() == Family::Aarch64;
        if has_keys && rows.iter().any(|row| row.row.signed) {
            rows.set_key_b(self.evaluator.has_key_b(function));
        }
        evaluated.is_partial = result.is_err();
        if evaluated.is_partial && !rows.is_empty() {
            // Nobody knows the rows from here on.
            rows.push(Row { start: reached, ..nothing }, &[]);
        }
        evaluated
    }

    /// Returns whether the function's first row has the CFA that a call leaves. For stubs, adds the places where each
    /// stub is entered to `entries` and returns false.
    ///
    /// A stub of a PLT is also entered after its jump. The dynamic linker sets the pointer of the jump only when the stub
    /// runs for the first time, and before that the pointer leads to the instruction after the jump.
    fn starts<'e>(&self, stubs: Option<(u32, u32)>, entry: &'e State, entries: &mut Vec<Entry<'e>>) -> bool {
        if let Some((first, end)) = stubs {
            let starts = (first..end).step_by(STUB as usize);
            let all = self.instructions.iter().zip(self.instructions.iter().skip(1));
            let after_jumps = all.filter_map(|(jump, next)| {
                let is_jump = jump.offset >= first && jump.flow == Flow::JumpMemory;
                (is_jump && !next.is_padding && next.offset < end).then_some(next.offset)
            });
            entries.extend(starts.chain(after_jumps).map(|offset| Entry { offset, state: entry }));
            return false;
        }
        let Some(row) = self.rows.get(0) else { return false };
        let stack = self.arch.stack_pointer();
        let entry = Cfa::Register { register: stack, offset: self.arch.cfa_offset_at_entry() };
        // A return address above the CFA has been pushed before a jump, as a PLT of AArch64 does.
        let is_entry = |row: FullRow<'_>| match row.row.return_address {
            Rule::Undefined => true,
            Rule::Cfa(0..) => false,
            _ => row.row.cfa == entry,
        };
        // If a fragment begins with a landing pad, GCC puts a nop before it. The nop is never executed.
        let mut all = self.instructions.iter();
        let is_led_by_nop = match (all.next(), all.next(), self.rows.get(1)) {
            (Some(first), Some(second), Some(next)) => {
                first.is_padding && next.row.start.0 == second.offset && !is_entry(next)
            }
            _ => false,
        };
        is_entry(row) && !is_led_by_nop
    }

    /// Returns the state at the entry of an exception's handler, if the handler gets an error code. The processor pushes the
    /// code after the return address, and the handler removes it before `iret`.
    fn entry_with_error_code(&self) -> Option<State> {
        let (stack, pushed) = (self.arch.stack_pointer(), self.arch.pushed_by_call());
        let offset = self.arch.cfa_offset_at_entry() + pushed;
        let is_pushed = self.rows.get(0)?.row.cfa == Cfa::Register { register: stack, offset };
        if pushed == 0 || !is_pushed || !self.instructions.iter().any(|one| one.returns_from_exception()) {
            return None;
        }
        let mut state = self.entry.clone();
        state.set(self.arch, stack, Value::Cfa(-(offset as i32)));
        Some(state)
    }

    fn call_sites(&mut self, function: &Function, size: u32, pushes: bool) -> Vec<CallSite> {
        let handler = self.evaluator.handler(function).ok();
        let Some(lsda) = handler.and_then(|handler| handler.lsda) else { return Vec::new() };
        let mut sites = landing_pads::read(self.memory.at(lsda), lsda, function.start, size, self.arch);
        for site in &mut sites {
            let stack = self.stack_at(function.start, site.landing_pad);
            let (has_own, has_other) = self.stacks_at_calls(stack, function.start, site);
            site.stack = stack.filter(|_| has_other && (pushes || has_own));
        }
        sites
    }

    /// Returns whether a call of a call site has this stack pointer by the CFI, and whether another call has not. Of such
    /// calls, the others cannot throw.
    fn stacks_at_calls(&self, stack: Option<i32>, start: Address, site: &CallSite) -> (bool, bool) {
        let first = self.instructions.index_of(site.start).unwrap_or(self.instructions.len());
        let own = self.instructions.iter_from(first).take_while(|one| one.offset < site.end);
        let calls = own.filter(|one| matches!(one.flow, Flow::Call(_)));
        calls.fold((false, false), |(own, other), call| {
            let is_own = self.stack_at(start, start.offset(call.offset.into())) == stack;
            (own | is_own, other | !is_own)
        })
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

    fn outcome(
        &self,
        analysis: &Analysis<'_>,
        judge: &Judge<'_, '_>,
        mut judgement: Judgement,
        evaluated: &Evaluated,
    ) -> Outcome {
        // The expression of stubs has no row that starts anywhere.
        let is_stub = |offset| evaluated.stubs.is_some_and(|(start, end)| (start..end).contains(&offset));
        judgement.findings.retain(|finding| finding.kind != Kind::Boundary || !is_stub(finding.wrong.0));
        let doubt = doubt(analysis, &judgement, evaluated, &self.rows);
        let not_reached = analysis.doubts().any(|(doubt, _)| doubt == Doubt::NotReached);
        let is_clean = judgement.findings.is_empty();
        let at_calls = if is_clean { Vec::new() } else { judge.at_calls() };
        Outcome {
            findings: self.found(analysis.code(), judgement.findings),
            at_calls: self.found(analysis.code(), at_calls),
            ends_frames: judge.ends_frames(),
            doubt,
            exits: self.exits(analysis),
            waits: not_reached,
            right: judgement.right,
            ..Outcome::default()
        }
    }

    /// Adds the texts of the instructions to findings.
    fn found(&self, code: &Code<'_>, findings: Vec<Finding>) -> Vec<Found> {
        let mut disassembler = None;
        let findings = findings.into_iter().map(|finding| {
            let offset = self.instructions.offset(finding.index);
            let row = self.rows.index_at(offset).and_then(|index| self.rows.get(index));
            Found {
                pc: code.start.offset(offset.into()),
                text: disassembler.get_or_insert_with(Disassembler::new).text(code, offset),
                cfa: row.map(|row| CfaWords(self.arch, row.row.cfa).to_string()).unwrap_or_default(),
                finding,
            }
        });
        findings.collect()
    }

    /// Returns the jumps that leave the function with a frame in place.
    fn exits(&self, analysis: &Analysis<'_>) -> Vec<Leaving> {
        let mut exits = Vec::new();
        if analysis.exits().iter().all(|exit| exit.target.is_none()) {
            return exits;
        }
        analysis.for_each_exit(|exit, state| {
            let Some(target) = exit.target.filter(|_| exits.len() < MAX_EXITS) else { return };
            let after = analysis.after(state, &analysis.instructions().at(exit.index), true);
            let stack = after.get(self.arch, self.arch.stack_pointer());
            if after.has_frame(self.arch) && stack != Value::Unknown {
                let is_default = self.is_default(exit.index);
                let is_from_table = exit.is_from_table;
                exits.push(Leaving { target, state: after, is_from_table, is_default });
            }
        });
        exits
    }

    /// Returns whether a branch leads to the default of a switch: it checks a bound, and an indirect jump follows.
    fn is_default(&self, branch: usize) -> bool {
        let mut flows = self.instructions.iter_from(branch).map(|one| one.flow);
        let flow = flows.next();
        matches!(flow, Some(Flow::Branch(_, Condition::Above | Condition::AtLeast)))
            && matches!(
                flows.find(|flow| *flow != Flow::Next),
                Some(Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_))
            )
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
        // Stubs only jump to other functions, the first stub of a PLT with two words on the stack.
        Doubt::IndirectJump if evaluated.stubs.is_some() => false,
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
        Some(Cfa::Undefined) => Some("outermost"),
        None => Some("no-row"),
    }
}

#[cfg(test)]
impl Linter<'_, '_> {
    /// Compares a function after `change` has changed its rows. Returns whether nothing is found, or `None` if `change`
    /// returned false.
    pub fn with_rows(&mut self, function: &Function, change: impl FnOnce(&mut Rows) -> bool) -> Option<bool> {
        let evaluated = self.evaluate(function);
        let changed = change(&mut self.rows);
        let outcome = changed
            .then(|| self.follow(function, &[], Pass { is_called: true, is_closed: false }, &evaluated))?;
        Some(outcome.findings.is_empty())
    }
}
