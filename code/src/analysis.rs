//! Follows a function's execution from its entry, without its CFI.

mod run;

use std::collections::{BTreeMap, BTreeSet};

use cfipack_format::{Address, Family, Register};

use self::run::Run;
use crate::context::{Context, Shared};
use crate::instruction::{Flow, Instruction};
use crate::instructions::{Code, Instructions};
use crate::state::State;
use crate::table::Memory;
use crate::value::Value;

/// The most calls of a function that are found not to return, each of which begins the analysis anew.
const MAX_RESTARTS: usize = 16;
/// The most blocks of a function: more than a million bytes of code have. And those of a byte of code, and of any function, for
/// what is known of each is hundreds of bytes.
const MAX_BLOCKS: usize = 1 << 18;
const BLOCKS: (usize, usize) = (4, 1 << 10);

/// A way into a function beside its start: a landing pad, or code that jumps into the middle.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'e> {
    /// Bytes from the function's start.
    pub offset: u32,
    /// What is known there.
    pub state: &'e State,
}

/// Calls that can throw, and where execution continues then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallSite {
    /// The first byte of the calls, from the function's start.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// The landing pad.
    pub landing_pad: Address,
    /// The stack pointer there, in bytes from the CFA, if it is known from elsewhere: the unwinder removes arguments that a
    /// call has pushed. What does not fit a call is ignored.
    pub stack: Option<i32>,
}

/// The reason why something about a function is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// There is no disassembler for the architecture.
    NoDisassembler,
    /// An indirect jump may lead anywhere in the function: no jump table was recognised.
    IndirectJump,
    /// A jump leads into the middle of an instruction.
    IntoInstruction,
    /// The disassembler does not know an instruction.
    UnknownInstruction,
    /// Execution continues after the function's last instruction.
    FallsOff,
    /// No way leads to code that is no padding.
    NotReached,
    /// The stack pointer has two values where ways join.
    Conflict,
    /// The function is too large, or has too many ways.
    TooLarge,
}

impl Doubt {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NoDisassembler,
        Self::IndirectJump,
        Self::IntoInstruction,
        Self::UnknownInstruction,
        Self::FallsOff,
        Self::NotReached,
        Self::Conflict,
        Self::TooLarge,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoDisassembler => "no-disassembler",
            Self::IndirectJump => "indirect-jump",
            Self::IntoInstruction => "into-instruction",
            Self::UnknownInstruction => "unknown-instruction",
            Self::FallsOff => "falls-off",
            Self::NotReached => "not-reached",
            Self::Conflict => "conflict",
            Self::TooLarge => "too-large",
        }
    }
}

/// A jump out of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// The index of the instruction.
    pub index: usize,
    /// The target; none for an unknown one, which is a function: the frame is as it was at the entry.
    pub target: Option<Address>,
    /// True if the target is an entry of a jump table, whose end may be elsewhere than it seems.
    pub is_from_table: bool,
}

/// The knowledge about every instruction of a function.
#[derive(Debug)]
pub struct Analysis<'c> {
    code: Code<'c>,
    instructions: &'c Instructions,
    context: Shared<'static>,
    /// The number of the block that each instruction starts, or [`NONE`].
    block_at: Vec<u32>,
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    doubts: BTreeSet<(Doubt, u32)>,
    /// The indexes of calls that do not return.
    noreturn: BTreeSet<usize>,
    /// The first instructions of landing pads.
    pads: BTreeSet<usize>,
    /// Registers and slots at landing pads, by their first instructions, of which it is not known whether they have the caller's
    /// values: not every call that stands before a landing pad can throw, and those that cannot may be at other places of the
    /// prologue.
    doubtful: BTreeMap<usize, BTreeSet<(Register, Option<i32>)>>,
    /// Places in other functions where the same frame goes on.
    pub(crate) goes_on_at: BTreeSet<Address>,
    /// True if the function is part of another one.
    pub(crate) is_fragment: bool,
    /// True if it is a function though no way leaves it.
    pub(crate) may_stay: bool,
}

const NONE: u32 = u32::MAX;

/// A block: instructions from one that ways lead to.
#[derive(Debug)]
struct Block {
    first: usize,
    /// None where no way leads.
    state: Option<Box<State>>,
    /// The call after which execution came here, if no other way has confirmed that it returns.
    via: Option<usize>,
    visits: u8,
    waits: bool,
}

/// What [`Analysis::new`] is told beside the code.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'w> {
    /// The state at the function's start; none if execution does not begin there.
    pub start: Option<&'w State>,
    /// Further entries.
    pub entries: &'w [Entry<'w>],
    /// Calls with landing pads, ascending and apart.
    pub call_sites: &'w [CallSite],
    /// Offsets of calls that do not return, ascending, beside those that the analysis finds.
    pub noreturn: &'w [u32],
}

