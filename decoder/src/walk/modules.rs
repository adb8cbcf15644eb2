//! Loaded files and their tables.

use core::ops::{Deref, Range};

use cfipack_format::{Address, Arch};

use super::call::ends_with_call;
use super::{AddressSpace, Generation, StackFrame, find_by_range};
use crate::sframe::{Error, Frame, Index, Section};

/// A range of code in a process: a loaded file, or a region of generated code.
#[derive(Clone, Debug)]
pub struct Module<'a, 'm> {
    code: Range<u64>,
    bias: u64,
    table: Table<'a, 'm>,
    bytes: &'m [u8],
    starts: &'m [Range<Address>],
    switches: &'m [Range<Address>],
}

#[derive(Clone, Copy, Debug)]
enum Table<'a, 'm> {
    None,
    InPlace(Section<'a>),
    Indexed(Index<'a, 'm>),
}

impl<'a, 'm> Module<'a, 'm> {
    /// Creates a module without a table. `code` is its range in the process. `bias` is the difference between
    /// an address in the process and the address in the file.
    pub const fn new(code: Range<Address>, bias: u64) -> Self {
        let code = Range { start: code.start.0, end: code.end.0 };
        Self { code, bias, table: Table::None, bytes: &[], starts: &[], switches: &[] }
    }

    /// Sets the table. The table's address must be its address in the file.
    #[must_use]
    pub const fn with_table(mut self, table: Section<'a>) -> Self {
        self.table = Table::InPlace(table);
        self
    }

    /// Sets the table with an index, which makes lookups about twice as fast.
    #[must_use]
    pub const fn with_index(mut self, index: Index<'a, 'm>) -> Self {
        self.table = Table::Indexed(index);
        self
    }

    /// Sets the bytes of the code, from the start of its range. Fewer bytes than the range has are allowed. Walks then
    /// refuse return addresses that depend on a guess and follow no call.
    #[must_use]
    pub const fn with_bytes(mut self, bytes: &'m [u8]) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the functions that are the first frame of a stack, for example `_start`. Pass address ranges in the
    /// file, in ascending order. [`starts_stacks`](cfipack_format::starts_stacks) knows the names of these
    /// functions.
    #[must_use]
    pub const fn with_starts(mut self, starts: &'m [Range<Address>]) -> Self {
        self.starts = starts;
        self
    }

    /// Sets the functions that call other functions on a new stack. Pass address ranges in the file, in
    /// ascending order. The walk ends when a frame returns into a function of this kind. It goes on if the
    /// function itself is executing, because then it still is on its caller's stack.
    /// [`switches_stacks`](cfipack_format::switches_stacks) knows the names of these functions.
    #[must_use]
    pub const fn with_switches(mut self, switches: &'m [Range<Address>]) -> Self {
        self.switches = switches;
        self
    }

    #[inline]
    fn in_file(&self, pc: Address) -> Address {
        Address(pc.0.wrapping_sub(self.bias))
    }
}

/// The modules of a process at a point in time. `Modules` implements [`AddressSpace`].
///
/// It holds a list of modules: a slice, or a type that owns a slice. `Modules` cannot change. After a file is
/// loaded or unloaded, create new `Modules`; they get a new [`Generation`]. A copy has the same generation.
#[derive(Clone, Copy, Debug)]
pub struct Modules<L> {
    arch: Arch,
    generation: Generation,
    modules: L,
}

cfipack_format::errors! {
    /// The reason why [`Modules::new`] refuses a list.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum ModulesError {
        /// A module ends before it starts, or starts before the end of the module before it.
        #[error("module {module} does not lie after the one before")]
        Order {
            /// The number of the module, from 0.
            module: usize,
        },
        /// The table of a module is for another architecture.
        #[error("the table of module {module} is for another architecture")]
        Arch {
            /// The number of the module, from 0.
            module: usize,
        },
    }
}

impl<'a, 'm, L: Deref<Target = [Module<'a, 'm>]>> Modules<L> {
    /// Creates an address space from modules in ascending order that do not overlap. You can call this function
    /// in a signal handler.
    ///
    /// # Errors
    /// The modules are not in ascending order, two modules overlap, or a table is for another architecture.
    pub fn new(arch: Arch, modules: L) -> Result<Self, ModulesError> {
        let mut end = 0;
        for (number, module) in modules.iter().enumerate() {
            if module.code.start < end || module.code.end < module.code.start {
                return Err(ModulesError::Order { module: number });
            }
            end = module.code.end;
            let table_arch = match &module.table {
                Table::None => arch,
                Table::InPlace(section) => section.arch(),
                Table::Indexed(index) => index.section().arch(),
            };
            if table_arch != arch {
                return Err(ModulesError::Arch { module: number });
            }
        }
        Ok(Self { arch, generation: Generation::new(), modules })
    }

    /// Returns the module that contains an address of the process.
    #[inline]
    pub fn find(&self, pc: Address) -> Option<&Module<'a, 'm>> {
        find_by_range(&self.modules, pc, |module| module.code.clone())
    }
}

impl<'a, 'm, L: Deref<Target = [Module<'a, 'm>]>> AddressSpace for Modules<L> {
    #[inline]
    fn arch(&self) -> Arch {
        self.arch
    }

    #[inline]
    fn generation(&self) -> Generation {
        self.generation
    }

    #[inline]
    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        let Some(module) = self.find(pc) else { return Ok(None) };
        match &module.table {
            Table::None => Ok(None),
            Table::InPlace(section) => section.lookup_frame(module.in_file(pc)),
            Table::Indexed(index) => index.lookup_frame(module.in_file(pc)),
        }
    }

    #[inline]
    fn is_start(&self, frame: &StackFrame) -> bool {
        let pc = frame.lookup_address();
        let Some(module) = self.find(pc) else { return false };
        let pc = module.in_file(pc);
        is_in(module.starts, pc) || !frame.is_exact && is_in(module.switches, pc)
    }

    /// Returns whether a module contains the address. A process with generated code needs a module for it, with
    /// or without a table.
    #[inline]
    fn is_code(&self, pc: Address) -> bool {
        self.find(pc).is_some()
    }

    fn follows_call(&self, pc: Address) -> Option<bool> {
        let module = self.find(Address(pc.0.checked_sub(1)?))?;
        let len = usize::try_from(pc.0 - module.code.start).ok()?;
        ends_with_call(self.arch, module.bytes.get(..len)?)
    }
}

/// Returns whether a range contains the address. The ranges are in ascending order.
fn is_in(ranges: &[Range<Address>], pc: Address) -> bool {
    find_by_range(ranges, pc, |range| range.start.0..range.end.0).is_some()
}
