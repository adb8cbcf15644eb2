//! The blocks of a function, and the states before them.

use std::collections::{BTreeMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use super::{Analysis, Doubt};
use crate::instruction::Flow;
use crate::instructions::LONG;
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
    /// The state before the first instruction, or `None` if no path leads there.
    pub state: Option<Stored>,
    pub visits: u8,
    pub waits: bool,
}

/// The numbers of blocks, by their first instructions.
#[derive(Debug, Default)]
pub(super) struct Starts {
    /// For each instruction of a short function the number of the block that it starts, or [`NONE`].
    all: Vec<u32>,
    /// The blocks of a long function.
    sparse: BTreeMap<usize, u32>,
}

impl Starts {
    /// Removes all blocks of a function with this number of instructions.
    pub fn clear(&mut self, len: usize) {
        self.all.clear();
        self.all.resize(if len > LONG { 0 } else { len }, NONE);
        self.sparse.clear();
    }

    /// Returns the number of the block that an instruction starts, or [`NONE`].
    #[inline]
    pub fn get(&self, index: usize) -> u32 {
        match self.all.get(index) {
            Some(number) => *number,
            None => self.sparse.get(&index).copied().unwrap_or(NONE),
        }
    }

    pub fn set(&mut self, index: usize, number: u32) {
        match self.all.get_mut(index) {
            Some(known) => *known = number,
            None => {
                self.sparse.insert(index, number);
            }
        }
    }

    /// Returns the number of the last block that starts at an instruction or before it, or [`NONE`].
    pub fn around(&self, index: usize) -> u32 {
        let all = self.all.iter().take(index + 1).rfind(|number| **number != NONE);
        all.or_else(|| Some(self.sparse.range(..=index).next_back()?.1)).copied().unwrap_or(NONE)
    }
}

/// A state before a block. Blocks of a long function share equal states.
#[derive(Debug)]
pub(super) enum Stored {
    Own(Box<State>),
    Shared(Arc<State>),
}

impl Deref for Stored {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        match self {
            Self::Own(state) => state,
            Self::Shared(state) => state,
        }
    }
}

/// The states that blocks of a long function share.
#[derive(Debug)]
pub(super) struct Pool {
    states: HashSet<Arc<State>>,
    max: usize,
    is_full: bool,
}

impl Pool {
    /// Limits on the different states that blocks of a long function have at a time: one for every 8 bytes, plus 4096.
    /// A function that puts a number into a register, and calls after a branch, has one for every 12 bytes.
    const STATES: (usize, usize) = (8, 1 << 12);

    /// Makes a pool for a function with this number of bytes. The result is `None` for a short function.
    pub fn new(len: usize) -> Option<Self> {
        let max = len / Self::STATES.0 + Self::STATES.1;
        (len > LONG).then(|| Self { states: HashSet::new(), max, is_full: false })
    }

    /// Returns the shared state that equals a state. The result is `None` if there are too many states.
    pub fn share(&mut self, state: &State) -> Option<Stored> {
        if let Some(known) = self.states.get(state) {
            return Some(Stored::Shared(Arc::clone(known)));
        }
        // Now and then, states that no block has any more are removed.
        if self.states.len() >= 2 * self.max && !self.is_full {
            self.states.retain(|state| Arc::strong_count(state) > 1);
            self.is_full = self.states.len() > self.max;
        }
        let shared = (!self.is_full).then(|| Arc::new(state.clone()))?;
        self.states.insert(Arc::clone(&shared));
        Some(Stored::Shared(shared))
    }
}

impl Analysis<'_> {
    /// Starts the blocks that an instruction with this flow shows.
    #[inline]
    pub(super) fn start_blocks(&mut self, index: usize, flow: Flow) {
        let all = self.instructions;
        let (target, ends) = match flow {
            Flow::Branch(target, _) => (target, true),
            Flow::Jump(target) => (target, false),
            Flow::Call(_) => {
                self.start_block(all.after_padding(index));
                self.start_block(all.returns_to(index));
                return;
            }
            Flow::Next
            | Flow::JumpRegister(_)
            | Flow::JumpMemory
            | Flow::JumpTable(..)
            | Flow::Return
            | Flow::Stop => return,
        };
        self.start_block(target.and_then(|target| self.index_of(target)));
        self.start_block(ends.then_some(index + 1).filter(|next| *next < all.len()));
    }

    /// Removes all blocks, and gives their memory back for other functions.
    pub(super) fn give_back(&mut self) {
        let own = self.blocks.drain(..).filter_map(|block| match block.state {
            Some(Stored::Own(state)) => Some(state),
            Some(Stored::Shared(_)) | None => None,
        });
        self.instructions.spare.give(own);
    }

    /// Makes an instruction the first instruction of a block, and returns the block's number.
    pub(super) fn start_block(&mut self, first: Option<usize>) -> Option<u32> {
        let first = first?;
        let known = self.starts.get(first);
        if known != NONE {
            return Some(known);
        }
        if self.blocks.len() >= MAX_BLOCKS.min(self.code.bytes.len() / BLOCKS.0 + BLOCKS.1) {
            self.doubts.insert((Doubt::TooLarge, 0));
            return None;
        }
        let number = self.blocks.len() as u32;
        self.starts.set(first, number);
        self.blocks.push(Block { first: first as u32, via: NONE, state: None, visits: 0, waits: false });
        Some(number)
    }
}
