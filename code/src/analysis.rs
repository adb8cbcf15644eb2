//! Follows a function's execution from its entry, without its CFI.

use std::collections::{BTreeSet, VecDeque};

use cfipack_format::{Address, Family, Register};

use crate::context::Context;
use crate::instruction::{Flow, Instruction, Op};
use crate::instructions::{Code, Instructions};
use crate::state::{Joined, State};
use crate::table::{JumpTable, Memory};
use crate::value::Value;

/// The most times that a block is followed with less knowledge.
const MAX_VISITS: u8 = 40;
/// The most calls of a function that are found not to return, each of which begins the analysis anew.
const MAX_RESTARTS: usize = 16;
/// Entries of jump tables that may be read for each byte of a function, and for the function itself.
const TABLE_ENTRIES: (usize, usize) = (4, 1 << 10);
/// Bytes of arguments of a call that an unwinder removes before it goes on at a landing pad, at most.
const MAX_ARGUMENTS: i32 = 1 << 10;
/// The most blocks of a function: more than a million bytes of code have. And those of a byte of code, and of any function, for
/// what is known of each is hundreds of bytes.
const MAX_BLOCKS: usize = 1 << 18;
const BLOCKS: (usize, usize) = (4, 1 << 10);
/// Slots that may be known of all blocks for each byte of a function, and for the function itself.
const SLOTS: (usize, usize) = (4, 1 << 14);

/// A way into a function beside its start: a landing pad, or code that jumps into the middle.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Bytes from the function's start.
    pub offset: u32,
    /// What is known there.
    pub state: State,
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
    context: Context,
    /// The number of the block that each instruction starts, or [`NONE`].
    block_at: Vec<u32>,
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    doubts: BTreeSet<(Doubt, u32)>,
    /// The indexes of calls that do not return.
    noreturn: BTreeSet<usize>,
    /// The first instructions of landing pads.
    pads: BTreeSet<usize>,
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
    pub entries: &'w [Entry],
    /// Calls with landing pads, ascending and apart.
    pub call_sites: &'w [CallSite],
    /// Offsets of calls that do not return, ascending, beside those that the analysis finds.
    pub noreturn: &'w [u32],
}

/// A way from one instruction to another.
struct Edge {
    from: usize,
    to: usize,
    is_call: bool,
}

/// A call that does not return was found.
struct Restart;

