//! A section's functions, one after the other at speed.

use cfipack_format::SectionOffset;

use crate::Unsupported;
use crate::cfi::{self, Function, Functions, Keys};
use crate::sframe::fast::batch::Batch;
use crate::sframe::{Builder, Layout};

/// A function that a section goes without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// It cannot be expressed.
    Unsupported(Unsupported),
    /// Its FDE or CIE cannot be read. After [`cfi::Error::Length`] nothing behind it was found.
    Malformed(cfi::Error),
}

impl<'a> Builder<'a> {
    /// Makes room for functions if no room was made yet. Returns how many there are about.
    pub(crate) fn expect(&mut self, functions: &Functions<'_, impl Keys>) -> usize {
        let count = functions.records_left();
        if self.entries.list.capacity() == 0 {
            self.reserve(count);
        }
        count
    }

    /// Adds a section's functions, all that are left, faster than one by one. `left_out` is called with
    /// each that is not in the section, in order. Returns how many functions there were, those that are dead not
    /// among them.
    pub fn push_all<K: Keys>(
        &mut self,
        mut functions: Functions<'a, K>,
        left_out: impl FnMut(LeftOut),
    ) -> u64 {
        self.push_rest(&mut functions, left_out)
    }

    /// As [`push_all`](Self::push_all); `functions` are at their end then.
    pub(crate) fn push_rest<K: Keys>(
        &mut self,
        functions: &mut Functions<'a, K>,
        mut left_out: impl FnMut(LeftOut),
    ) -> u64 {
        let expected = self.expect(functions);
        let mut count = 0;
        let can_be_common = self.options.layout == Layout::Small
            && functions.arch() == self.abi.arch()
            && self.can_take(K::ARE_ADDRESSES).is_ok();
        let mut batch = Batch::new(functions.section_bytes(), if can_be_common { expected } else { 0 });
        loop {
            if can_be_common {
                batch.fill(functions);
                let is_full = batch.is_full();
                count += batch.len() as u64;
                if batch.len() > 0 {
                    self.push_batch(&mut batch, |builder, fde| {
                        builder.push_one(&functions.function_of(fde), &mut left_out);
                    });
                }
                if is_full {
                    continue;
                }
            }
            let Some(function) = functions.next() else {
                self.settle();
                return count;
            };
            count += 1;
            if let Some((cie, number)) = self.push_one(&function, &mut left_out)
                && functions.is_plain_cie(cie.0)
            {
                batch.note(cie, number);
            }
        }
    }

    /// Adds a function that no batch takes. Returns its CIE and that one's number.
    fn push_one(
        &mut self,
        function: &Result<Function<'a>, cfi::Error>,
        left_out: &mut impl FnMut(LeftOut),
    ) -> Option<(SectionOffset, u8)> {
        match function {
            Ok(function) => match self.push(function) {
                Ok(()) => self.number(function).map(|number| (function.cie.offset, number)),
                Err(unsupported) => {
                    left_out(LeftOut::Unsupported(unsupported));
                    None
                }
            },
            Err(error) => {
                self.note_unread();
                left_out(LeftOut::Malformed(*error));
                None
            }
        }
    }
}
