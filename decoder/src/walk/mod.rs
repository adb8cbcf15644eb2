//! Walks up a stack: from the registers of a thread to its outermost frame.
//!
//! [`Walk`] is the whole policy of a profiler, and needs neither `std` nor allocation, nor locks: it may run in a signal
//! handler. It looks the PC of each frame up in an [`AddressSpace`], which [`Modules`] is for loaded files, and steps by
//! the row; code that no table covers it leaves by the frame pointer, checked against the bounds of the stack. It knows
//! where stacks end, and [`StackFrame::found_by`] states how each frame was found.
//!
//! A [`Cache`] in memory of the caller makes frames whose PC was walked before several times as fast. What it has is
//! found by PC and by [`Generation`], which every change of an address space makes a new one, so that no row outlives
//! the table or the code that it came from.

mod cache;
mod cached_row;
mod generation;
mod modules;
mod space;
mod stack_frame;
mod walker;

pub use cache::{Cache, CacheEntry};
pub use generation::Generation;
pub use modules::{Module, Modules, ModulesError};
pub use space::AddressSpace;
pub use stack_frame::{End, FoundBy, StackFrame};
pub use walker::Walk;
