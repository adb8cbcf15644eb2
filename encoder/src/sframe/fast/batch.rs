//! Common functions on their way into a section, a batch at a time.
//!
//! Each step is done for all functions of a batch before the next one: what a step waits for, memory
//! above all, it then awaits for all of them together.

use alloc::vec::Vec;

use cfipack_format::Key as FunctionKey;
use cfipack_format::sframe::FdeType;

use crate::cfi::{Code, Functions, Keys, PlainFde};
use crate::sframe::Builder;
use crate::sframe::fast::memo::{Key, Memo, Remembered};
use crate::sframe::rows::fres::Block;
use crate::sframe::table::block::GROUP;
use crate::sframe::table::entries::Entry;
use crate::sframe::table::wide_attribute::WideAttribute;

/// A function of a batch.
#[derive(Clone, Copy, Debug)]
struct BatchFunction {
    fde: PlainFde,
    cie: u8,
}

/// A function that is not remembered, and its FREs in the buffer.
#[derive(Clone, Copy, Debug)]
struct MissedFunction {
    /// Its number in the batch.
    number: usize,
    /// The location that its instructions end at; none where it has to go the general way.
    end: Option<u64>,
    block: Block,
    num_fres: u32,
    attribute: WideAttribute,
    hash: u32,
}

/// Functions that are added together.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    section: &'a [u8],
    functions: Vec<BatchFunction>,
    keys: [Key; GROUP],
    /// What their instructions have given.
    results: [Remembered; GROUP],
    /// Those that are not remembered.
    missed: Vec<MissedFunction>,
    memo: Memo,
}

impl<'a> Batch<'a> {
    /// For the functions of a section, about this many.
    pub(crate) fn new(section: &'a [u8], functions: usize) -> Self {
        let (functions_of_batch, missed) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        let (keys, results) = ([Key::NONE; GROUP], [Remembered { block: 0, num_fres: 0 }; GROUP]);
        Self { section, functions: functions_of_batch, keys, results, missed, memo: Memo::new(functions) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.functions.len() == GROUP
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Adds functions until the batch is full or the next one is of another kind.
    #[inline(never)]
    pub(crate) fn fill(&mut self, functions: &mut Functions<'a, impl Keys>) {
        while self.functions.len() < GROUP
            && let Some((fde, cie)) = functions.next_plain()
        {
            self.functions.push(BatchFunction { fde, cie });
        }
    }

    /// Finds what is remembered. Returns the numbers of the functions for which nothing is.
    #[inline(never)]
    fn find(&mut self) -> ([usize; GROUP], usize) {
        for (key, BatchFunction { fde, cie }) in self.keys.iter_mut().zip(&self.functions) {
            *key = fde.code(self.section).map_or(Key::NONE, |code| self.memo.key(*cie, &code));
        }
        let (mut missing, mut count) = ([0; GROUP], 0);
        let found = self.results.iter_mut().zip(&self.keys).zip(&self.functions);
        for (number, ((result, key), BatchFunction { fde, .. })) in found.enumerate() {
            let code = fde.code(self.section);
            let remembered = code.and_then(|code| self.memo.find(*key, self.section, &code, fde.size));
            missing[count % GROUP] = number;
            count += usize::from(remembered.is_none());
            *result = remembered.unwrap_or(*result);
        }
        (missing, count)
    }
}

impl<'a> Builder<'a> {
    /// Adds the functions of a batch, which is empty then. `general` adds the one of an FDE
    /// the general way.
    #[inline]
    pub(crate) fn push_batch(
        &mut self,
        batch: &mut Batch<'a>,
        mut general: impl FnMut(&mut Self, &PlainFde),
    ) {
        self.flush();
        self.run_batch(batch);
        self.entries.blocks.touch(batch.missed.iter().map(|function| function.hash));
        let mut next = 0;
        for function in &batch.missed {
            let number = function.number;
            let (bytes, len) = (self.fres.tail(function.block), function.block.len);
            let blocks = &self.entries.blocks;
            let Some(end) =
                function.end.filter(|_| blocks.can_take(function.hash, bytes, len, function.attribute))
            else {
                self.push_entries(&batch.functions[next..number], &batch.results[next..]);
                general(self, &batch.functions[number].fde);
                self.flush();
                next = number + 1;
                continue;
            };
            let block = self.entries.blocks.add_block(function.hash, bytes, len, function.attribute);
            let result = Remembered { block, num_fres: function.num_fres };
            batch.results[number] = result;
            let fde = &batch.functions[number].fde;
            // Without sharing each function has a block of its own.
            if end < u64::from(fde.size)
                && self.options.share
                && let Some(code) = fde.code(batch.section)
            {
                batch.memo.remember(batch.keys[number], &code, end, result);
            }
        }
        self.push_entries(&batch.functions[next..], &batch.results[next..]);
        self.fres.clear();
        batch.functions.clear();
        batch.missed.clear();
    }

    /// Adds the entries of functions whose blocks are known.
    #[inline(always)]
    fn push_entries(&mut self, functions: &[BatchFunction], results: &[Remembered]) {
        self.entries.extend(functions.iter().zip(results).map(|(BatchFunction { fde, .. }, result)| {
            let entry = Entry { start: fde.key.0, size: fde.size, block: result.block };
            (entry, result.num_fres)
        }));
    }

    /// Adds a function if it is of the common kind.
    #[inline]
    pub(crate) fn push_common(&mut self, cie: u8, function: FunctionKey, code: &Code<'a>, size: u32) -> bool {
        let Some((_, attribute)) = self.run_common(cie, code, size) else { return false };
        self.flush();
        let block = self.fres.block(self.options.version);
        let (bytes, len) = (self.fres.tail(block), block.len);
        let blocks = &mut self.entries.blocks;
        let hash = blocks.hash(bytes, len);
        if !blocks.can_take(hash, bytes, len, attribute) {
            return false;
        }
        let block = blocks.add_block(hash, bytes, len, attribute);
        self.entries.push(function.0, size, block, self.fres.count());
        true
    }

    /// Finds or makes the FREs of the functions of a batch.
    #[inline(always)]
    fn run_batch(&mut self, batch: &mut Batch<'a>) {
        let (missing, count) = batch.find();
        for &number in &missing[..count] {
            let BatchFunction { fde, cie } = &batch.functions[number];
            let code = fde.code(batch.section);
            let result = code.and_then(|code| self.run_common(*cie, &code, fde.size));
            let (end, attribute) = result.unzip();
            let (block, num_fres) = (self.fres.block(self.options.version), self.fres.count());
            if end.is_some() {
                self.fres.keep();
            }
            let attribute = attribute.unwrap_or_default();
            batch.missed.push(MissedFunction { number, end, block, num_fres, attribute, hash: 0 });
        }
        for function in batch.missed.iter_mut().filter(|function| function.end.is_some()) {
            function.hash = self.entries.blocks.hash(self.fres.tail(function.block), function.block.len);
        }
    }

    /// Puts the FREs of a function into the buffer if it is of the common kind. Returns the location that its
    /// instructions end at, and its attribute.
    #[inline(always)]
    fn run_common(&mut self, cie: u8, code: &Code<'a>, size: u32) -> Option<(u64, WideAttribute)> {
        if size == 0 {
            return None;
        }
        let common = self.cies.common(cie)?;
        let end = self.common.run(common, code, size, &mut self.fres)?;
        let attribute = self.entries.blocks.begin_block(&mut self.fres, common.info, FdeType::Default, 0);
        Some((end, attribute))
    }
}

#[cfg(test)]
mod tests;
