//! The blocks of a function, and the states before them.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::{Analysis, Doubt};
use crate::instruction::Flow;
use crate::instructions::LONG;
use crate::marks::Marks;
use crate::state::State;

/// Limits on the blocks of a function: one block for every 4 bytes, plus 1024, and at most 2^18 in all. The state of
/// a block takes hundreds of bytes. Functions with a million bytes of code stay below the limit.
const MAX_BLOCKS: usize = 1 << 18;
const BLOCKS: (usize, usize) = (4, 1 << 10);

/// Stands for no block, and for no call.
pub(super) const NONE: u32 = u32::MAX;

/// A block is a run of instructions. Jumps lead only to its first instruction.
#[derive(Debug)]
pub(super) struct Block {
    pub first: u32,
    /// The call that execution reached this block through, or [`NONE`]. It is `NONE` once another path has shown that the
    /// call returns.
    pub via: u32,
    /// The state before the first instruction, or `None` if no path leads there. Blocks of a long function share equal
    /// states.
    pub state: Option<Arc<State>>,
}

impl Block {
    fn new(first: usize) -> Self {
        Self { first: first as u32, via: NONE, state: None }
    }
}

/// The numbers of blocks, by their first instructions.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// For each instruction of a short function the number of the block that it starts, or [`NONE`]. This is the fastest.
    all: Vec<u32>,
    /// The blocks that the calls, jumps and branches of the code show.
    shown: Marks,
    /// The blocks that were started later.
    later: BTreeMap<usize, u32>,
}

impl Starts {
    /// Removes all blocks of a function with this number of instructions.
    pub fn clear(&mut self, len: usize) {
        self.all.clear();
        self.all.resize(if len > LONG { 0 } else { len }, NONE);
        self.shown.clear(len);
        self.later.clear();
    }

    /// Returns the number of the block that an instruction starts, or [`NONE`].
    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        if let Some(number) = self.all.get(index) {
            return *number;
        }
        let shown = self.shown.number(index).map(|number| number as u32);
        shown.or_else(|| self.later.get(&index).copied()).unwrap_or(NONE)
    }

    /// Returns the number of the last block that starts at an instruction or before it, or [`NONE`].
    pub fn around(&self, index: usize) -> u32 {
        let shown = self.shown.number_around(index);
        match (shown, self.later.range(..=index).next_back()) {
            (Some(number), Some((first, _))) if *first < self.shown.place(number) => number as u32,
            (_, Some((_, number))) => *number,
            (shown, None) => shown.map_or(NONE, |number| number as u32),
        }
    }
}

/// The states that blocks of a long function share.
#[derive(Debug)]
pub(super) struct Pool {
    states: HashSet<Arc<State>>,
    /// The memory of the states, in bytes, and the most that they may take.
    memory: usize,
    max: usize,
    is_full: bool,
}

impl Pool {
    /// Limits on the memory of the different states that blocks of a long function have at a time: 5 bytes for every byte,
    /// plus a mebibyte. Compiled functions have at most one state for every 149 bytes.
    const MEMORY: (usize, usize) = (5, 1 << 20);

    /// Makes a pool for a function with this number of bytes. The result is `None` for a short function.
    pub fn new(len: usize) -> Option<Self> {
        let max = len.saturating_mul(Self::MEMORY.0).saturating_add(Self::MEMORY.1);
        (len > LONG).then(|| Self { states: HashSet::new(), memory: 0, max, is_full: false })
    }

    /// Returns the shared state that equals a state. The result is `None` if the states take too much memory.
    pub fn share(&mut self, state: &State) -> Option<Arc<State>> {
        if let Some(known) = self.states.get(state) {
            return Some(Arc::clone(known));
        }
        // Now and then, states that no block has any more are removed.
        if self.memory > self.max && !self.is_full {
            self.states.retain(|state| Arc::strong_count(state) > 1);
            self.memory = self.states.iter().map(|state| state.memory()).sum();
            self.is_full = self.memory > self.max / 4 * 3;
        }
        self.memory += state.memory();
        let shared = (!self.is_full).then(|| Arc::new(state.clone()))?;
        self.states.insert(Arc::clone(&shared));
        Some(shared)
    }
}

impl Analysis<'_> {
    /// Starts the blocks that the calls, jumps and branches of the code show.
    pub(super) fn start_blocks(&mut self) {
        let all = self.instructions;
        self.starts.clear(all.len());
        let mut steps = all.steps(0);
        while let Some((first, instructions, _)) = steps.next_slice() {
            for (index, instruction) in (first..).zip(instructions) {
                self.mark_blocks(index, instruction.flow);
            }
        }
        let count = self.starts.shown.count(self.max_blocks());
        self.blocks.reserve_exact(count);
        let Starts { all, shown, .. } = &mut self.starts;
        for (number, first) in (0..).zip(shown.places()) {
            all.get_mut(first).into_iter().for_each(|known| *known = number);
            self.blocks.push(Block::new(first));
        }
    }

    /// Marks the first instructions of the blocks that an instruction with this flow shows.
    #[inline]
    fn mark_blocks(&mut self, index: usize, flow: Flow) {
        let all = self.instructions;
        let starts = match flow {
            Flow::Call(_) => [all.after_padding(index), all.returns_to(index)],
            Flow::Branch(target, _) => {
                let next = Some(index + 1).filter(|next| *next < all.len());
                [target.and_then(|target| self.index_of(target)), next]
            }
            Flow::Jump(target) => [target.and_then(|target| self.index_of(target)), None],
            Flow::Next
            | Flow::JumpRegister(_)
            | Flow::JumpMemory
            | Flow::JumpTable(..)
            | Flow::Return
            | Flow::Stop => return,
        };
        starts.into_iter().flatten().for_each(|first| self.starts.shown.mark(first));
    }

    fn max_blocks(&self) -> usize {
        MAX_BLOCKS.min(self.code.bytes.len() / BLOCKS.0 + BLOCKS.1)
    }

    /// Removes all blocks, and gives their memory back for other functions.
    pub(super) fn give_back(&mut self) {
        self.instructions.spare.give(self.blocks.drain(..).filter_map(|block| block.state));
    }

    /// Makes an instruction the first instruction of a block, and returns the block's number. The result is `None` if there
    /// are too many blocks.
    pub(super) fn start_block(&mut self, first: usize) -> Option<u32> {
        if self.blocks.len() >= self.max_blocks() {
            self.doubts.insert((Doubt::TooLarge, 0));
            return None;
        }
        let number = self.blocks.len() as u32;
        self.starts.later.insert(first, number);
        self.starts.all.get_mut(first).into_iter().for_each(|known| *known = number);
        self.blocks.push(Block::new(first));
        Some(number)
    }
}
