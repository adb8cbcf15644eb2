//! Adds all functions of a section.

use crate::Unsupported;
use crate::cfi::{self, Function, Functions, Keys};
use crate::sframe::builder::Builder;

/// A function that the section omits, with the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OmittedFunction {
    /// The format cannot represent it.
    Unsupported(Unsupported),
    /// The FDE or CIE cannot be read. After [`cfi::Error::Length`] the rest of the section was not searched for
    /// functions.
    Malformed(cfi::Error),
}

/// The functions of a section, for [`Builder::push_all`]. Use [`Functions`] for a single thread, or
/// [`Parallel`](crate::sframe::Parallel) for several.
pub trait Source<'a>: sealed::Sealed {
    /// Adds the functions.
    #[doc(hidden)]
    fn push_into(self, builder: &mut Builder<'a>, omitted: impl FnMut(OmittedFunction)) -> u64;
}

pub(crate) mod sealed {
    /// Keeps other crates from implementing [`Source`](super::Source).
    pub trait Sealed {}
}

impl<K: Keys> sealed::Sealed for Functions<'_, K> {}

impl<'a, K: Keys> Source<'a> for Functions<'a, K> {
    fn push_into(mut self, builder: &mut Builder<'a>, omitted: impl FnMut(OmittedFunction)) -> u64 {
        builder.push_rest(&mut self, omitted)
    }
}

impl<'a> Builder<'a> {
    /// Adds all functions that `source` has left. This is faster than [`push`](Self::push) for each function.
    /// Pass a [`Functions`], or a [`Parallel`](crate::sframe::Parallel) to use several threads.
    ///
    /// This function calls `omitted`, in order, for each function that is not in the section. It returns how
    /// many functions there were. The count includes omitted functions, but not dead functions.
    pub fn push_all(&mut self, source: impl Source<'a>, omitted: impl FnMut(OmittedFunction)) -> u64 {
        source.push_into(self, omitted)
    }

    /// Adds all functions that `functions` has left, on this thread.
    pub(crate) fn push_rest<K: Keys>(
        &mut self,
        functions: &mut Functions<'a, K>,
        mut omitted: impl FnMut(OmittedFunction),
    ) -> u64 {
        if self.draft.entries.list.capacity() == 0 {
            self.reserve(functions.records_left(), None);
        }
        let mut count = 0;
        // The memo finds blocks to share.
        let has_memo = self.draft.options.layout.shares_rows()
            && self.draft.options.share
            && functions.arch() == self.draft.abi.arch()
            && self.draft.can_take(K::ARE_ADDRESSES).is_ok();
        let section = functions.section_bytes();
        if has_memo {
            self.machines.memo.begin(section, self.draft.entries.list.capacity());
        }
        self.draft.flush();
        loop {
            while has_memo
                && let Some((fde, cie)) =
                    functions.next_plain(|bytes| self.machines.cies.number_of_bytes(bytes))
            {
                count += 1;
                let code = fde.code(section);
                if let Some(rows) = self.machines.memo.find(cie, &code, fde.size) {
                    self.draft.entries.push(fde.key.0, fde.size, rows.block, rows.num_fres);
                } else if !self.push_plain(cie, &fde, &code) {
                    self.push_one(&functions.function_of(&fde), &mut omitted);
                }
            }
            let Some(function) = functions.next() else {
                self.draft.flush();
                return count;
            };
            count += 1;
            let is_added = self.push_one(&function, &mut omitted);
            if has_memo
                && is_added
                && let Ok(function) = &function
                && let Some(number) = self.number(function)
            {
                let bytes = functions.set_cie_number(function.cie.offset, number);
                self.machines.cies.note_bytes(number, bytes);
            }
        }
    }

    /// Adds a single function. Returns whether it could be added.
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
