//! Follows the execution of a function from its entry, without its CFI.
//!
//! An [`Analysis`] divides the function into blocks and follows every path through them ([`run`]). Where two paths
//! meet, only facts that hold on both paths stay. The text calls a path that execution can take a *way*.
//! [`ends`] has the instructions where the function ends, [`blocks`] the states before blocks, and `convention` finds
//! conventions without callee-saved registers.

mod blocks;
mod convention;
mod ends;
mod run;

use std::collections::{BTreeMap, BTreeSet};

use cfipack_format::{Address, Family, Register};

use self::blocks::{Block, NONE, Starts};
use self::run::Run;
use crate::context::{Context, Shared};
use crate::instruction::{Flow, Instruction};
use crate::instructions::{Code, Instructions};
use crate::state::State;
use crate::table::Memory;
use crate::value::Value;

/// The most restarts of an analysis. Each time that a call turns out not to return, the analysis starts over.
const MAX_RESTARTS: usize = 16;

/// An entry of a function beside its start. For example, a landing pad, or code that another function jumps into.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    /// The offset of the entry in bytes from the function's start.
    pub offset: u32,
    /// The state in which execution enters.
    pub state: &'e State,
}

/// A range of calls that can throw, and the place where execution continues when they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSite {
    /// The offset of the first byte of the range, from the function's start.
    pub start: u32,
    /// The offset after the last byte of the range.
    pub end: u32,
    /// The address of the landing pad.
    pub landing_pad: Address,
    /// The stack pointer at the landing pad, in bytes from the CFA, if you know it. The unwinder removes arguments
    /// that a call has pushed, so the value can differ from the value at the call. A value that does not fit a call
    /// is ignored.
    pub stack: Option<i32>,
}

/// The reason why the analysis does not know something about a function. A reason comes before the reasons that can follow
/// from it: where an analysis reaches a limit, it does not reach the code after that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// No disassembler for the architecture is built in.
    NoDisassembler,
    /// An indirect jump may lead anywhere in the function, because no jump table was recognized.
    IndirectJump,
    /// A jump leads into the middle of an instruction.
    IntoInstruction,
    /// The disassembler does not know an instruction.
    UnknownInstruction,
    /// Execution runs over the function's last instruction.
    FallsOff,
    /// The function is too large, or has too many paths.
    TooLarge,
    /// No path leads to some code that is not padding.
    NotReached,
    /// Two paths meet with different stack pointers.
    Conflict,
}

impl Doubt {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NoDisassembler,
        Self::IndirectJump,
        Self::IntoInstruction,
        Self::UnknownInstruction,
        Self::FallsOff,
        Self::TooLarge,
        Self::NotReached,
        Self::Conflict,
    ];

    /// Returns the name of the reason in reports, for example `indirect-jump`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoDisassembler => "no-disassembler",
            Self::IndirectJump => "indirect-jump",
            Self::IntoInstruction => "into-instruction",
            Self::UnknownInstruction => "unknown-instruction",
            Self::FallsOff => "falls-off",
            Self::TooLarge => "too-large",
            Self::NotReached => "not-reached",
            Self::Conflict => "conflict",
        }
    }
}

/// A jump that leaves the function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The index of the jumping instruction.
    pub index: usize,
    /// The target, or `None` if it is unknown and the stack is as it was at the function's entry. We take such a jump
    /// for a tail call.
    pub target: Option<Address>,
    /// True if the target comes from a jump table. The end of a jump table is a guess, so the target may be wrong.
    pub is_from_table: bool,
}

