//! Adds common functions to a section, as a batch or one at a time.

use cfipack_format::Key;
use cfipack_format::sframe::FdeType;

use crate::cfi::{Code, PlainFde};
use crate::sframe::builder::Builder;
use crate::sframe::fast::batch::{Batch, BatchFunction, MissedFunction};
use crate::sframe::fast::memo::Remembered;
use crate::sframe::table::entries::Entry;
use crate::sframe::table::wide_attribute::WideAttribute;

impl<'a> Builder<'a> {
    /// Adds the functions of a batch, and empties it. `general` adds the function of an FDE by the general
    /// path.
    #[inline]
    pub(crate) fn push_batch(
        &mut self,
        batch: &mut Batch<'a>,
        mut general: impl FnMut(&mut Self, &PlainFde),
    ) {
        self.flush();
        let section = batch.memo.section();
        self.run_batch(batch);
        self.draft.entries.blocks.touch(batch.missed.iter().map(|function| function.hash));
        let mut next = 0;
        for function in &batch.missed {
            let number = function.number;
            let (bytes, len) = (self.draft.fres.tail(function.block), function.block.len);
            let blocks = &self.draft.entries.blocks;
            let Some(end) =
                function.end.filter(|_| blocks.can_take(function.hash, bytes, len, function.attribute))
            else {
                self.push_entries(&batch.functions[next..number], &batch.results[next..]);
                general(self, &batch.functions[number].fde);
                self.flush();
                next = number + 1;
                continue;
            };
            let block = self.draft.entries.blocks.add_block(function.hash, bytes, len, function.attribute);
            let result = Remembered { block, num_fres: function.num_fres };
            batch.results[number] = result;
            let fde = &batch.functions[number].fde;
            // Without sharing, each function has its own block.
            if end < u64::from(fde.size)
                && self.draft.options.share
                && let Some(code) = fde.code(section)
            {
                batch.memo.remember(batch.keys[number], &code, end, result);
            }
        }
        self.push_entries(&batch.functions[next..], &batch.results[next..]);
        self.draft.fres.clear();
        batch.functions.clear();
        batch.missed.clear();
    }

    /// Adds the entries of functions whose blocks are known.
    #[inline(always)]
    fn push_entries(&mut self, functions: &[BatchFunction], results: &[Remembered]) {
        self.draft.entries.extend(functions.iter().zip(results).map(
            |(BatchFunction { fde, .. }, result)| {
                let entry = Entry { start: fde.key.0, size: fde.size, block: result.block };
                (entry, result.num_fres)
            },
        ));
    }

    /// Adds a function if it is common. Returns whether it was added.
    #[inline]
    pub(crate) fn push_common(&mut self, cie: u8, function: Key, code: &Code<'_>, size: u32) -> bool {
        let Some((_, attribute)) = self.run_common(cie, code, size) else { return false };
        self.flush();
        let block = self.draft.fres.block(self.draft.options.version);
        let (bytes, len) = (self.draft.fres.tail(block), block.len);
        let blocks = &mut self.draft.entries.blocks;
        let hash = blocks.hash(bytes, len);
        if !blocks.can_take(hash, bytes, len, attribute) {
            return false;
        }
        let block = blocks.add_block(hash, bytes, len, attribute);
        self.draft.entries.push(function.0, size, block, self.draft.fres.count());
        true
    }

    /// Looks up the functions of a batch in the memo, and makes the FREs of functions that it does not have.
    #[inline(always)]
    fn run_batch(&mut self, batch: &mut Batch<'a>) {
        let section = batch.memo.section();
        let (missing, count) = batch.find();
        for &number in &missing[..count] {
            let BatchFunction { fde, cie } = &batch.functions[number];
            let code = fde.code(section);
            let result = code.and_then(|code| self.run_common(*cie, &code, fde.size));
            let (end, attribute) = result.unzip();
            let (block, num_fres) =
                (self.draft.fres.block(self.draft.options.version), self.draft.fres.count());
            if end.is_some() {
                self.draft.fres.keep();
            }
            let attribute = attribute.unwrap_or_default();
            batch.missed.push(MissedFunction { number, end, block, num_fres, attribute, hash: 0 });
        }
        for function in batch.missed.iter_mut().filter(|function| function.end.is_some()) {
            function.hash =
                self.draft.entries.blocks.hash(self.draft.fres.tail(function.block), function.block.len);
        }
    }

    /// Puts the FREs of a function into the buffer if it is common. Returns the location after the function's
    /// last advance, and the attribute.
    #[inline(always)]
    fn run_common(&mut self, cie: u8, code: &Code<'_>, size: u32) -> Option<(u64, WideAttribute)> {
        if size == 0 {
            return None;
        }
        let common = self.machines.cies.common(cie)?;
        let end = self.machines.common.run(common, code, size, &mut self.draft.fres)?;
        let attribute =
            self.draft.entries.blocks.begin_block(&mut self.draft.fres, common.info, FdeType::Default, 0);
        Some((end, attribute))
    }
}
