//! The decoded instructions of a function.

mod long;

use std::borrow::Cow;
use std::collections::VecDeque;

use cfipack_format::{Address, Arch, Register};

use self::long::Long;
pub(crate) use self::long::Steps;
use crate::decoding::{Decoding, is_lock};
use crate::instruction::{Flow, Instruction, Op, REGISTERS, Special, index_of};
use crate::marks::Marks;
use crate::spare::Spare;

/// How often a function is decoded again because a branch leads into an instruction.
const MAX_CUTS: usize = 4;

/// The instructions of functions with more bytes of code than this are not stored. They would take 70 bytes each.
pub(crate) const LONG: usize = 1 << 16;

/// The code of a function.
#[derive(Clone, Copy)]
pub struct Code<'c> {
    /// The architecture.
    pub arch: Arch,
    /// The address of the first byte.
    pub start: Address,
    /// The machine code, from the first byte of the function to its end.
    pub bytes: &'c [u8],
    /// Offsets of fields that relocations change, in bytes from the function's start, ascending. The analysis does
    /// not use the values in these fields. In a linked file the slice is empty.
    pub relocated: &'c [u32],
}

/// The instructions of a function, in memory order.
#[derive(Debug, Default)]
pub struct Instructions {
    /// The instructions and their effects. Both lists are empty for a long function.
    list: Vec<Instruction>,
    ops: Vec<Op>,
    long: Option<Long>,
    len: usize,
    /// Memory of states that earlier functions have given back.
    pub(crate) spare: Spare,
    /// The offsets where instructions start.
    starts: Marks,
    /// For each 64 bytes of code: a bit for each byte where padding starts. It depends on the instructions before.
    padding: Vec<u64>,
}

impl std::fmt::Debug for Code<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("arch", &self.arch).field("start", &self.start).finish_non_exhaustive()
    }
}

impl Code<'_> {
    /// Returns the offset of an address in the code, or `None` if the address is outside.
    pub(crate) fn offset_of(&self, address: Address) -> Option<u32> {
        let offset = address.0.wrapping_sub(self.start.0);
        u32::try_from(offset).ok().filter(|_| offset < self.bytes.len() as u64)
    }

    /// Returns whether a relocation changes one of the `len` bytes from `offset` on.
    pub(crate) fn is_relocated(&self, offset: usize, len: usize) -> bool {
        let next = self.relocated.partition_point(|field| (*field as usize) < offset);
        self.relocated.get(next).is_some_and(|field| (*field as usize) < offset + len)
    }
}

impl Instructions {
    /// Decodes a function. Bytes that the disassembler does not know become instructions with
    /// [`is_unknown`](Instruction::is_unknown) set.
    pub fn new(code: &Code<'_>) -> Self {
        let mut instructions = Self::default();
        instructions.decode(code);
        instructions
    }

    /// Decodes another function and reuses the memory. Call this in a loop over functions.
    ///
    /// Instructions are decoded one after the other. Bytes that are no code, for example after a call that never
    /// returns, can hide the start of the next instruction. So an instruction also starts at the target of a branch
    /// that execution reaches, and the bytes before the target are cut off.
    ///
    /// The instructions of a function with more than 64 KB of code are not stored. They are decoded again each time that you
    /// ask for them.
    pub fn decode(&mut self, code: &Code<'_>) {
        let Code { arch, start, bytes, relocated } = *code;
        self.long = (bytes.len() > LONG).then(|| Long {
            arch,
            start,
            bytes: bytes.to_vec(),
            relocated: relocated.to_vec(),
            cuts: Vec::new(),
        });
        let mut starts = Vec::new();
        self.decode_from(code, &starts);
        for _ in 0..MAX_CUTS {
            let hidden = self.hidden_targets(code);
            if hidden.is_empty() {
                break;
            }
            starts.extend(hidden);
            starts.sort_unstable();
            self.decode_from(code, &starts);
        }
    }