impl Drop for Analysis<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl<'c> Analysis<'c> {
    /// Follows every way from the entries.
    pub fn new(code: Code<'c>, instructions: &'c Instructions, memory: &dyn Memory, ways: Ways<'_>) -> Self {
        let mut analysis = Self {
            code,
            instructions,
            context: Shared::Owned(Context::new(code.start.0)),
            block_at: vec![NONE; instructions.as_slice().len()],
            blocks: Vec::new(),
            exits: Vec::new(),
            doubts: BTreeSet::new(),
            noreturn: BTreeSet::new(),
            pads: BTreeSet::new(),
            doubtful: BTreeMap::new(),
            goes_on_at: BTreeSet::new(),
            is_fragment: false,
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
        let pads: Vec<_> =
            ways.call_sites.iter().filter_map(|site| analysis.index_of(site.landing_pad)).collect();
        analysis.pads.extend(pads);
        for round in 0..=MAX_RESTARTS {
            analysis.begin();
            let mut run = Run::new(&code, ways, round == MAX_RESTARTS);
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
        self.context = Shared::Owned(Context::new(self.code.start.0));
        self.block_at.clear();
        self.block_at.resize(self.instructions.as_slice().len(), NONE);
        self.give_back();
        self.exits.clear();
        self.doubts.clear();
        let all = self.instructions;
        for (index, instruction) in all.as_slice().iter().enumerate() {
            let (target, ends) = match instruction.flow {
                Flow::Next => continue,
                Flow::Branch(target, _) => (target, true),
                Flow::Jump(target) => (target, false),
                Flow::Call(_) => {
                    self.lead(self.after_padding(index));
                    continue;
                }
                Flow::JumpRegister(_)
                | Flow::JumpMemory
                | Flow::JumpTable(..)
                | Flow::Return
                | Flow::Stop => {
                    continue;
                }
            };
            self.lead(target.and_then(|target| self.index_of(target)));
            self.lead(ends.then_some(index + 1).filter(|next| *next < all.as_slice().len()));
        }
    }

    /// Removes all blocks; their memory is for others.
    fn give_back(&mut self) {
        self.instructions.spare.give(self.blocks.drain(..).filter_map(|block| block.state));
    }

    /// Makes an instruction the first of a block.
    fn lead(&mut self, first: Option<usize>) -> Option<u32> {
        let first = first?;
        let known = self.block_at[first];
        if known != NONE {
            return Some(known);
        }
        if self.blocks.len() >= MAX_BLOCKS.min(self.code.bytes.len() / BLOCKS.0 + BLOCKS.1) {
            self.doubts.insert((Doubt::TooLarge, 0));
            return None;
        }
        let number = self.blocks.len() as u32;
        self.block_at[first] = number;
        self.blocks.push(Block { first, state: None, via: None, visits: 0, waits: false });
        Some(number)
    }

    /// The code.
    pub fn code(&self) -> &Code<'c> {
        &self.code
    }

    /// The instructions.
    pub fn instructions(&self) -> &'c Instructions {
        self.instructions
    }

    /// The reasons why something is not known, each with the offset of an instruction.
    pub fn doubts(&self) -> impl Iterator<Item = (Doubt, u32)> {
        self.doubts.iter().copied()
    }

    /// Jumps out of the function that keep to no other rule than that they leave it.
    pub fn exits(&self) -> &[Exit] {
        &self.exits
    }

    /// Returns whether a call, by its index, was found not to return.
    pub fn is_noreturn(&self, index: usize) -> bool {
        self.noreturn.contains(&index)
    }

    /// Returns whether execution from an instruction on reaches a return, or a jump to another function, with the stack
    /// pointer as a call left it: what is known there can then be right.
    pub(crate) fn returns_from(&self, first: usize) -> bool {
        let arch = self.code.arch;
        let entry = Value::Cfa(-(arch.cfa_offset_at_entry() as i32));
        let mut ends = vec![false; self.instructions.as_slice().len()];
        self.for_each(|index, instruction, state| {
            let leaves = match instruction.flow {
                Flow::Return | Flow::JumpRegister(_) | Flow::JumpMemory => true,
                Flow::Jump(target) => target.is_none_or(|target| !self.is_inside(target)),
                Flow::Next | Flow::Call(_) | Flow::Branch(..) | Flow::JumpTable(_) | Flow::Stop => false,
            };
            ends[index] = leaves && state.is_some_and(|state| state.get(arch, arch.stack_pointer()) == entry);
        });
        let mut seen = vec![false; ends.len()];
        let mut waiting = vec![first];
        while let Some(index) = waiting.pop() {
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            if ends[index] {
                return true;
            }
            waiting.extend(self.next(index).into_iter().flatten());
        }
        false
    }

