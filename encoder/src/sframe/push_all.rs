//! A section's functions, one after the other at speed.

use crate::Unsupported;
use crate::cfi::{self, Function, Functions, Keys};
use crate::sframe::fast::batch::Batch;
use crate::sframe::{Builder, Layout};

/// A function that the section omits, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OmittedFunction {
    /// The format cannot represent it.
    Unsupported(Unsupported),
    /// Its FDE or CIE cannot be read. After [`cfi::Error::Length`] nothing after it was found.
    Malformed(cfi::Error),
}

impl<'a> Builder<'a> {
    /// Makes room for functions if no room was made yet. Returns about how many functions there are.
    pub(crate) fn expect(&mut self, functions: &Functions<'_, impl Keys>) -> usize {
        let count = functions.records_left();
        if self.entries.list.capacity() == 0 {
            self.reserve(count);
        }
        count
    }

    /// Adds a section's functions, all that are left, faster than one by one. `omitted` is called with
    /// each that is not in the section, in order. Returns how many functions there were, those that are dead not
    /// among them.
    pub fn push_all<K: Keys>(
        &mut self,
        mut functions: Functions<'a, K>,
        omitted: impl FnMut(OmittedFunction),
    ) -> u64 {
        self.push_rest(&mut functions, omitted)
    }

    /// As [`push_all`](Self::push_all); `functions` are at their end then.
    pub(crate) fn push_rest<K: Keys>(
        &mut self,
        functions: &mut Functions<'a, K>,
        mut omitted: impl FnMut(OmittedFunction),
    ) -> u64 {
        let expected = self.expect(functions);
        let mut count = 0;
        // Where nothing is shared, nothing is remembered, and a batch would have nothing to look up.
        let in_batches = self.options.layout == Layout::Small
            && self.options.share
            && functions.arch() == self.abi.arch()
            && self.can_take(K::ARE_ADDRESSES).is_ok();
        let mut batch = Batch::new(functions.section_bytes(), if in_batches { expected } else { 0 });
        loop {
            if in_batches {
                batch.fill(functions);
                let is_full = batch.is_full();
                count += batch.len() as u64;
                if batch.len() > 0 {
                    self.push_batch(&mut batch, |builder, fde| {
                        builder.push_one(&functions.function_of(fde), &mut omitted);
                    });
                }
                if is_full {
                    continue;
                }
            }
            let Some(function) = functions.next() else {
                self.flush();
                return count;
            };
            count += 1;
            let is_added = self.push_one(&function, &mut omitted);
            if in_batches
                && is_added
                && let Ok(function) = &function
                && let Some(number) = self.number(function)
            {
                functions.set_cie_number(function.cie.offset, number);
            }
        }
    }

    /// Adds a function by itself. Returns whether it could be added.
    fn push_one(
        &mut self,
        function: &Result<Function<'a>, cfi::Error>,
        omitted: &mut impl FnMut(OmittedFunction),
    ) -> bool {
        let added = match function {
            Ok(function) => self.push(function).map_err(OmittedFunction::Unsupported),
            Err(error) => {
                self.note_unread();
                Err(OmittedFunction::Malformed(*error))
            }
        };
        added.map_err(omitted).is_ok()
    }
}