impl<'c> Analysis<'c> {
    /// Follows every way from the entries.
    pub fn new(code: Code<'c>, instructions: &'c Instructions, memory: &dyn Memory, ways: Ways<'_>) -> Self {
        let mut analysis = Self {
            code,
            instructions,
            context: Context::new(code.start.0),
            block_at: vec![NONE; instructions.as_slice().len()],
            blocks: Vec::new(),
            exits: Vec::new(),
            doubts: BTreeSet::new(),
            noreturn: BTreeSet::new(),
            pads: BTreeSet::new(),
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
            let mut run = Run {
                entries_left: code.bytes.len().saturating_mul(TABLE_ENTRIES.0) + TABLE_ENTRIES.1,
                slots_left: code.bytes.len().saturating_mul(SLOTS.0) + SLOTS.1,
                waiting: Vec::new(),
                deferred: VecDeque::new(),
                ways,
                is_last: round == MAX_RESTARTS,
                via: None,
                starts: None,
                constants: None,
            };
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
        self.context = Context::new(self.code.start.0);
        self.block_at.clear();
        self.block_at.resize(self.instructions.as_slice().len(), NONE);
        self.blocks.clear();
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
        let mut context = self.context.clone();
        for (index, instruction) in self.instructions.as_slice().iter().enumerate() {
            if self.block_at[index] != NONE {
                state = self.blocks[self.block_at[index] as usize].state.as_deref().cloned();
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
        let mut context = self.context.clone();
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
        let mut context = self.context.clone();
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

/// The work of an analysis.
struct Run<'w> {
    entries_left: usize,
    slots_left: usize,
    waiting: Vec<u32>,
    /// Calls with the states after them, which are followed last.
    deferred: VecDeque<(usize, usize, State)>,
    ways: Ways<'w>,
    /// No further call is found not to return.
    is_last: bool,
    /// The call through which the block that is followed was reached.
    via: Option<usize>,
    /// The first instructions of all blocks, once others than direct branches have led to one.
    starts: Option<BTreeSet<usize>>,
    /// Addresses that instructions of the function name, ascending.
    constants: Option<Vec<u64>>,
}

type Bytes<'m> = &'m dyn Memory;

impl Run<'_> {
    fn follow(&mut self, analysis: &mut Analysis<'_>, memory: Bytes<'_>) -> Result<(), Restart> {
        if let (Some(state), false) = (self.ways.start, analysis.block_at.is_empty()) {
            self.enter(analysis, 0, state);
        }
        for entry in self.ways.entries {
            match analysis.instructions.index_of(entry.offset) {
                Some(index) => self.enter(analysis, index, &entry.state),
                None => {
                    analysis.doubts.insert((Doubt::IntoInstruction, entry.offset));
                }
            }
        }
        loop {
            while let Some(block) = self.waiting.pop() {
                self.block(analysis, block, memory)?;
            }
            let Some((from, to, state)) = self.deferred.pop_front() else { return Ok(()) };
            self.slots_left = self.slots_left.saturating_add(state.num_slots());
            if !analysis.noreturn.contains(&from) {
                self.edge(analysis, Edge { from, to, is_call: true }, &state)?;
            }
        }
    }

    /// Begins at an entry.
    fn enter(&mut self, analysis: &mut Analysis<'_>, index: usize, state: &State) {
        let Some(number) = self.lead(analysis, index) else { return };
        let block = &mut analysis.blocks[number as usize];
        block.via = None;
        let changed = match &mut block.state {
            Some(known) => known.join(analysis.code.arch, state).changed,
            none => {
                *none = Some(Box::new(state.clone()));
                true
            }
        };
        if changed {
            self.wait(block, number);
        }
    }

    /// The block that starts with an instruction. If it was in the middle of another one, that is followed again.
    fn lead(&mut self, analysis: &mut Analysis<'_>, index: usize) -> Option<u32> {
        if analysis.block_at[index] == NONE {
            let all = || analysis.blocks.iter().map(|block| block.first).collect::<BTreeSet<_>>();
            let starts = self.starts.get_or_insert_with(all);
            let around = starts.range(..index).next_back().copied();
            starts.insert(index);
            let around = around.map_or(NONE, |first| analysis.block_at[first]);
            let is_known = |block: &&mut Block| block.state.is_some();
            if let Some(block) = analysis.blocks.get_mut(around as usize).filter(is_known) {
                self.wait(block, around);
            }
        }
        analysis.lead(Some(index))
    }

    /// Takes the memory of a state; false if there is none left.
    fn spend(&mut self, analysis: &mut Analysis<'_>, index: usize, state: &State) -> bool {
        let left = self.slots_left.checked_sub(state.num_slots());
        self.slots_left = left.unwrap_or(0);
        if left.is_none() {
            analysis.doubts.insert((Doubt::TooLarge, analysis.instructions.as_slice()[index].offset));
        }
        left.is_some()
    }

    fn wait(&mut self, block: &mut Block, number: u32) {
        if !block.waits {
            block.waits = true;
            self.waiting.push(number);
        }
    }

    /// Follows a block up to where the next begins.
    fn block(&mut self, analysis: &mut Analysis<'_>, number: u32, memory: Bytes<'_>) -> Result<(), Restart> {
        let block = &mut analysis.blocks[number as usize];
        block.waits = false;
        block.visits = block.visits.saturating_add(1);
        let first = block.first;
        self.via = block.via;
        let Some(state) = block.state.as_deref().filter(|_| block.visits < MAX_VISITS) else {
            analysis.doubts.insert((Doubt::TooLarge, analysis.instructions.as_slice()[first].offset));
            return Ok(());
        };
        let mut state = state.clone();
        let all = analysis.instructions;
        for (index, instruction) in all.as_slice().iter().enumerate().skip(first) {
            if index != first && analysis.block_at[index] != NONE {
                return self.edge(analysis, Edge { from: index - 1, to: index, is_call: false }, &state);
            }
            if !matches!(instruction.flow, Flow::Next) {
                return self.leave(analysis, index, state, memory);
            }
            state.apply(analysis.code.arch, instruction, all.ops(instruction), &mut analysis.context);
        }
        if let Some(last) = all.as_slice().last().filter(|last| !last.is_padding) {
            analysis.doubts.insert((Doubt::FallsOff, last.offset));
        }
        Ok(())
    }

    /// Follows what comes after the last instruction of a block.
    fn leave(
        &mut self,
        analysis: &mut Analysis<'_>,
        index: usize,
        mut state: State,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let all = analysis.instructions;
        let instruction = all.as_slice()[index];
        let arch = analysis.code.arch;
        let before = match instruction.flow {
            Flow::JumpRegister(register) => state.at(register),
            _ => Value::Unknown,
        };
        state.apply(arch, &instruction, all.ops(&instruction), &mut analysis.context);
        match instruction.flow {
            Flow::Next | Flow::Return | Flow::Stop => Ok(()),
            Flow::Call(_) => self.call(analysis, index, state),
            Flow::Branch(target, _) => {
                let mut taken = state.clone();
                taken.branched(instruction.flow, true);
                self.jump(analysis, index, (target, false), &taken)?;
                state.branched(instruction.flow, false);
                self.next(analysis, index, &state)
            }
            Flow::Jump(target) => self.jump(analysis, index, (target, false), &state),
            Flow::JumpRegister(_) => {
                if let Some(address) = analysis.context.address(before) {
                    return self.jump(analysis, index, (Some(Address(address)), false), &state);
                }
                let number = match before {
                    Value::Target(number) | Value::Entry(number) => Some(number),
                    _ => None,
                };
                let table = number.and_then(|number| analysis.context.tables.get(number));
                self.table(analysis, index, table, &state, memory)
            }
            Flow::JumpTable(address) => {
                let size = arch.pointer_size();
                let table = JumpTable::of_addresses(address, size, state.limit());
                self.table(analysis, index, Some(table), &state, memory)
            }
            Flow::JumpMemory => self.table(analysis, index, None, &state, memory),
        }
    }

    fn next(&mut self, analysis: &mut Analysis<'_>, from: usize, state: &State) -> Result<(), Restart> {
        if from + 1 < analysis.block_at.len() {
            return self.edge(analysis, Edge { from, to: from + 1, is_call: false }, state);
        }
        analysis.doubts.insert((Doubt::FallsOff, analysis.instructions.as_slice()[from].offset));
        Ok(())
    }

    /// A call goes on where it returns to, and at its landing pad.
    fn call(&mut self, analysis: &mut Analysis<'_>, index: usize, state: State) -> Result<(), Restart> {
        let offset = analysis.instructions.as_slice()[index].offset;
        let sites = self.ways.call_sites;
        let site = sites.partition_point(|site| site.end <= offset);
        if let Some(site) = sites.get(site).filter(|site| site.start <= offset) {
            let arch = analysis.code.arch;
            let mut landed = state.clone();
            if let (Some(stack), Value::Cfa(own)) = (site.stack, state.get(arch, arch.stack_pointer()))
                && (1..=MAX_ARGUMENTS).contains(&stack.saturating_sub(own))
            {
                landed.set(arch, arch.stack_pointer(), Value::Cfa(stack));
            }
            self.jump(analysis, index, (Some(site.landing_pad), false), &landed)?;
        }
        // One at the end does not return.
        if let Some(to) = analysis.after_padding(index)
            && !analysis.noreturn.contains(&index)
        {
            if !self.spend(analysis, index, &state) {
                return Ok(());
            }
            self.deferred.push_back((index, to, state));
        }
        Ok(())
    }

    /// A jump to a known target, in the function or out of it.
    fn jump(
        &mut self,
        analysis: &mut Analysis<'_>,
        from: usize,
        (target, is_from_table): (Option<Address>, bool),
        state: &State,
    ) -> Result<(), Restart> {
        match target {
            Some(address) if analysis.is_inside(address) => match analysis.index_of(address) {
                Some(to) => self.edge(analysis, Edge { from, to, is_call: false }, state),
                None => {
                    let offset = analysis.instructions.as_slice()[from].offset;
                    analysis.doubts.insert((Doubt::IntoInstruction, offset));
                    Ok(())
                }
            },
            target => {
                analysis.exits.push(Exit { index: from, target, is_from_table });
                Ok(())
            }
        }
    }

    /// A jump through a table, or to an unknown function, before which the frame is gone.
    fn table(
        &mut self,
        analysis: &mut Analysis<'_>,
        from: usize,
        table: Option<JumpTable>,
        state: &State,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let arch = analysis.code.arch;
        let mut found = 0;
        if let Some(table) = table {
            let end = if table.is_limited() { None } else { self.end_of_table(analysis, table.address()) };
            let targets = table.targets(memory, arch.endian());
            for target in targets.take(end.map_or(usize::MAX, |end| table.count_up_to(end))) {
                let is_inside = analysis.is_inside(target) && analysis.index_of(target).is_some();
                if self.entries_left == 0 || (!is_inside && (!table.is_limited() || found == 0)) {
                    break;
                }
                self.entries_left -= 1;
                found += 1;
                self.jump(analysis, from, (Some(target), true), state)?;
            }
        }
        if found == 0 {
            let stack = state.get(arch, arch.stack_pointer());
            if stack == Value::Cfa(-(arch.cfa_offset_at_entry() as i32)) {
                analysis.exits.push(Exit { index: from, target: None, is_from_table: false });
            } else {
                analysis.doubts.insert((Doubt::IndirectJump, analysis.instructions.as_slice()[from].offset));
            }
        }
        Ok(())
    }

    /// The next address after a table that an instruction of the function names: another table, mostly.
    fn end_of_table(&mut self, analysis: &Analysis<'_>, table: u64) -> Option<u64> {
        let constants = self.constants.get_or_insert_with(|| {
            let constant = |op: &Op| match op {
                Op::Constant { value, .. } => Some(*value),
                _ => None,
            };
            let mut all: Vec<_> = analysis.instructions.ops.iter().filter_map(constant).collect();
            all.sort_unstable();
            all
        });
        constants.get(constants.partition_point(|address| *address <= table)).copied()
    }

    /// Brings a state to an instruction.
    fn edge(&mut self, analysis: &mut Analysis<'_>, edge: Edge, state: &State) -> Result<(), Restart> {
        let via = if edge.is_call { Some(edge.from) } else { self.via };
        let Some(number) = self.lead(analysis, edge.to) else { return Ok(()) };
        let is_after = |call: usize| analysis.after_padding(call) == Some(edge.to);
        let block = &analysis.blocks[number as usize];
        let Some(known) = &block.state else {
            if !self.spend(analysis, edge.to, state) {
                return Ok(());
            }
            let block = &mut analysis.blocks[number as usize];
            (block.state, block.via) = (Some(Box::new(state.clone())), via);
            self.wait(block, number);
            return Ok(());
        };
        let arch = analysis.code.arch;
        let mut joined = None;
        let mut result = Joined { changed: false, lost: false };
        if **known != *state {
            let mut both = (**known).clone();
            result = both.join(arch, state);
            joined = Some(both);
        }
        if result.lost && !self.is_last {
            let culprit = match (edge.is_call, block.via, via) {
                (true, ..) => Some(edge.from),
                (false, Some(own), _) if is_after(own) => Some(own),
                (false, own, other) => own.or(other),
            };
            if let Some(call) = culprit {
                analysis.noreturn.insert(call);
                // Nothing follows yet from a call that was about to return.
                return if edge.is_call { Ok(()) } else { Err(Restart) };
            }
            if known.get(arch, arch.stack_pointer()) != state.get(arch, arch.stack_pointer()) {
                analysis.doubts.insert((Doubt::Conflict, analysis.instructions.as_slice()[edge.to].offset));
            }
        }
        let block = &mut analysis.blocks[number as usize];
        if !edge.is_call && block.via != via {
            block.via = None;
        }
        if let Some(joined) = joined.filter(|_| result.changed) {
            block.state = Some(Box::new(joined));
            self.wait(block, number);
        }
        Ok(())
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
