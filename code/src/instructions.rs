//! The decoded instructions of a function.

use std::collections::VecDeque;

use cfipack_format::{Address, Arch, Family, Register};

use crate::aarch64;
use crate::instruction::{ALWAYS, Decoded, Flow, Instruction, Op, REGISTERS, Special, index_of};
use crate::spare::Spare;
use crate::x86::X86Decoder;

/// How often a function is decoded again because a branch leads into an instruction.
const MAX_CUTS: usize = 4;

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
    list: Vec<Instruction>,
    pub(crate) ops: Vec<Op>,
    /// Memory of states that earlier functions have given back.
    pub(crate) spare: Spare,
    /// For each instruction, the index of the next instruction that is not padding. It is the number of instructions
    /// if there is none.
    solid: Vec<u32>,
    /// For each 64 bytes of code: a bit for each byte where an instruction starts, and the number of earlier
    /// instructions.
    starts: Vec<(u64, u32)>,
}

impl std::fmt::Debug for Code<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("arch", &self.arch).field("start", &self.start).finish_non_exhaustive()
    }
}

/// The bit of [`Instruction::affects`] for memory and signatures.
const OTHER: u64 = 1 << 63;

/// Returns the registers that known effects change, and the registers that they read, as bits. [`OTHER`] stands for
/// memory and signatures.
fn effects(arch: Arch, ops: &[Op], flow: Flow) -> (u64, u64) {
    let own = if let Flow::Call(_) = flow { (OTHER, ALWAYS) } else { (0, 0) };
    ops.iter().fold(own, |(bits, reads), op| {
        let changed = match op {
            Op::Store { .. } | Op::Sign | Op::Authenticate => OTHER,
            Op::Set { .. }
            | Op::Constant { .. }
            | Op::Extend { .. }
            | Op::Keep { .. }
            | Op::Mask { .. }
            | Op::Sum { .. }
            | Op::Align { .. }
            | Op::Load { .. }
            | Op::Entry { .. }
            | Op::Compare { .. }
            | Op::Limit { .. } => op.written(),
        };
        (bits | changed, reads | op.read(arch))
    })
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
    pub fn decode(&mut self, code: &Code<'_>) {
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
        if self.list.iter().all(|instruction| hidden(instruction).is_none()) {
            return found;
        }
        let mut seen = vec![false; self.list.len()];
        let (mut waiting, mut calls) = (vec![0], VecDeque::new());
        // A call may never return, so the code after calls comes last.
        while let Some(index) = waiting.pop().or_else(|| calls.pop_front()) {
            let Some(instruction) = self.list.get(index) else { continue };
            if std::mem::replace(&mut seen[index], true) {
                continue;
            }
            let (flow, next) = (instruction.flow, index + 1);
            match flow {
                Flow::Call(_) => calls.push_back(next),
                _ if flow.falls_through() => waiting.push(next),
                _ => {}
            }
            if let Some(offset) = hidden(instruction) {
                let around = self.index_around(offset).filter(|around| seen[*around]);
                let before =
                    around.map(|around| &code.bytes[self.list[around].offset as usize..offset as usize]);
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

    /// Decodes a function. An instruction starts at each of the offsets `starts`, which ascend.
    fn decode_from(&mut self, code: &Code<'_>, mut starts: &[u32]) {
        self.list.clear();
        self.ops.clear();
        let mut x86 = None;
        let mut offset = 0;
        // True after an instruction that does not fall through, and barriers.
        let mut is_blocked = false;
        while offset < code.bytes.len() {
            let rest = &code.bytes[offset..];
            let pc = code.start.offset(offset as i64);
            let first = self.ops.len();
            let decoded = match (code.arch.family(), rest.first_chunk()) {
                (Family::X86, _) => {
                    let x86 = x86.get_or_insert_with(|| X86Decoder::new(code.arch, code.bytes, code.start));
                    let decoded = x86.decode(offset, |len| code.is_relocated(offset, len), &mut self.ops);
                    while let [start, rest @ ..] = starts
                        && *start as usize <= offset
                    {
                        starts = rest;
                    }
                    match starts.first().map(|start| *start as usize - offset) {
                        Some(len) if len < usize::from(decoded.len) => {
                            self.ops.truncate(first);
                            x86.seek(offset + len);
                            cut(&rest[..len])
                        }
                        _ => decoded,
                    }
                }
                (Family::Aarch64, Some(word)) => {
                    let is_relocated = code.is_relocated(offset, 4);
                    let mut decoded = aarch64::decode(*word, (code.arch, pc), is_relocated, &mut self.ops);
                    is_blocked &= aarch64::is_barrier(*word);
                    decoded.is_padding |= is_blocked;
                    is_blocked |= !decoded.flow.falls_through() && !matches!(decoded.flow, Flow::Call(_));
                    decoded
                }
                (Family::Aarch64, None) => unknown(rest.len()),
                (Family::S390x, _) => unknown(s390x_len(rest[0]).min(rest.len())),
                (Family::Riscv, _) => unknown(rest.len()),
            };
            let count = self.ops.len() - first;
            let (affected, reads) = effects(code.arch, &self.ops[first..], decoded.flow);
            // A function has fewer than 2^32 ops, because callers limit its size.
            self.list.push(Instruction {
                offset: offset as u32,
                len: decoded.len,
                flow: decoded.flow,
                is_padding: decoded.is_padding,
                is_unknown: decoded.is_unknown,
                sets_flags: decoded.sets_flags,
                special: decoded.special,
                ops: (first as u32, count as u8),
                writes: decoded.writes,
                affects: decoded.writes & !OTHER | affected,
                reads,
            });
            offset += usize::from(decoded.len.max(1));
        }
        self.index(code.bytes.len());
        self.solid.clear();
        self.solid.resize(self.list.len(), 0);
        let mut next = self.list.len() as u32;
        for (index, instruction) in self.list.iter().enumerate().rev() {
            self.solid[index] = next;
            if !instruction.is_padding {
                next = index as u32;
            }
        }
    }

    /// Builds the index of the offsets where instructions start.
    fn index(&mut self, len: usize) {
        self.starts.clear();
        self.starts.resize(len.div_ceil(64), (0, 0));
        for instruction in &self.list {
            self.starts[instruction.offset as usize / 64].0 |= 1 << (instruction.offset % 64);
        }
        let mut count = 0;
        for (bits, before) in &mut self.starts {
            *before = count;
            count += bits.count_ones();
        }
    }

    /// Returns the constants that instructions put into registers, each with the index of its instruction. A constant
    /// can be an address, for example of `lea` or of `adrp` and `add`. This function reads the instructions in memory
    /// order and follows no jumps, so a constant can be wrong where paths join.
    pub fn constants(&self) -> impl Iterator<Item = (usize, u64)> {
        // The values of registers, and a bit for each register whose value is known.
        let (mut values, mut known) = ([0_u64; REGISTERS], 0);
        self.list.iter().enumerate().filter_map(move |(index, instruction)| {
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
            let (to, value) = self.ops(instruction).iter().rev().find_map(value_of)?;
            values[usize::from(to)] = value;
            known |= 1 << to;
            Some((index, value))
        })
    }

    /// Returns whether execution runs from the instruction before an offset to the instruction there.
    pub fn falls_into(&self, offset: u32) -> bool {
        let before = self.index_of(offset).and_then(|index| index.checked_sub(1));
        before.is_some_and(|before| {
            let flow = self.list[before].flow;
            flow.falls_through() || matches!(flow, Flow::Call(_))
        })
    }

    /// Returns the next instruction after `index` that is not padding.
    pub(crate) fn after_padding(&self, index: usize) -> Option<usize> {
        self.solid.get(index).map(|next| *next as usize).filter(|next| *next < self.list.len())
    }

    /// Returns the index of the instruction that a call at `index` returns to. It can be padding that does nothing, but not
    /// padding that traps, because compilers put traps only after calls that do not return. The result is `None` if all
    /// instructions after the call are padding.
    pub(crate) fn returns_to(&self, index: usize) -> Option<usize> {
        let solid = self.after_padding(index)?;
        let is_executed = self.list[index + 1..solid].iter().all(|padding| padding.flow == Flow::Next);
        Some(if is_executed { index + 1 } else { solid })
    }

    /// Returns the instructions in memory order.
    pub fn as_slice(&self) -> &[Instruction] {
        &self.list
    }

    /// Returns the known effects of an instruction.
    pub(crate) fn ops(&self, instruction: &Instruction) -> &[Op] {
        let (first, count) = instruction.ops;
        &self.ops[first as usize..first as usize + usize::from(count)]
    }

    /// Returns whether the function signs return addresses with key B, or else with key A. Returns `None` if it signs none,
    /// or not all with the same key and the stack pointer.
    pub(crate) fn signs_by_b(&self) -> Option<bool> {
        let mut signing = self.list.iter().filter(|instruction| self.ops(instruction).contains(&Op::Sign));
        let key_b = |instruction: &Instruction| match instruction.special {
            Special::No => Some(false),
            Special::SigningByB => Some(true),
            _ => None,
        };
        let first = key_b(signing.next()?)?;
        signing.all(|instruction| key_b(instruction) == Some(first)).then_some(first)
    }

    /// Returns whether an instruction can change memory, sign an address, or change one of these registers (as bits).
    pub(crate) fn affects(instruction: &Instruction, registers: u64) -> bool {
        instruction.affects & (registers | OTHER) != 0
    }

    /// Returns whether an instruction gives a register a new value.
    pub fn changes(&self, instruction: &Instruction, arch: Arch, register: Register) -> bool {
        let Some(index) = index_of(arch, register) else { return false };
        instruction.affects & (1 << index) != 0
    }

    /// Returns the index of the instruction that starts at an offset in bytes, or `None` if no instruction starts
    /// there.
    pub fn index_of(&self, offset: u32) -> Option<usize> {
        let (bits, before) = self.starts.get(offset as usize / 64)?;
        let bit = 1_u64 << (offset % 64);
        (bits & bit != 0).then(|| *before as usize + (bits & (bit - 1)).count_ones() as usize)
    }

    /// Returns the index of the instruction that contains the byte at an offset.
    pub fn index_around(&self, offset: u32) -> Option<usize> {
        let index = self.list.partition_point(|instruction| instruction.offset <= offset).checked_sub(1)?;
        (offset < self.list[index].end()).then_some(index)
    }
}

/// Returns an instruction's length from its two highest bits. Source: z/Architecture Principles of Operation,
/// "Instruction Formats".
fn s390x_len(first: u8) -> usize {
    match first >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

/// Returns whether these bytes are the prefix `lock`. A branch over the prefix runs the same instruction without it.
fn is_lock(bytes: &[u8]) -> bool {
    bytes == [0xf0]
}

/// Makes an instruction of bytes before the target of a branch. Execution does not get through them, except through
/// the prefix `lock`.
fn cut(bytes: &[u8]) -> Decoded {
    let is_lock = is_lock(bytes);
    Decoded {
        flow: if is_lock { Flow::Next } else { Flow::Stop },
        is_unknown: !is_lock,
        sets_flags: false,
        special: if is_lock { Special::No } else { Special::Cut },
        writes: 0,
        ..unknown(bytes.len())
    }
}

/// Makes an instruction of which nothing but the length is known.
fn unknown(len: usize) -> Decoded {
    Decoded {
        len: len as u8,
        flow: Flow::Next,
        is_padding: false,
        is_unknown: true,
        sets_flags: true,
        special: Special::No,
        writes: u64::MAX,
    }
}
