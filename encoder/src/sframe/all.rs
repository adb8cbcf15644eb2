//! A section's functions, one after the other at speed.

use cfipack_format::SectionOffset;

use super::{Builder, Layout};
use crate::Unsupported;
use crate::cfi::{self, Functions};

/// A function that a section goes without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftOut {
    /// It cannot be expressed.
    Unsupported(Unsupported),
    /// Its FDE or CIE cannot be read. After [`cfi::Error::Length`] nothing behind it was found.
    Malformed(cfi::Error),
}

impl<'a> Builder<'a> {
    /// Makes room for functions if no room was made yet.
    pub(super) fn expect(&mut self, functions: &Functions<'_>) {
        if self.entries.list.capacity() == 0 {
            // Counting costs less than moving the blocks, which lie behind the index, afterwards.
            self.reserve(functions.records_left());
        }
    }

    /// Adds a section's functions, all that are left, faster than one by one. `left_out` is told of
    /// each that is not in the section, in order. Returns how many functions there were.
    pub fn push_all(&mut self, mut functions: Functions<'a>, mut left_out: impl FnMut(LeftOut)) -> u64 {
        self.expect(&functions);
        let mut count = 0;
        // The CIEs of late and their numbers.
        let mut numbers: [Option<(SectionOffset, u8)>; 8] = [None; 8];
        let can_be_common = self.options.layout == Layout::Small && functions.arch() == self.arch;
        loop {
            let plain = if can_be_common { functions.next_plain() } else { None };
            let function = if let Some(plain) = plain {
                if let Some((cie, number)) = numbers[plain.cie.0 / 4 % numbers.len()]
                    && cie == plain.cie
                {
                    let key = self.memo.key(number, &plain.code);
                    if self.push_code(number, plain.start, plain.size, &plain.code, key).is_ok() {
                        count += 1;
                        continue;
                    }
                }
                functions.function_at(plain.at)
            } else {
                match functions.next() {
                    Some(function) => function,
                    None => return count,
                }
            };
            count += 1;
            match function {
                Ok(function) => {
                    if let Err(unsupported) = self.push(&function) {
                        left_out(LeftOut::Unsupported(unsupported));
                    } else if let Some(number) = self.number(&function) {
                        let cie = function.cie.offset;
                        numbers[cie.0 / 4 % numbers.len()] = Some((cie, number));
                    }
                }
                Err(error) => left_out(LeftOut::Malformed(error)),
            }
        }
    }
}
