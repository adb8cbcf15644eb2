//! The address space of a walk.

use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use cfipack_decoder::sframe::{Error, Frame};
use cfipack_decoder::walk::{
    AddressSpace, Generation, LONGEST_CALL, StackFrame, ends_with_call, find_by_range,
};
use cfipack_format::{Address, Arch};

use crate::slots::Reader;
use crate::table::Table;
use crate::{ARCH, loader};

/// A loaded file. Nothing in it changes but the mark.
pub(crate) struct File {
    /// Where the file's program headers are.
    pub(crate) headers: u64,
    pub(crate) contents: Contents,
    /// Marked by a walk that came to the file's code and found no table.
    pub(crate) is_wanted: AtomicBool,
}

/// What is known about the rows of a file.
pub(crate) enum Contents {
    /// No walk needed the table so far.
    NotMade,
    /// The file has no rows.
    Nothing,
    /// The table needs as many bytes, which are more than the budget has left.
    TooLarge(usize),
    /// A table, and the hash of what it was made of.
    Made(Table, u64),
}

/// The loaded files at a time.
pub(crate) struct Snapshot {
    pub(crate) generation: Generation,
    /// The ranges of code in ascending order, each with its file.
    pub(crate) code: Vec<(Range<u64>, Arc<File>)>,
    /// The return address into the code where the first thread started, or 0 if a table has a row there. `None` as long as
    /// it is not found: constructors of libraries run before the program starts.
    pub(crate) start: Option<u64>,
}

impl Snapshot {
    pub(crate) fn find(&self, pc: u64) -> Option<&(Range<u64>, Arc<File>)> {
        find_by_range(&self.code, Address(pc), |(range, _)| range.clone())
    }

    /// Returns whether a call is directly before a return address. `read` copies the code from an address, and returns
    /// whether it could: the file may have been unloaded since the last refresh.
    pub(crate) fn follows_call(&self, pc: u64, read: impl FnOnce(u64, &mut [u8]) -> bool) -> Option<bool> {
        let (range, _) = self.find(pc.checked_sub(1)?)?;
        let start = range.start.max(pc.saturating_sub(LONGEST_CALL as u64));
        let mut last = [0; LONGEST_CALL];
        let last = last.get_mut(..usize::try_from(pc - start).ok()?)?;
        if !read(start, last) {
            return None;
        }
        ends_with_call(ARCH, last)
    }
}

/// The loaded files as the last [`refresh`](crate::ProcessModules::refresh) found them, with their tables: the address
/// space for a [`Walk`](cfipack_decoder::walk::Walk). It stays as it is while you have it, so keep it for one walk only.
///
/// All of its functions are async-signal-safe, and dropping it is too.
pub struct CurrentModules<'p>(pub(crate) Reader<'p, Snapshot>);

impl AddressSpace for CurrentModules<'_> {
    #[inline]
    fn arch(&self) -> Arch {
        ARCH
    }

    #[inline]
    fn generation(&self) -> Generation {
        self.0.generation
    }

    #[inline]
    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        let Some((_, file)) = self.0.find(pc.0) else { return Ok(None) };
        match &file.contents {
            Contents::Made(table, _) => table.lookup(pc),
            Contents::Nothing => Ok(None),
            Contents::NotMade | Contents::TooLarge(_) => {
                file.is_wanted.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    #[inline]
    fn is_start(&self, frame: &StackFrame) -> bool {
        !frame.is_exact && Some(frame.pc.0) == self.0.start
    }

    #[inline]
    fn is_code(&self, pc: Address) -> bool {
        self.0.find(pc.0).is_some()
    }

    fn follows_call(&self, pc: Address) -> Option<bool> {
        self.0.follows_call(pc.0, loader::read)
    }
}

impl fmt::Debug for CurrentModules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentModules").field("generation", &self.0.generation).finish_non_exhaustive()
    }
}
