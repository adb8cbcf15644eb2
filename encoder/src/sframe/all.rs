//! A section's functions, one after the other at speed.

use cfipack_format::SectionOffset;

use super::batch::Batch;
use super::{Builder, Layout};
use crate::Unsupported;
use crate::cfi::{self, Function, Functions};

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
    pub(super) fn expect(&mut self, functions: &Functions<'_>) -> usize {
        let count = functions.records_left();
        if self.entries.list.capacity() == 0 {
            self.reserve(count);
        }
        count
    }

    /// Adds a section's functions, all that are left, faster than one by one. `left_out` is told of
    /// each that is not in the section, in order. Returns how many functions there were.
    pub fn push_all(&mut self, mut functions: Functions<'a>, left_out: impl FnMut(LeftOut)) -> u64 {
        self.push_rest(&mut functions, left_out)
    }

    /// As [`push_all`](Self::push_all); `functions` are at their end then.
    pub(super) fn push_rest(
        &mut self,
        functions: &mut Functions<'a>,
        mut left_out: impl FnMut(LeftOut),
    ) -> u64 {
        let expected = self.expect(functions);
        let mut count = 0;
        // The CIEs of late and their numbers.
        let mut numbers: [Option<(SectionOffset, u8)>; 8] = [None; 8];
        let can_be_common = self.options.layout == Layout::Small && functions.arch() == self.arch;
        let mut batch = Batch::new(if can_be_common { expected } else { 0 });
        loop {
            // One that ends the batch, as it is not common.
            let mut other = None;
            while can_be_common
                && !batch.is_full()
                && let Some(plain) = functions.next_plain()
            {
                match numbers[plain.cie.0 / 4 % numbers.len()] {
                    Some((cie, number)) if cie == plain.cie => batch.add(number, &plain),
                    _ => {
                        other = Some(plain.at);
                        break;
                    }
                }
            }
            let is_full = batch.is_full();
            count += batch.len() as u64;
            self.push_batch(&mut batch, |builder, at| {
                builder.push_general(functions.function_at(at), &mut left_out);
            });
            if is_full {
                continue;
            }
            let function = match other {
                Some(at) => functions.function_at(at),
                None => match functions.next() {
                    Some(function) => function,
                    None => return count,
                },
            };
            count += 1;
            if let Some((cie, number)) = self.push_general(function, &mut left_out) {
                numbers[cie.0 / 4 % numbers.len()] = Some((cie, number));
            }
        }
    }

    /// Adds a function that no batch takes. Returns its CIE and that one's number.
    fn push_general(
        &mut self,
        function: Result<Function<'a>, cfi::Error>,
        left_out: &mut impl FnMut(LeftOut),
    ) -> Option<(SectionOffset, u8)> {
        match function {
            Ok(function) => match self.push(&function) {
                Ok(()) => self.number(&function).map(|number| (function.cie.offset, number)),
                Err(unsupported) => {
                    left_out(LeftOut::Unsupported(unsupported));
                    None
                }
            },
            Err(error) => {
                left_out(LeftOut::Malformed(error));
                None
            }
        }
    }
}
