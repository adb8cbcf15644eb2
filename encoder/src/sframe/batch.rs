//! Common functions on their way into a section, a batch at a time.
//!
//! Each step is done for all functions of a batch before the next one: what a step waits for, memory
//! above all, it then awaits for all of them together.

use alloc::vec::Vec;

use cfipack_format::sframe::FdeType;
use cfipack_format::{Address, SectionOffset};

use super::Builder;
use super::block::{GROUP, WideAttribute};
use super::fres::{BUFFER, Block};
use super::memo::{Key, Memo, Remembered};
use crate::cfi::{Code, PlainFde};

/// A function of a batch.
#[derive(Clone, Copy, Debug)]
struct Taken<'a> {
    start: Address,
    size: u32,
    cie: u8,
    code: Code<'a>,
    /// Where its FDE starts.
    at: SectionOffset,
    key: Key,
    /// What the same instructions gave before.
    remembered: Option<Remembered>,
}

/// FREs that are in the buffer.
#[derive(Clone, Copy, Debug)]
struct Ran {
    block: Block,
    hash: u32,
    num_fres: u32,
    attribute: WideAttribute,
    /// The location that the instructions end at.
    end: u64,
}

/// Functions that are taken together.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    functions: Vec<Taken<'a>>,
    /// Of those that are not remembered, in order: what their instructions gave, or nothing where a
    /// function has to go the general way.
    ran: Vec<Option<Ran>>,
    memo: Memo,
}

impl<'a> Batch<'a> {
    /// For the functions of a section that has so many.
    pub(super) fn new(functions: usize) -> Self {
        let (taken, ran) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        Self { functions: taken, ran, memo: Memo::new(functions) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.functions.len() == GROUP
    }

    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Adds a function of the CIE with this number.
    #[inline(always)]
    pub(super) fn add(&mut self, cie: u8, fde: &PlainFde<'a>) {
        let PlainFde { start, size, at, code, .. } = *fde;
        let key = self.memo.key(cie, &code);
        self.functions.push(Taken { start, size, cie, code, at, key, remembered: None });
    }
}

impl<'a> Builder<'a> {
    /// Adds the functions of a batch, which is empty then. `general` adds one whose FDE starts at an
    /// offset the general way.
    #[inline]
    pub(super) fn push_batch(
        &mut self,
        batch: &mut Batch<'a>,
        mut general: impl FnMut(&mut Self, SectionOffset),
    ) {
        self.run_batch(batch);
        let blocks = &self.entries.blocks;
        blocks.touch(batch.ran.iter().flatten().map(|ran| ran.hash));
        let mut ran = batch.ran.iter();
        for function in &batch.functions {
            let Taken { start, size, code, at, key, remembered, .. } = function;
            let Remembered { block, num_fres } = match *remembered {
                Some(remembered) => remembered,
                None => {
                    let Some(Some(ran)) = ran.next() else {
                        general(self, *at);
                        continue;
                    };
                    let bytes = self.fres.with_behind(ran.block);
                    let blocks = &mut self.entries.blocks;
                    let block = blocks.add_block(ran.hash, bytes, ran.block.len, ran.attribute);
                    let gave = Remembered { block, num_fres: ran.num_fres };
                    // Without sharing each function has a block of its own.
                    if ran.end < u64::from(*size) && self.options.share {
                        batch.memo.remember(*key, code, ran.end, gave);
                    }
                    gave
                }
            };
            self.entries.push(start.0, *size, block, num_fres);
        }
        self.fres.clear();
        batch.functions.clear();
        batch.ran.clear();
    }

    /// Adds a function if it is of the common kind.
    #[inline]
    pub(super) fn push_common(&mut self, cie: u8, start: Address, code: &Code<'a>, size: u32) -> bool {
        let Some(ran) = self.run_common(cie, code, size) else { return false };
        let (bytes, len) = (self.fres.with_behind(ran.block), ran.block.len);
        let blocks = &mut self.entries.blocks;
        if !blocks.has_room(len) {
            return false;
        }
        let block = blocks.add_block(blocks.hash(bytes, len), bytes, len, ran.attribute);
        self.entries.push(start.0, size, block, ran.num_fres);
        true
    }

    /// Finds or makes the FREs of the functions of a batch.
    #[inline(always)]
    fn run_batch(&mut self, batch: &mut Batch<'a>) {
        let mut missing = [0; GROUP];
        let mut count = 0;
        for (number, function) in batch.functions.iter_mut().enumerate() {
            let Taken { size, code, key, .. } = function;
            function.remembered = batch.memo.find(*key, code, *size);
            missing[count % GROUP] = number;
            count += usize::from(function.remembered.is_none());
        }
        let has_room = self.entries.blocks.has_room(BUFFER);
        for &number in &missing[..count] {
            let Taken { size, cie, code, .. } = &batch.functions[number];
            let ran = if has_room { self.run_common(*cie, code, *size) } else { None };
            if ran.is_some() {
                self.fres.keep();
            }
            batch.ran.push(ran);
        }
        for ran in batch.ran.iter_mut().flatten() {
            ran.hash = self.entries.blocks.hash(self.fres.with_behind(ran.block), ran.block.len);
        }
    }

    /// Puts the FREs of a function into the buffer if it is of the common kind.
    #[inline(always)]
    fn run_common(&mut self, cie: u8, code: &Code<'a>, size: u32) -> Option<Ran> {
        if size == 0 {
            return None;
        }
        let common = self.cies.common(cie)?;
        let end = self.common.run(common, code, size, &mut self.fres)?;
        let attribute = self.entries.blocks.begin_block(&mut self.fres, common.info, FdeType::Default, 0);
        let block = self.fres.block(self.options.version);
        Some(Ran { block, hash: 0, num_fres: self.fres.count(), attribute, end })
    }
}

#[cfg(test)]
mod tests;
