//! Does the work of an analysis: follows block after block until no state changes any more.

mod calls;
mod tables;

use std::collections::VecDeque;
use std::sync::Arc;

use cfipack_format::Address;

use super::blocks::{NONE, Pool};
use super::{Analysis, Doubt, Exit, Ways};
use crate::instruction::{Flow, Instruction, Op, Special};
use crate::state::{Loss, State};
use crate::table::{JumpTable, Memory};
use crate::value::Value;

/// The most times that a block is followed. Each time, less is known about its state.
const MAX_VISITS: u8 = 40;
/// Limits on the entries of jump tables that a function may read: 4 for each byte of the function, plus 1024.
const TABLE_ENTRIES: (usize, usize) = (4, 1 << 10);
/// The most bytes of arguments that we believe an unwinder removes before it enters a landing pad.
const MAX_ARGUMENTS: i32 = 1 << 10;
/// Limits on the stack slots that all states of a function remember: 4 for each byte of the function, plus 16384.
const SLOTS: (usize, usize) = (4, 1 << 14);

/// A path from one instruction to another.
struct Edge {
    from: usize,
    to: usize,
    is_call: bool,
}

/// A call that does not return was found, so the analysis has to start over.
pub(super) struct Restart;

/// The work that is left to do, and the budgets that limit it.
pub(super) struct Run<'w> {
    entries_left: usize,
    slots_left: usize,
    waiting: Vec<u32>,
    /// Calls with the states after them. They are followed last, because a call may turn out not to return.
    deferred: VecDeque<(u32, u32, Arc<State>)>,
    /// For each block how often it was followed, and whether it waits.
    progress: Vec<(u8, bool)>,
    /// States that are no longer in use. Their memory is reused.
    spare: Vec<Arc<State>>,
    pool: Option<Pool>,
    ways: Ways<'w>,
    /// True in the last restart: no further call is found not to return.
    is_last: bool,
    /// The call through which the current block was reached, or [`NONE`].
    via: u32,
    /// Addresses that instructions of the function mention, ascending.
    constants: Option<Vec<u64>>,
}

type Bytes<'m> = &'m dyn Memory;

impl<'w> Run<'w> {
    pub(super) fn new(analysis: &Analysis<'_>, ways: Ways<'w>, is_last: bool) -> Self {
        let code = &analysis.code;
        Self {
            entries_left: code.bytes.len().saturating_mul(TABLE_ENTRIES.0) + TABLE_ENTRIES.1,
            slots_left: code.bytes.len().saturating_mul(SLOTS.0) + SLOTS.1,
            waiting: Vec::new(),
            deferred: VecDeque::new(),
            progress: vec![(0, false); analysis.blocks.len()],
            spare: Vec::new(),
            pool: Pool::new(code.bytes.len()),
            ways,
            is_last,
            via: NONE,
            constants: None,
        }
    }
}