    /// The instructions that execution goes on to: the next one, or what a call returns to; the target of a direct branch.
    pub(crate) fn next(&self, index: usize) -> [Option<usize>; 2] {
        let next = (index + 1 < self.block_at.len()).then_some(index + 1);
        let target = |target: Option<Address>| target.and_then(|target| self.index_of(target));
        match self.instructions.as_slice()[index].flow {
            Flow::Next => [next, None],
            Flow::Call(_) => [self.after_padding(index).filter(|_| !self.is_noreturn(index)), None],
            Flow::Branch(to, _) => [next, target(to)],
            Flow::Jump(to) => [None, target(to)],
            Flow::JumpRegister(_) | Flow::JumpMemory | Flow::JumpTable(_) | Flow::Return | Flow::Stop => {
                [None, None]
            }
        }
    }

    /// Calls `each` with the index of every instruction and what is known before it; none where no way leads.
    pub fn for_each(&self, mut each: impl FnMut(usize, &Instruction, Option<&State>)) {
        let mut state: Option<State> = None;
        let mut context = Shared::Borrowed(&*self.context);
        for (index, instruction) in self.instructions.as_slice().iter().enumerate() {
            if self.block_at[index] != NONE {
                match (&mut state, self.blocks[self.block_at[index] as usize].state.as_deref()) {
                    (Some(state), Some(known)) => state.clone_from(known),
                    (state, known) => *state = known.cloned(),
                }
            }
            each(index, instruction, state.as_ref());
            if let Some(known) = &mut state {
                known.apply(self.code.arch, instruction, self.instructions.ops(instruction), &mut context);
                known.branched(instruction.flow, false);
                if !instruction.flow.falls_through() {
                    state = None;
                }
            }
        }
    }

    /// The states before all instructions; none where no way leads.
    pub fn states(&self) -> Vec<Option<State>> {
        let mut states = Vec::with_capacity(self.instructions.as_slice().len());
        self.for_each(|_, _, state| states.push(state.cloned()));
        states
    }

    /// The state after an instruction, where it goes on: `taken` where its branch is taken.
    pub fn after(&self, state: &State, instruction: &Instruction, taken: bool) -> State {
        let mut after = state.clone();
        let mut context = Shared::Borrowed(&*self.context);
        after.apply(self.code.arch, instruction, self.instructions.ops(instruction), &mut context);
        after.branched(instruction.flow, taken);
        after
    }

    /// Returns whether an instruction is the first of a landing pad.
    pub(crate) fn is_landing_pad(&self, index: usize) -> bool {
        self.pads.contains(&index)
    }

    /// Returns whether a block starts with an instruction.
    pub(crate) fn is_start(&self, index: usize) -> bool {
        self.block_at.get(index).is_some_and(|number| *number != NONE)
    }

    /// The index of the instruction at an address.
    pub fn index_of(&self, address: Address) -> Option<usize> {
        self.instructions.index_of(u32::try_from(address.0.checked_sub(self.code.start.0)?).ok()?)
    }

    pub(crate) fn is_inside(&self, address: Address) -> bool {
        address.0.wrapping_sub(self.code.start.0) < self.code.bytes.len() as u64
    }

    /// The first instruction after one that is no padding: where a call returns to.
    pub fn after_padding(&self, index: usize) -> Option<usize> {
        self.instructions.after_padding(index)
    }

    fn find_unreached(&mut self) {
        let (mut is_reached, mut found, mut unknown) = (false, None, None);
        for (index, instruction) in self.instructions.as_slice().iter().enumerate() {
            if self.block_at[index] != NONE {
                is_reached = self.blocks[self.block_at[index] as usize].state.is_some();
            }
            if is_reached && instruction.is_unknown {
                unknown = unknown.or(Some(instruction.offset));
            } else if !is_reached && !instruction.is_padding {
                found = found.or(Some(instruction.offset));
            }
            is_reached &= instruction.flow.falls_through();
        }
        self.doubts.extend(found.map(|offset| (Doubt::NotReached, offset)));
        self.doubts.extend(unknown.map(|offset| (Doubt::UnknownInstruction, offset)));
    }

    /// Calls `each` with every [exit](Self::exits) that a way leads to, and what is known before it.
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

    /// The state before an instruction; none where no way leads. Costs following its block up to there.
    pub fn state_before(&self, index: usize) -> Option<State> {
        let first = self.block_at.get(..=index)?.iter().rposition(|number| *number != NONE)?;
        let mut state = self.blocks[self.block_at[first] as usize].state.as_deref()?.clone();
        let mut context = Shared::Borrowed(&*self.context);
        for instruction in &self.instructions.as_slice()[first..index] {
            if !instruction.flow.falls_through() {
                return None;
            }
            state.apply(self.code.arch, instruction, self.instructions.ops(instruction), &mut context);
            state.branched(instruction.flow, false);
        }
        Some(state)
    }
}

impl Analysis<'_> {
    /// The register with an offset that gives the CFA: the stack pointer if it is known, else the frame pointer, else any
    /// other register.
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