/// The result of following a function: the state before each instruction, jumps that leave the function, and doubts.
#[derive(Debug)]
pub struct Analysis<'c> {
    code: Code<'c>,
    instructions: &'c Instructions,
    context: Shared<'static>,
    starts: Starts,
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    doubts: BTreeSet<(Doubt, u32)>,
    /// The indexes of calls that do not return.
    noreturn: BTreeSet<usize>,
    /// Registers and slots that may or may not have the caller's value at a landing pad, by the pad's first
    /// instruction. Some calls in the range of a landing pad cannot throw, and they may stand at other places of the
    /// prologue.
    doubtful: BTreeMap<usize, BTreeSet<(Register, Option<i32>)>>,
    /// Addresses in other functions where execution continues with the same frame.
    pub(crate) goes_on_at: BTreeSet<Address>,
    /// True if the function is a fragment of another function.
    pub(crate) is_fragment: bool,
    /// True if a call leads to code of the function other than its start.
    pub(crate) calls_itself: bool,
    /// True if the code counts as a function although no path leaves it.
    pub(crate) may_stay: bool,
}

/// The parts of a function's surroundings that [`Analysis::new`] uses: where execution enters, and how calls behave.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'w> {
    /// The state at the function's start. Pass `None` if execution does not begin there, as in a `.cold` fragment.
    /// For an ordinary function, pass [`State::at_entry`].
    pub start: Option<&'w State>,
    /// Further entries, in any order.
    pub entries: &'w [Entry<'w>],
    /// Calls with landing pads. The ranges must be ascending and must not overlap.
    pub call_sites: &'w [CallSite],
    /// Offsets of calls that do not return, ascending. The analysis finds further such calls by itself.
    pub noreturn: &'w [u32],
}

impl Drop for Analysis<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<'c> Analysis<'c> {
    /// Follows every path through the function from its entries.
    ///
    /// The `memory` supplies the bytes of jump tables; pass [`NoMemory`](crate::NoMemory) if you have only the code.
    /// This function never fails: look at [`doubts`](Self::doubts) to learn what it could not follow.
    ///
    /// A store over a saved register by the stack or frame pointer counts if the function still returns with every register
    /// that it has to keep, or if no path to a return avoids the store. Otherwise it is never executed: for example, GCC has
    /// expanded `memcpy` for sizes that do not occur.
    pub fn new(code: Code<'c>, instructions: &'c Instructions, memory: &dyn Memory, ways: Ways<'_>) -> Self {
        Self::with_red_zone(code, instructions, memory, ways, None)
    }

    /// Does the same as [`new`](Self::new), for rows from code. Forgets values that lie more than `red_zone` bytes below the
    /// stack pointer when it rises, because a signal handler overwrites them. The judge of rows looks at the red zone itself.
    pub(crate) fn with_red_zone(
        code: Code<'c>,
        instructions: &'c Instructions,
        memory: &dyn Memory,
        ways: Ways<'_>,
        red_zone: Option<u32>,
    ) -> Self {
        let context = |ignores| Context::new(code.start.0, red_zone, ignores);
        let analysis = Self::followed(code, instructions, memory, ways, context(false));
        if analysis.context.overwrites.is_empty() {
            return analysis;
        }
        let without = Self::followed(code, instructions, memory, ways, context(true));
        if analysis.proves_overwrites(&without) { analysis } else { without }
    }

    /// Follows every path.
    fn followed(
        code: Code<'c>,
        instructions: &'c Instructions,
        memory: &dyn Memory,
        ways: Ways<'_>,
        context: Context,
    ) -> Self {
        let mut analysis = Self {
            code,
            instructions,
            context: Shared::Owned(context),
            starts: Starts::default(),
            blocks: Vec::new(),
            exits: Vec::new(),
            doubts: BTreeSet::new(),
            noreturn: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            goes_on_at: BTreeSet::new(),
            is_fragment: false,
            calls_itself: false,
            may_stay: false,
        };
        match code.arch.family() {
            Family::S390x | Family::Riscv => {
                analysis.doubts.insert((Doubt::NoDisassembler, 0));
                return analysis;
            }
            Family::X86 | Family::Aarch64 => {}
        }
        let calls = ways.noreturn.iter().filter_map(|offset| instructions.index_of(*offset));
        analysis.noreturn.extend(calls);
        for round in 0..=MAX_RESTARTS {
            analysis.begin();
            let mut run = Run::new(&analysis, ways, round == MAX_RESTARTS);
            if run.follow(&mut analysis, memory).is_ok() {
                break;
            }
        }
        analysis.exits.sort_by_key(|exit| (exit.index, exit.target, exit.is_from_table));
        analysis.exits.dedup();
        analysis.find_unreached();
        analysis
    }

