//! Walks up a stack, from the registers of a thread to its outermost frame.
//!
//! [`Walk`] is the complete stack walk of a profiler. It needs no `std`, no allocation and no lock, so you can
//! run it in a signal handler. For each frame it looks up the PC in an [`AddressSpace`] and applies the row.
//! Where no table covers the code, it follows the frame pointer, after a check against the bounds of the stack.
//! It knows where stacks end.
//!
//! - [`Walk`] goes from frame to frame, and [`End`] gives the reason why it stops.
//! - [`StackFrame`] is a frame. Its [`found_by`](StackFrame::found_by) is how the walk has found the frame.
//! - [`ends_with_call`] recognises the call before a return address.
//! - [`AddressSpace`] is a trait: the code of a process and its tables. [`Modules`] implements it for loaded
//!   files.
//! - [`find_by_range`] finds the module of an address.
//! - [`Cache`] makes the steps from known PCs several times as fast, in memory that you give it.
//! - [`Generation`] identifies an address space between two changes. A cache finds entries by PC and
//!   generation, so a cached row never outlives its table or its code.

mod cache;
mod cached_row;
mod call;
mod generation;
mod modules;
mod space;
mod stack_frame;
mod walker;

pub use cache::{Cache, CacheEntry};
pub use call::{LONGEST_CALL, ends_with_call};
pub use generation::Generation;
pub use modules::{Module, Modules, ModulesError};
pub use space::{AddressSpace, find_by_range};
pub use stack_frame::{End, FoundBy, StackFrame};
pub use walker::Walk;
