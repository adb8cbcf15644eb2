//! Adds common functions to a section, a batch at a time.
//!
//! Each step is done for all functions of a batch before the next step. So they wait for memory together.

use alloc::vec::Vec;

use crate::cfi::{Functions, Keys, PlainFde};
use crate::sframe::fast::memo::{Key, Memo, Remembered};
use crate::sframe::rows::fres::Block;
use crate::sframe::table::block::GROUP;
use crate::sframe::table::wide_attribute::WideAttribute;

/// A function of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchFunction {
    pub(crate) fde: PlainFde,
    pub(crate) cie: u8,
}

/// A function whose instructions are not in the memo, and its FREs in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissedFunction {
    /// The number in the batch.
    pub(crate) number: usize,
    /// The location after the function's last advance, or `None` if it must take the general path.
    pub(crate) end: Option<u64>,
    pub(crate) block: Block,
    pub(crate) num_fres: u32,
    pub(crate) attribute: WideAttribute,
    pub(crate) hash: u32,
}

/// Functions of a section that are added together, and what is remembered of all sections.
#[derive(Clone, Debug)]
pub(crate) struct Batch<'a> {
    pub(crate) functions: Vec<BatchFunction>,
    pub(crate) keys: [Key; GROUP],
    /// The block and the number of rows of each function.
    pub(crate) results: [Remembered; GROUP],
    /// The functions that are not in the memo.
    pub(crate) missed: Vec<MissedFunction>,
    pub(crate) memo: Memo<'a>,
}

impl Batch<'_> {
    pub(crate) fn new() -> Self {
        let (functions, missed) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        let (keys, results) = ([Key::NONE; GROUP], [Remembered { block: 0, num_fres: 0 }; GROUP]);
        Self { functions, keys, results, missed, memo: Memo::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.functions.len() == GROUP
    }

    pub(crate) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Adds functions until the batch is full or the next function cannot be in a batch.
    #[inline(never)]
    pub(crate) fn fill(&mut self, functions: &mut Functions<'_, impl Keys>) {
        while self.functions.len() < GROUP
            && let Some((fde, cie)) = functions.next_plain()
        {
            self.functions.push(BatchFunction { fde, cie });
        }
    }

    /// Looks up all functions in the memo. Returns the numbers of the functions that it does not have.
    #[inline(never)]
    pub(crate) fn find(&mut self) -> ([usize; GROUP], usize) {
        let section = self.memo.section();
        for (key, BatchFunction { fde, cie }) in self.keys.iter_mut().zip(&self.functions) {
            *key = fde.code(section).map_or(Key::NONE, |code| self.memo.key(*cie, &code));
        }
        let (mut missing, mut count) = ([0; GROUP], 0);
        let found = self.results.iter_mut().zip(&self.keys).zip(&self.functions);
        for (number, ((result, key), BatchFunction { fde, .. })) in found.enumerate() {
            let code = fde.code(section);
            let remembered = code.and_then(|code| self.memo.find(*key, &code, fde.size));
            missing[count % GROUP] = number;
            count += usize::from(remembered.is_none());
            *result = remembered.unwrap_or(*result);
        }
        (missing, count)
    }
}

#[cfg(test)]
mod tests;
