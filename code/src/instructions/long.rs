//! Reads the instructions of a function one after the other. Those of a long function are decoded again for it.

use cfipack_format::{Address, Arch};

use super::{Code, Instructions};
use crate::decoding::Decoding;
use crate::instruction::{Instruction, Op};

/// What is needed to decode the instructions of a long function again.
#[derive(Debug)]
pub(super) struct Long {
    pub arch: Arch,
    pub start: Address,
    pub bytes: Vec<u8>,
    pub relocated: Vec<u32>,
    /// The offsets of instructions that other instructions run over, ascending.
    pub cuts: Vec<u32>,
}

/// Reads instructions in memory order.
pub(crate) struct Steps<'i> {
    pub(super) all: &'i Instructions,
    pub(super) next: usize,
    /// The decoding of a long function.
    pub(super) decoded: Option<Box<Decoded<'i>>>,
}

/// The last instruction of a decoding, and its effects.
pub(super) struct Decoded<'i> {
    decoding: Decoding<'i>,
    last: Option<Instruction>,
    ops: Vec<Op>,
}

impl Steps<'_> {
    /// Returns the next instruction with its index, and the list that has its [effects](Instruction::effects).
    #[inline]
    pub fn next(&mut self) -> Option<(usize, &Instruction, &[Op])> {
        let (index, all) = (self.next, self.all);
        self.next += 1;
        match all.list.get(index) {
            Some(instruction) => Some((index, instruction, &all.ops)),
            None => self.decode(index),
        }
    }

    /// Returns the next instructions at once, as many as are stored, with the index of the first one and the list that has
    /// their effects. This is faster than [`next`](Self::next).
    #[inline]
    pub fn next_slice(&mut self) -> Option<(usize, &[Instruction], &[Op])> {
        let all = self.all;
        match all.list.get(self.next..) {
            Some(stored @ [_, ..]) => {
                let first = std::mem::replace(&mut self.next, all.list.len());
                Some((first, stored, &all.ops))
            }
            _ => self.next().map(|(index, one, ops)| (index, std::slice::from_ref(one), ops)),
        }
    }

    #[cold]
    fn decode(&mut self, index: usize) -> Option<(usize, &Instruction, &[Op])> {
        let all = self.all;
        let long = all.long.as_ref().filter(|_| index < all.len)?;
        let Decoded { decoding, last, ops } = &mut **self.decoded.get_or_insert_with(|| {
            let Long { arch, start, bytes, relocated, cuts, .. } = long;
            let code = Code { arch: *arch, start: *start, bytes, relocated };
            let decoding = Decoding::new(code, cuts, all.offset(index) as usize);
            Box::new(Decoded { decoding, last: None, ops: Vec::new() })
        });
        ops.clear();
        let instruction = decoding.next(ops)?;
        let padding = all.padding[instruction.offset as usize / 64];
        let is_padding = padding & 1 << (instruction.offset % 64) != 0;
        Some((index, last.insert(Instruction { is_padding, ..instruction }), ops))
    }
}
