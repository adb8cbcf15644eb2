//! The questions of a walk about code.

use cfipack_format::{Address, Arch};

use super::{Generation, StackFrame};
use crate::sframe::{Error, Frame};

/// The code of a process, and the tables that describe it. [`Modules`](super::Modules) is one for loaded files;
/// implement it for others.
pub trait AddressSpace {
    /// The architecture of the code.
    fn arch(&self) -> Arch;

    /// The generation, which is a new one ([`Generation::new`]) since the latest change of what the other methods
    /// answer. Each frame asks for it before it looks up.
    ///
    /// [`Generation::NONE`] is always right, and keeps the space out of caches.
    fn generation(&self) -> Generation;

    /// Finds the row for the code at an address of the process. `None`: no table covers it.
    ///
    /// # Errors
    /// The table is damaged.
    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error>;

    /// Returns whether a stack starts with this frame, as with one of `_start`: it is outermost, whatever a table has for
    /// it. [`starts_stacks`](cfipack_format::starts_stacks) and [`switches_stacks`](cfipack_format::switches_stacks) know
    /// the names of such functions.
    fn is_start(&self, frame: &StackFrame) -> bool {
        let _ = frame;
        false
    }

    /// Returns whether there may be code at an address. Return addresses that frame pointers lead to are checked by it.
    fn is_code(&self, pc: Address) -> bool {
        pc.0 != 0
    }
}
