//! The interface between a walk and the code of a process.

use core::ops::Range;

use cfipack_format::{Address, Arch};

use super::{Generation, StackFrame};
use crate::sframe::{Error, Frame};

/// The code of a process, and the tables that describe the code.
///
/// [`Modules`](super::Modules) implements this trait for loaded files. Implement it yourself if you find tables
/// in another way, for example for generated code.
pub trait AddressSpace {
    /// Returns the architecture of the code.
    fn arch(&self) -> Arch;

    /// Returns the generation. Return a new generation ([`Generation::new`]) whenever another method of this
    /// trait may return something else than before. A walk calls this method for each frame, before it looks up
    /// the PC.
    ///
    /// [`Generation::NONE`] is always correct. It disables caches for this address space.
    fn generation(&self) -> Generation;

    /// Returns the row for the code at an address of the process, or `None` if no table covers the code.
    ///
    /// # Errors
    /// The table is damaged.
    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error>;

    /// Returns whether this frame is the first frame of a stack, for example a frame of `_start`. The walk then
    /// ends, whatever the table has for the frame. [`starts_stacks`](cfipack_format::starts_stacks) and
    /// [`switches_stacks`](cfipack_format::switches_stacks) know the names of these functions.
    fn is_start(&self, frame: &StackFrame) -> bool {
        let _ = frame;
        false
    }

    /// Returns whether there may be code at an address. A walk asks it for every return address that no table
    /// covers, and does not go on where there is none.
    fn is_code(&self, pc: Address) -> bool {
        pc.0 != 0
    }

    /// Returns whether a call is directly before a return address, or `None` if the code cannot be read. A walk asks
    /// it for return addresses that depend on a guess.
    fn follows_call(&self, pc: Address) -> Option<bool> {
        let _ = pc;
        None
    }
}

/// Finds the item whose range contains an address. The ranges of the items ascend and do not overlap. Use this function
/// for an [`AddressSpace`] of your own.
#[inline]
pub fn find_by_range<T>(items: &[T], address: Address, range: impl Fn(&T) -> Range<u64>) -> Option<&T> {
    let after = items.partition_point(|item| range(item).start <= address.0);
    let item = items.get(after.checked_sub(1)?)?;
    range(item).contains(&address.0).then_some(item)
}