    /// Returns the targets of reached branches that lie inside instructions that nothing has reached.
    fn hidden_targets(&self, code: &Code<'_>) -> Vec<u32> {
        let hidden = |instruction: &Instruction| match instruction.flow {
            Flow::Branch(Some(target), _) | Flow::Jump(Some(target)) => {
                code.offset_of(target).filter(|offset| self.index_of(*offset).is_none())
            }
            _ => None,
        };
        let mut found = Vec::new();
        if self.iter().all(|instruction| hidden(&instruction).is_none()) {
            return found;
        }
        let mut seen = Marks::new(self.len);
        let (mut waiting, mut calls) = (vec![0], VecDeque::new());
        // A call may never return, so the code after calls comes last.
        while let Some(index) = waiting.pop().or_else(|| calls.pop_front()) {
            let Some(instruction) = self.get(index) else { continue };
            if seen.contains(index) {
                continue;
            }
            seen.mark(index);
            let (flow, next) = (instruction.flow, index + 1);
            match flow {
                Flow::Call(_) => calls.push_back(next),
                _ if flow.falls_through() => waiting.push(next),
                _ => {}
            }
            if let Some(offset) = hidden(&instruction) {
                let around = self.index_around(offset).filter(|around| seen.contains(*around));
                let before = around.map(|around| &code.bytes[self.offset(around) as usize..offset as usize]);
                if before.is_none_or(is_lock) {
                    found.push(offset);
                }
            } else if let Flow::Branch(Some(target), _) | Flow::Jump(Some(target)) = flow {
                waiting.extend(code.offset_of(target).and_then(|offset| self.index_of(offset)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Decodes a function. An instruction starts at each of the offsets `cuts`, which ascend.
    fn decode_from(&mut self, code: &Code<'_>, cuts: &[u32]) {
        self.list.clear();
        self.ops.clear();
        self.starts.clear(code.bytes.len());
        self.padding.clear();
        self.padding.resize(code.bytes.len().div_ceil(64), 0);
        let mut decoding = Decoding::new(*code, cuts, 0);
        if let Some(long) = &mut self.long {
            long.cuts = cuts.to_vec();
        }
        while let Some(instruction) = decoding.next(&mut self.ops) {
            let offset = instruction.offset as usize;
            self.starts.mark(offset);
            self.padding[offset / 64] |= u64::from(instruction.is_padding) << (offset % 64);
            match &self.long {
                None => self.list.push(instruction),
                Some(_) => self.ops.clear(),
            }
        }
        self.len = self.starts.count(usize::MAX);
    }

    /// Returns the constants that instructions put into registers, each with the index of its instruction. A constant
    /// can be an address, for example of `lea` or of `adrp` and `add`. This function reads the instructions in memory
    /// order and follows no jumps, so a constant can be wrong where paths join.
    pub fn constants(&self) -> impl Iterator<Item = (usize, u64)> {
        // The values of registers, and a bit for each register whose value is known.
        let (mut values, mut known) = ([0_u64; REGISTERS], 0);
        let mut steps = self.steps(0);
        std::iter::from_fn(move || {
            steps.next().map(|(index, instruction, ops)| {
                let before = known;
                known &= !instruction.affects;
                let value_of = |op: &Op| match *op {
                    Op::Constant { to, value } => Some((to, value)),
                    Op::Set { to, from, add } if before & (1 << from) != 0 => {
                        Some((to, values[usize::from(from)].wrapping_add_signed(add.into())))
                    }
                    _ => None,
                };
                // Of an instruction with two results, the last counts.
                let (to, value) = instruction.effects(ops).iter().rev().find_map(value_of)?;
                values[usize::from(to)] = value;
                known |= 1 << to;
                Some((index, value))
            })
        })
        .flatten()
    }

    /// Returns whether execution runs from the instruction before an offset to the instruction there.
    pub fn falls_into(&self, offset: u32) -> bool {
        let before = self.index_of(offset).and_then(|index| index.checked_sub(1));
        before.is_some_and(|before| {
            let flow = self.at(before).flow;
            flow.falls_through() || matches!(flow, Flow::Call(_))
        })
    }

    /// Returns the next instruction after `index` that is not padding.
    pub(crate) fn after_padding(&self, index: usize) -> Option<usize> {
        if self.list.get(index + 1).is_some_and(|next| !next.is_padding) {
            return Some(index + 1);
        }
        if index + 1 >= self.len {
            return None;
        }
        self.starts.next_without(self.offset(index + 1) as usize, &self.padding)
    }

    /// Returns the index of the instruction that a call at `index` returns to. It can be padding that does nothing, but not
    /// padding that traps, because compilers put traps only after calls that do not return. The result is `None` if all
    /// instructions after the call are padding.
    pub(crate) fn returns_to(&self, index: usize) -> Option<usize> {
        let solid = self.after_padding(index)?;
        if solid == index + 1 {
            return Some(solid);
        }
        let mut padding = self.iter_from(index + 1).take(solid - index - 1);
        Some(if padding.all(|padding| padding.flow == Flow::Next) { index + 1 } else { solid })
    }

    /// Returns the number of instructions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the instructions in memory order.
    pub fn iter(&self) -> impl Iterator<Item = Instruction> {
        self.iter_from(0)
    }

    /// Iterates over the instructions in memory order, from an index on.
    #[inline]
    pub fn iter_from(&self, first: usize) -> impl Iterator<Item = Instruction> {
        let mut steps = self.steps(first);
        std::iter::from_fn(move || steps.next().map(|(_, instruction, _)| *instruction))
    }

    /// Reads the instructions in memory order, from an index on.
    #[inline]
    pub(crate) fn steps(&self, first: usize) -> Steps<'_> {
        Steps { all: self, next: first, decoded: None }
    }

    /// Returns an instruction by its index, or `None` if there are fewer instructions.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Instruction> {
        match &self.long {
            None => self.list.get(index).copied(),
            Some(_) => self.iter_from(index).next(),
        }
    }

    /// Returns an instruction by its index. Prefer [`iter`](Self::iter) for many.
    ///
    /// # Panics
    /// There is no instruction with this index.
    #[inline]
    pub fn at(&self, index: usize) -> Instruction {
        self.get(index).expect("an instruction has this index")
    }

    /// Returns the offset of the instruction with an index, in bytes from the function's start.
    ///
    /// # Panics
    /// There is no instruction with this index.
    #[inline]
    pub fn offset(&self, index: usize) -> u32 {
        match self.list.get(index) {
            Some(instruction) => instruction.offset,
            None => self.select(index),
        }
    }

    #[cold]
    fn select(&self, index: usize) -> u32 {
        assert!(index < self.len, "an instruction has this index");
        self.starts.place(index) as u32
    }

    /// Returns the known effects of an instruction.
    pub(crate) fn ops(&self, instruction: &Instruction) -> Cow<'_, [Op]> {
        if self.long.is_none() {
            return Cow::Borrowed(instruction.effects(&self.ops));
        }
        let index = self.index_of(instruction.offset);
        let mut steps = index.map(|index| self.steps(index));
        let decoded = steps.as_mut().and_then(|steps| steps.next());
        Cow::Owned(decoded.map_or_else(Vec::new, |(_, instruction, ops)| instruction.effects(ops).to_vec()))
    }

    /// Returns whether the function signs return addresses with key B, or else with key A. Returns `None` if it signs none,
    /// or not all with the same key and the stack pointer.
    pub(crate) fn signs_by_b(&self) -> Option<bool> {
        let (mut steps, mut first) = (self.steps(0), None);
        while let Some((_, instruction, ops)) = steps.next() {
            if !instruction.effects(ops).contains(&Op::Sign) {
                continue;
            }
            let key_b = match instruction.special {
                Special::No => false,
                Special::SigningByB => true,
                _ => return None,
            };
            if *first.get_or_insert(key_b) != key_b {
                return None;
            }
        }
        first
    }

    /// Returns whether an instruction gives a register a new value.
    pub fn changes(&self, instruction: &Instruction, arch: Arch, register: Register) -> bool {
        let Some(index) = index_of(arch, register) else { return false };
        instruction.affects & (1 << index) != 0
    }

    /// Returns the index of the instruction that starts at an offset in bytes, or `None` if no instruction starts
    /// there.
    pub fn index_of(&self, offset: u32) -> Option<usize> {
        self.starts.number(offset as usize)
    }

    /// Returns the index of the instruction that contains the byte at an offset.
    pub fn index_around(&self, offset: u32) -> Option<usize> {
        let index = self.starts.number_around(offset as usize)?;
        (offset < self.at(index).end()).then_some(index)
    }
}
