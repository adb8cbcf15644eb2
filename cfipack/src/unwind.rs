//! For profilers: the names that lookups and walks need, in one place.
//!
//! A [`Section`] borrows a table and finds the row of a PC. [`step`] goes from a frame's registers to its caller's. [`Walk`]
//! goes up a whole stack through the [`Modules`] of a process, by frame pointer where no table covers the code. Nothing here
//! allocates or takes a lock, so you can use it in a signal handler.
//!
//! For a profiler inside a Linux process, `ProcessModules` (feature `process`) finds the loaded files and their tables.
//!
//! The page [For profilers](crate::for_profilers) describes where tables are found, caches and signal frames.
//!
//! ```
//! use cfipack::unwind::{Address, Arch, End, FoundBy, Module, Modules, Registers, Section, Walk};
//!
//! // The table that GNU as 2.47 writes for a function with a frame pointer:
//! // push rbp; mov rbp, rsp; nop; pop rbp; ret
//! let table = [
//!     0xe2, 0xde, 3, 5, 3, 0, 0xf8, 0, 1, 0, 0, 0, 4, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, // header
//!     0xe4, 0xef, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, // index
//!     4, 0, 0, 0, 0, 0, 3, 8, 1, 5, 16, 0xf0, 4, 4, 16, 0xf0, 6, 5, 8, 0xf0, // rows
//! ];
//! let section = Section::parse(&table, Address(0x2000))?;
//! let modules = [Module::new(Address(0x1000)..Address(0x2000), 0).with_table(section)];
//! let modules = Modules::new(Arch::Amd64, &modules[..])?;
//!
//! // The thread has stopped at the `nop`. Its stack, from 0x7000: the saved rbp, and the return address into code at
//! // 0x1800 that has no table and a null frame pointer.
//! let stack = [0x7010_u64, 0x1800, 0, 0];
//! let memory = |address: Address| stack.get(usize::try_from(address.0.checked_sub(0x7000)?).ok()? / 8).copied();
//! let registers = Registers { sp: 0x7000, fp: Some(0x7000), lr: None, others: &[] };
//! let mut walk = Walk::new(&modules, Address(0x1004), registers, memory);
//! let found: Vec<_> = walk.by_ref().map(|frame| (frame.pc.0, frame.found_by)).collect();
//! assert_eq!(found, [(0x1004, FoundBy::Registers), (0x1800, FoundBy::Table)]);
//! assert_eq!(walk.end(), Some(End::GuessedNull));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use cfipack_decoder::sframe::{Caller, Index, Registers, Section, StepError, step};
pub use cfipack_decoder::walk::{AddressSpace, Cache, CacheEntry, End, FoundBy, Generation};
pub use cfipack_decoder::walk::{LONGEST_CALL, Module, Modules, StackFrame, Walk, ends_with_call};
pub use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};
#[cfg(all(
    feature = "process",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "s390x")
))]
pub use cfipack_process::{CurrentModules, Options as ProcessOptions, ProcessModules, Refreshed};