impl Run<'_> {
    /// Follows every path from the entries.
    pub(super) fn follow(&mut self, analysis: &mut Analysis<'_>, memory: Bytes<'_>) -> Result<(), Restart> {
        self.spare = analysis.instructions.spare.take();
        let result = self.follow_all(analysis, memory);
        analysis.instructions.spare.give_back(std::mem::take(&mut self.spare));
        result
    }

    fn follow_all(&mut self, analysis: &mut Analysis<'_>, memory: Bytes<'_>) -> Result<(), Restart> {
        if let (Some(state), false) = (self.ways.start, analysis.instructions.is_empty()) {
            self.enter(analysis, 0, state);
        }
        for entry in self.ways.entries {
            match analysis.instructions.index_of(entry.offset) {
                Some(index) => self.enter(analysis, index, entry.state),
                None => {
                    analysis.doubts.insert((Doubt::IntoInstruction, entry.offset));
                }
            }
        }
        loop {
            while let Some(block) = self.waiting.pop() {
                self.follow_block(analysis, block, memory)?;
            }
            let Some((from, to, state)) = self.deferred.pop_front() else { return Ok(()) };
            let (from, mut to) = (from as usize, to as usize);
            self.slots_left = self.slots_left.saturating_add(state.num_slots());
            let edge = |to| Edge { from, to, is_call: true };
            // The code after padding shows first whether the call returns.
            let padding = analysis.returns_to(from).filter(|first| *first != to);
            if let Some(first) = padding.filter(|_| !analysis.noreturn.contains(&from)) {
                self.bring(analysis, edge(to), &state)?;
                to = first;
            }
            if !analysis.noreturn.contains(&from) {
                self.bring_last(analysis, edge(to), state)?;
            }
        }
    }

    /// Begins at an entry.
    fn enter(&mut self, analysis: &mut Analysis<'_>, index: usize, state: &State) {
        let Some(number) = self.block_at(analysis, index) else { return };
        let block = &mut analysis.blocks[number as usize];
        block.via = NONE;
        let Some(known) = &block.state else {
            let state = self.copied(state);
            return self.begin_block(analysis, number, state, NONE);
        };
        let loss = known.loss(state);
        if loss.is_any() {
            self.weaken(analysis, number, loss, state);
        }
    }

    /// Stores the first state of a block.
    fn begin_block(&mut self, analysis: &mut Analysis<'_>, number: u32, state: Arc<State>, via: u32) {
        analysis.blocks[number as usize].via = via;
        self.change(analysis, number, state);
    }

    /// Joins the state of a block with another state.
    fn weaken(&mut self, analysis: &mut Analysis<'_>, number: u32, loss: Loss, other: &State) {
        let Some(state) = &mut analysis.blocks[number as usize].state else { return };
        if let Some(own) = Arc::get_mut(state) {
            own.lose(loss, other);
            self.enqueue(number);
        } else {
            let mut state = self.copied(state);
            Arc::make_mut(&mut state).lose(loss, other);
            self.change(analysis, number, state);
        }
    }

    /// Stores a state of a block, which is then followed.
    fn change(&mut self, analysis: &mut Analysis<'_>, number: u32, state: Arc<State>) {
        let stored = self.stored(state);
        if stored.is_none() {
            self.progress[number as usize].0 = MAX_VISITS;
        }
        analysis.blocks[number as usize].state = stored;
        self.enqueue(number);
    }

    /// Stores a state. Returns `None` if the function has too many different states.
    fn stored(&mut self, state: Arc<State>) -> Option<Arc<State>> {
        let Some(pool) = &mut self.pool else { return Some(state) };
        let shared = pool.share(&state);
        self.recycle(state);
        shared
    }

    /// Keeps the memory of a state that is no longer in use.
    fn recycle(&mut self, state: Arc<State>) {
        if Arc::strong_count(&state) == 1 {
            self.spare.push(state);
        }
    }

    /// Returns the block that starts with an instruction. If the instruction lies in the middle of a block that was
    /// followed already, the larger block is followed again, up to here.
    #[inline]
    fn block_at(&mut self, analysis: &mut Analysis<'_>, index: usize) -> Option<u32> {
        let known = analysis.starts.get(index);
        if known != NONE {
            return Some(known);
        }
        let around = analysis.starts.around(index);
        if analysis.blocks.get(around as usize).is_some_and(|block| block.state.is_some()) {
            self.enqueue(around);
        }
        let number = analysis.start_block(index)?;
        self.progress.push((0, false));
        Some(number)
    }

    /// Reserves memory for a state. Returns false if the function has used up its budget.
    fn spend(&mut self, analysis: &mut Analysis<'_>, index: usize, state: &State) -> bool {
        let left = self.slots_left.checked_sub(state.num_slots());
        self.slots_left = left.unwrap_or(0);
        if left.is_none() {
            analysis.doubts.insert((Doubt::TooLarge, analysis.instructions.offset(index)));
        }
        left.is_some()
    }

    fn enqueue(&mut self, number: u32) {
        if !std::mem::replace(&mut self.progress[number as usize].1, true) {
            self.waiting.push(number);
        }
    }

    /// Follows a block to its end.
    fn follow_block(
        &mut self,
        analysis: &mut Analysis<'_>,
        number: u32,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let block = &analysis.blocks[number as usize];
        let (visits, waits) = &mut self.progress[number as usize];
        (*visits, *waits) = (visits.saturating_add(1), false);
        let first = block.first as usize;
        self.via = block.via;
        let Some(state) = block.state.as_deref().filter(|_| *visits < MAX_VISITS) else {
            analysis.doubts.insert((Doubt::TooLarge, analysis.instructions.offset(first)));
            return Ok(());
        };
        let state = self.copied(state);
        self.follow_instructions(analysis, first, state, memory)
    }

    /// Copies a state into spare memory.
    fn copied(&mut self, state: &State) -> Arc<State> {
        match self.spare.pop() {
            Some(mut copy) => {
                Arc::make_mut(&mut copy).clone_from(state);
                copy
            }
            None => Arc::new(state.clone()),
        }
    }

    /// Follows the instructions of a block.
    fn follow_instructions(
        &mut self,
        analysis: &mut Analysis<'_>,
        first: usize,
        mut state: Arc<State>,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let known = Arc::make_mut(&mut state);
        let all = analysis.instructions;
        let mut steps = all.steps(first);
        while let Some((next, instructions, ops)) = steps.next_slice() {
            for (index, instruction) in (next..).zip(instructions) {
                if index != first && analysis.is_start(index) {
                    let edge = Edge { from: index - 1, to: index, is_call: false };
                    return self.bring_last(analysis, edge, state);
                }
                if !matches!(instruction.flow, Flow::Next) {
                    return self.follow_flow(analysis, (index, instruction, ops), state, memory);
                }
                known.apply(analysis.code.arch, instruction, instruction.effects(ops), &mut analysis.context);
            }
        }
        // A system call that is the function's last instruction does not return, like such a call of a function.
        let stays = |last: &Instruction| matches!(last.special, Special::SystemCall | Special::Halt);
        let falls_off = |last: &Instruction| !last.is_padding && !stays(last);
        if let Some(last) = all.get(all.len().wrapping_sub(1)).filter(falls_off) {
            analysis.doubts.insert((Doubt::FallsOff, last.offset));
        }
        self.recycle(state);
        Ok(())
    }

    /// Follows the paths that leave the last instruction of a block.
    fn follow_flow(
        &mut self,
        analysis: &mut Analysis<'_>,
        (index, instruction, ops): (usize, &Instruction, &[Op]),
        mut state: Arc<State>,
        memory: Bytes<'_>,
    ) -> Result<(), Restart> {
        let arch = analysis.code.arch;
        if let Flow::Call(Some(target)) = instruction.flow
            && target != analysis.code.start
            && analysis.is_inside(target)
        {
            analysis.calls_itself = true;
            let mut called = self.copied(&state);
            Arc::make_mut(&mut called).enter_call(arch);
            let result = self.follow_jump(analysis, index, (Some(target), false), &called);
            self.recycle(called);
            result?;
        }
        Arc::make_mut(&mut state).apply(arch, instruction, instruction.effects(ops), &mut analysis.context);
        let target = match instruction.flow {
            Flow::JumpRegister(register) => state.at(register),
            _ => Value::Unknown,
        };
        let result = match instruction.flow {
            // The bytes are no code, so the call on the way here does not return.
            Flow::Stop if instruction.special == Special::Cut && !self.is_last && self.via != NONE => {
                analysis.noreturn.insert(self.via as usize);
                Err(Restart)
            }
            Flow::Next | Flow::Return | Flow::Stop => Ok(()),
            Flow::Call(_) => return self.follow_call(analysis, index, state),
            Flow::Branch(target, _) if state.is_told_by(instruction.flow) => {
                if !state.excludes(arch, instruction.flow, true) {
                    let mut taken = self.copied(&state);
                    Arc::make_mut(&mut taken).branched(instruction.flow, true);
                    let result = self.follow_jump(analysis, index, (target, false), &taken);
                    self.recycle(taken);
                    result?;
                }
                if !state.excludes(arch, instruction.flow, false) {
                    Arc::make_mut(&mut state).branched(instruction.flow, false);
                    return self.follow_next(analysis, index, state);
                }
                Ok(())
            }
            Flow::Branch(target, _) => {
                self.follow_jump(analysis, index, (target, false), &state)?;
                return self.follow_next(analysis, index, state);
            }
            Flow::Jump(target) => self.follow_jump(analysis, index, (target, false), &state),
            // The code has popped its return address: clang returns in this way with `-mlvi-hardening`.
            Flow::JumpRegister(_) if target == Value::Caller(arch.return_address()) => Ok(()),
            Flow::JumpRegister(_) => match analysis.context.address(target) {
                Some(address) => self.follow_jump(analysis, index, (Some(Address(address)), false), &state),
                None => {
                    let number = match target {
                        Value::Target(number) | Value::Entry(number) => Some(number),
                        _ => None,
                    };
                    let table = number.and_then(|number| analysis.context.tables.get(number));
                    self.follow_table(analysis, index, table, &state, memory)
                }
            },
            Flow::JumpTable(address) => {
                let size = arch.pointer_size();
                let table = JumpTable::of_addresses(address, size, state.limit());
                self.follow_table(analysis, index, Some(table), &state, memory)
            }
            Flow::JumpMemory => self.follow_table(analysis, index, None, &state, memory),
        };
        self.recycle(state);
        result
    }

    fn follow_next(
        &mut self,
        analysis: &mut Analysis<'_>,
        from: usize,
        state: Arc<State>,
    ) -> Result<(), Restart> {
        if from + 1 < analysis.instructions.len() {
            return self.bring_last(analysis, Edge { from, to: from + 1, is_call: false }, state);
        }
        self.recycle(state);
        analysis.doubts.insert((Doubt::FallsOff, analysis.instructions.offset(from)));
        Ok(())
    }

    /// Follows a jump to a known target inside or outside of the function.
    fn follow_jump(
        &mut self,
        analysis: &mut Analysis<'_>,
        from: usize,
        (target, is_from_table): (Option<Address>, bool),
        state: &State,
    ) -> Result<(), Restart> {
        match target {
            Some(address) if analysis.is_inside(address) => match analysis.index_of(address) {
                Some(to) => self.bring(analysis, Edge { from, to, is_call: false }, state),
                None => {
                    let offset = analysis.instructions.offset(from);
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

    /// Brings a state to an instruction. The caller does not need the state any more.
    fn bring_last(
        &mut self,
        analysis: &mut Analysis<'_>,
        edge: Edge,
        state: Arc<State>,
    ) -> Result<(), Restart> {
        let Some(number) = self.block_at(analysis, edge.to) else { return Ok(()) };
        if analysis.blocks[number as usize].state.is_none() {
            if self.spend(analysis, edge.to, &state) {
                let via = if edge.is_call { edge.from as u32 } else { self.via };
                self.begin_block(analysis, number, state, via);
            }
            return Ok(());
        }
        let result = self.bring(analysis, edge, &state);
        self.recycle(state);
        result
    }

    /// Brings a state to an instruction: the first state is stored, and a later state is joined with it.
    ///
    /// If the states contradict each other, a call on one of the paths does not return. Then this function notes the
    /// call and asks for a restart.
    fn bring(&mut self, analysis: &mut Analysis<'_>, edge: Edge, state: &State) -> Result<(), Restart> {
        let via = if edge.is_call { edge.from as u32 } else { self.via };
        let Some(number) = self.block_at(analysis, edge.to) else { return Ok(()) };
        let block = &analysis.blocks[number as usize];
        let Some(known) = &block.state else {
            if !self.spend(analysis, edge.to, state) {
                return Ok(());
            }
            let state = self.copied(state);
            self.begin_block(analysis, number, state, via);
            return Ok(());
        };
        let arch = analysis.code.arch;
        let loss = known.loss(state);
        if loss.is_any() && !self.is_last && known.is_grave(arch, loss, state) {
            let culprit = match (edge.is_call, block.via) {
                (true, _) => edge.from as u32,
                (false, NONE) => via,
                (false, own) => own,
            };
            if culprit != NONE {
                analysis.noreturn.insert(culprit as usize);
                // The call has not been followed yet, so nothing depends on it.
                return if edge.is_call { Ok(()) } else { Err(Restart) };
            }
            if known.get(arch, arch.stack_pointer()) != state.get(arch, arch.stack_pointer()) {
                analysis.doubts.insert((Doubt::Conflict, analysis.instructions.offset(edge.to)));
            }
        }
        let block = &mut analysis.blocks[number as usize];
        if !edge.is_call && block.via != via {
            block.via = NONE;
        }
        if loss.is_any() {
            self.weaken(analysis, number, loss, state);
        }
        Ok(())
    }
}
