//! Loaded files and their tables.

use core::fmt;
use core::ops::{Deref, Range};

use cfipack_format::{Address, Arch};

use super::{AddressSpace, Generation, StackFrame};
use crate::sframe::{Error, Frame, Index, Section};

/// A mapping of code: a loaded file, or a region of generated code.
#[derive(Clone, Debug)]
pub struct Module<'a, 'm> {
    code: Range<u64>,
    bias: u64,
    table: Table<'a, 'm>,
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
    /// A module whose code lies at `code` in the process, `bias` above its addresses in the file, without a table.
    pub const fn new(code: Range<Address>, bias: u64) -> Self {
        let code = Range { start: code.start.0, end: code.end.0 };
        Self { code, bias, table: Table::None, starts: &[], switches: &[] }
    }

    /// Sets the table, whose address is that in the file.
    #[must_use]
    pub const fn with_table(mut self, table: Section<'a>) -> Self {
        self.table = Table::InPlace(table);
        self
    }

    /// Sets the table with an index over it: lookups are about twice as fast.
    #[must_use]
    pub const fn with_index(mut self, index: Index<'a, 'm>) -> Self {
        self.table = Table::Indexed(index);
        self
    }

    /// Sets the functions in which stacks start, by addresses in the file, ascending
    /// ([`starts_stacks`](cfipack_format::starts_stacks) knows their names).
    #[must_use]
    pub const fn with_starts(mut self, starts: &'m [Range<Address>]) -> Self {
        self.starts = starts;
        self
    }

    /// Sets the functions that call others on another stack, by addresses in the file, ascending
    /// ([`switches_stacks`](cfipack_format::switches_stacks) knows their names): stacks start in them too, but not where
    /// they are innermost.
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

/// The modules of a process at one time, as an [`AddressSpace`].
///
/// It has the list of them, a slice or what owns one, and cannot be changed: what is unloaded, or changes, needs new
/// `Modules`, whose [`Generation`] is a new one. A copy is the same space.
#[derive(Clone, Copy, Debug)]
pub struct Modules<L> {
    arch: Arch,
    generation: Generation,
    modules: L,
}

/// The modules are not in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ModulesError {
    /// A module ends before it starts, or starts before the end of the one before.
    Order {
        /// The number of the module.
        module: usize,
    },
    /// A table is for another architecture.
    Arch {
        /// The number of the module.
        module: usize,
    },
}

impl<'a, 'm, L: Deref<Target = [Module<'a, 'm>]>> Modules<L> {
    /// A space of these modules, which ascend and do not overlap. Async-signal-safe.
    ///
    /// # Errors
    /// The modules do not ascend, two overlap, or a table is for another architecture.
    pub fn new(arch: Arch, modules: L) -> Result<Self, ModulesError> {
        let mut end = 0;
        for (number, module) in modules.iter().enumerate() {
            if module.code.start < end || module.code.end < module.code.start {
                return Err(ModulesError::Order { module: number });
            }
            end = module.code.end;
            let of = match &module.table {
                Table::None => arch,
                Table::InPlace(section) => section.arch(),
                Table::Indexed(index) => index.section().arch(),
            };
            if of != arch {
                return Err(ModulesError::Arch { module: number });
            }
        }
        Ok(Self { arch, generation: Generation::new(), modules })
    }

    /// The module whose code has an address.
    #[inline]
    pub fn find(&self, pc: Address) -> Option<&Module<'a, 'm>> {
        let after = self.modules.partition_point(|module| module.code.start <= pc.0);
        let module = self.modules.get(after.checked_sub(1)?)?;
        (pc.0 < module.code.end).then_some(module)
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

    /// In a module. A process with generated code has modules without tables for it.
    #[inline]
    fn is_code(&self, pc: Address) -> bool {
        self.find(pc).is_some()
    }
}

/// Returns whether one of ascending ranges has an address.
fn is_in(ranges: &[Range<Address>], pc: Address) -> bool {
    let after = ranges.partition_point(|range| range.start <= pc);
    after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|range| range.contains(&pc))
}

impl fmt::Display for ModulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order { module } => write!(f, "module {module} does not lie after the one before"),
            Self::Arch { module } => write!(f, "the table of module {module} is for another architecture"),
        }
    }
}

impl core::error::Error for ModulesError {}