    fn begin(&mut self) {
        let Context { red_zone, ignores_overwrites, .. } = *self.context;
        self.context = Shared::Owned(Context::new(self.code.start.0, red_zone, ignores_overwrites));
        self.give_back();
        self.exits.clear();
        self.doubts.clear();
        self.start_blocks();
    }

    /// Returns the code that was analyzed.
    pub fn code(&self) -> &Code<'c> {
        &self.code
    }

    /// Returns the decoded instructions of the function.
    pub fn instructions(&self) -> &'c Instructions {
        self.instructions
    }

    /// Iterates over the reasons why something is not known, each with the offset of an instruction. Without doubts,
    /// every path was followed to its end.
    pub fn doubts(&self) -> impl Iterator<Item = (Doubt, u32)> {
        self.doubts.iter().copied()
    }

    /// Returns the jumps that leave the function, ascending by instruction.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Returns whether the analysis found that the call at this index does not return.
    pub fn is_noreturn(&self, index: usize) -> bool {
        self.noreturn.contains(&index)
    }

    /// Returns the instructions that can execute next. One is the next instruction in memory, or the instruction that a
    /// call returns to. The other is the target of a direct branch, or of a call within the function.
    pub fn next(&self, index: usize) -> [Option<usize>; 2] {
        self.next_by(index, self.instructions.at(index).flow)
    }

    /// Does the same as [`next`](Self::next) for an instruction with this flow.
    pub(crate) fn next_by(&self, index: usize, flow: Flow) -> [Option<usize>; 2] {
        let next = (index + 1 < self.instructions.len()).then_some(index + 1);
        let target = |target: Option<Address>| target.and_then(|target| self.index_of(target));
        match flow {
            Flow::Next => [next, None],
            Flow::Call(to) => {
                let called = to.filter(|to| *to != self.code.start);
                [self.returns_to(index).filter(|_| !self.is_noreturn(index)), target(called)]
            }
            Flow::Branch(to, _) => [next, target(to)],
            Flow::Jump(to) => [None, target(to)],
            Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_) | Flow::Return | Flow::Stop => {
                [None, None]
            }
        }
    }

    /// Calls `each` with the index of every instruction and the state before it, in memory order. The state is `None`
    /// if no path leads to the instruction.
    ///
    /// Prefer this function to [`states`](Self::states) if you look at each state once: it copies a state only per
    /// block.
    pub fn for_each(&self, mut each: impl FnMut(usize, &Instruction, Option<&State>)) {
        let mut state: Option<State> = None;
        let mut context = Shared::Borrowed(&*self.context);
        let mut steps = self.instructions.steps(0);
        while let Some((first, instructions, ops)) = steps.next_slice() {
            for (index, instruction) in (first..).zip(instructions) {
                if let Some(block) = self.blocks.get(self.starts.get(index) as usize) {
                    match (&mut state, block.state.as_deref()) {
                        (Some(state), Some(known)) => state.clone_from(known),
                        (state, known) => *state = known.cloned(),
                    }
                }
                each(index, instruction, state.as_ref());
                let Some(known) = &mut state else { continue };
                known.apply(self.code.arch, instruction, instruction.effects(ops), &mut context);
                known.branched(instruction.flow, false);
                if !instruction.flow.falls_through() {
                    state = None;
                }
            }
        }
    }

    /// Returns whether a path leads to an instruction that does not go through the return of a call.
    pub(crate) fn is_reached_without(&self, call: usize, index: usize) -> bool {
        let block = self.blocks.get(self.starts.around(index) as usize);
        block.is_none_or(|block| block.via as usize != call)
    }

    /// Returns the states before all instructions, by index. A state is `None` if no path leads to the instruction.
    pub fn states(&self) -> Vec<Option<State>> {
        let mut states = Vec::with_capacity(self.instructions.len());
        self.for_each(|_, _, state| states.push(state.cloned()));
        states
    }

    /// Returns the state after an instruction. Set `taken` to get the state at the target of a branch, or of a call
    /// within the function.
    pub fn after(&self, state: &State, instruction: &Instruction, taken: bool) -> State {
        let mut after = state.clone();
        if let (Flow::Call(_), true) = (instruction.flow, taken) {
            after.enter_call(self.code.arch);
            return after;
        }
        let mut context = Shared::Borrowed(&*self.context);
        after.apply(self.code.arch, instruction, &self.instructions.ops(instruction), &mut context);
        after.branched(instruction.flow, taken);
        after
    }

    /// Returns whether an instruction starts a block.
    pub(crate) fn is_start(&self, index: usize) -> bool {
        self.starts.get(index) != NONE
    }

    /// Returns the index of the instruction that starts at an address.
    pub fn index_of(&self, address: Address) -> Option<usize> {
        self.instructions.index_of(self.code.offset_of(address)?)
    }

    pub(crate) fn is_inside(&self, address: Address) -> bool {
        self.code.offset_of(address).is_some()
    }

    /// Returns the index of the instruction that a call at `index` returns to, or `None` if no call is there.
    pub fn returns_to(&self, index: usize) -> Option<usize> {
        match self.instructions.get(index)?.flow {
            Flow::Call(_) => self.instructions.returns_to(index),
            _ => None,
        }
    }

    fn find_unreached(&mut self) {
        let (mut is_reached, mut found, mut unknown) = (false, None, None);
        let mut steps = self.instructions.steps(0);
        while let Some((first, instructions, _)) = steps.next_slice() {
            for (index, instruction) in (first..).zip(instructions) {
                if let Some(block) = self.blocks.get(self.starts.get(index) as usize) {
                    is_reached = block.state.is_some();
                }
                if is_reached && instruction.is_unknown {
                    unknown = unknown.or(Some(instruction.offset));
                } else if !is_reached && !instruction.is_padding {
                    found = found.or(Some(instruction.offset));
                }
                is_reached &= instruction.flow.falls_through();
            }
        }
        self.doubts.extend(found.map(|offset| (Doubt::NotReached, offset)));
        self.doubts.extend(unknown.map(|offset| (Doubt::UnknownInstruction, offset)));
    }

    /// Calls `each` with every [exit](Self::exits) that a path leads to, and the state before the jump.
    pub fn for_each_exit(&self, mut each: impl FnMut(&Exit, &State)) {
        let mut next = 0;
        self.for_each(|index, _, state| {
            while let Some(exit) = self.exits.get(next).filter(|exit| exit.index <= index) {
                if let Some(state) = state {
                    each(exit, state);
                }
                next += 1;
            }
        });
    }

    /// Returns the state before an instruction, or `None` if no path leads to it. This function follows the
    /// instruction's block from its start each time.
    pub fn state_before(&self, index: usize) -> Option<State> {
        let block = self.blocks.get(self.starts.around(index) as usize)?;
        let mut state = block.state.as_deref()?.clone();
        let mut context = Shared::Borrowed(&*self.context);
        let mut steps = self.instructions.steps(block.first as usize);
        loop {
            let (at, instruction, ops) = steps.next()?;
            if at == index {
                return Some(state);
            }
            if !instruction.flow.falls_through() {
                return None;
            }
            state.apply(self.code.arch, instruction, instruction.effects(ops), &mut context);
            state.branched(instruction.flow, false);
        }
    }

    /// Returns the register and the offset that give the CFA in a state. The stack pointer is best, then the frame
    /// pointer, then any other register.
    pub fn cfa(&self, state: &State) -> Option<(Register, i64)> {
        let arch = self.code.arch;
        let general = (0..32).map(Register);
        let all = [arch.stack_pointer(), arch.frame_pointer()].into_iter().chain(general);
        all.into_iter().find_map(|register| match state.get(arch, register) {
            Value::Cfa(offset) => Some((register, -i64::from(offset))),
            _ => None,
        })
    }
}
