//! The code of a process, and its tables.

use cfipack_decoder::sframe::{Error, Frame};
use cfipack_decoder::walk::{
    AddressSpace, Generation, LONGEST_CALL, StackFrame, ends_with_call, find_by_range,
};
use cfipack_format::{Address, Arch};

use crate::arguments::{arch, array};
use crate::cfipack_status::{self, InvalidArgument};
use crate::in_place::{Memory, clear, get, put};
use crate::sframe::cfipack_sframe;
use crate::sframe_index::cfipack_sframe_index;
use crate::status::call;

/// A range of addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct cfipack_range {
    /// The first address.
    pub start: u64,
    /// The address after the last address.
    pub end: u64,
}

/// A mapping of code: a loaded file, or a region of generated code.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_module {
    /// The first address of the code in the process.
    pub start: u64,
    /// The address after the last byte of the code.
    pub end: u64,
    /// The bias of the module: an address in the process minus this is an address in the tables and ranges below.
    pub bias: u64,
    /// A parsed table, or null.
    pub table: *const cfipack_sframe,
    /// An index over a table, which is used instead of `table`, or null.
    pub index: *const cfipack_sframe_index,
    /// The functions in which stacks start, such as `_start`, ascending. These functions are outermost, whatever the
    /// table has.
    pub starts: *const cfipack_range,
    /// The number of elements in `starts`.
    pub num_starts: usize,
    /// The functions that call other functions on a different stack, such as Go's `runtime.mcall`, ascending.
    /// Stacks also start in these functions, except if the function is the innermost frame.
    pub switches: *const cfipack_range,
    /// The number of elements in `switches`.
    pub num_switches: usize,
    /// The bytes of the code from `start` on, or null. Walks then refuse return addresses that depend on a guess and
    /// follow no call. In the process itself, this is `start` as a pointer, if the code can be read.
    pub code: *const u8,
    /// The length of `code` in bytes. It may be less than the module's.
    pub code_len: usize,
}

/// The modules of a process at one time, in memory of the caller. Any number of threads may read it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_modules {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 8],
}

/// The value of [`cfipack_modules`].
pub(crate) struct Space {
    arch: Arch,
    generation: Generation,
    modules: &'static [cfipack_module],
}

impl Memory for cfipack_modules {
    const TAG: u64 = u64::from_le_bytes(*b"cfiMODUL");
    type Value = Space;
}

impl Space {
    fn find(&self, pc: u64) -> Option<&cfipack_module> {
        find_by_range(self.modules, Address(pc), |module| module.start..module.end)
    }
}

/// Returns whether an address is in any of the ascending ranges.
///
/// # Safety
/// The ranges are readable.
unsafe fn is_in(ranges: *const cfipack_range, len: usize, pc: u64) -> bool {
    // SAFETY: promised by the caller.
    let ranges = unsafe { array(ranges, len) }.unwrap_or_default();
    find_by_range(ranges, Address(pc), |range| range.start..range.end).is_some()
}

impl AddressSpace for Space {
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
        let Some(module) = self.find(pc.0) else { return Ok(None) };
        let pc = Address(pc.0.wrapping_sub(module.bias));
        // SAFETY: promised to `cfipack_modules_init`, which has refused memory that is not a table.
        if let Ok(index) = unsafe { get(module.index) } {
            return index.lookup_frame(pc);
        }
        // SAFETY: as above.
        match unsafe { get(module.table) } {
            Ok(table) => table.lookup_frame(pc),
            Err(_) => Ok(None),
        }
    }

    #[inline]
    fn is_start(&self, frame: &StackFrame) -> bool {
        let pc = frame.lookup_address().0;
        let Some(module) = self.find(pc) else { return false };
        let pc = pc.wrapping_sub(module.bias);
        // SAFETY: the promise of `cfipack_modules_init`.
        unsafe {
            is_in(module.starts, module.num_starts, pc)
                || !frame.is_exact && is_in(module.switches, module.num_switches, pc)
        }
    }

    #[inline]
    fn is_code(&self, pc: Address) -> bool {
        self.find(pc.0).is_some()
    }

    fn follows_call(&self, pc: Address) -> Option<bool> {
        let module = self.find(pc.0.checked_sub(1)?)?;
        let len = usize::try_from(pc.0 - module.start).ok()?;
        if module.code.is_null() || len > module.code_len {
            return None;
        }
        let mut last = [0; LONGEST_CALL];
        let start = len.saturating_sub(LONGEST_CALL);
        for (at, byte) in last.iter_mut().enumerate().take(len - start) {
            // SAFETY: within the code, which is readable by the promise of `cfipack_modules_init`. This makes no
            // reference, because code may be written while it runs.
            *byte = unsafe { module.code.wrapping_add(start + at).read() };
        }
        ends_with_call(self.arch, &last[..len - start])
    }
}

/// Creates an address space from modules, which must be ascending and must not overlap. The modules, and everything
/// that they point to, must stay unchanged as long as the space is used. After a change, for example a `dlclose`,
/// create a new space; you may reuse the memory. Each space has a number of its own, so a cache never mixes rows of
/// different spaces. Async-signal-safe.
///
/// # Safety
/// `modules`, and everything that they point to, are readable; `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_modules_init(
    out: *mut cfipack_modules,
    architecture: u32,
    modules: *const cfipack_module,
    count: usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { clear(out) }?;
        let arch = arch(architecture)?;
        // SAFETY: promised by the caller.
        let modules: &'static [cfipack_module] = unsafe { array(modules, count) }?;
        let mut end = 0;
        for module in modules {
            if module.start < end || module.end < module.start {
                return Err(InvalidArgument);
            }
            end = module.end;
            // SAFETY: promised by the caller.
            let table_arch = unsafe {
                ascending(module.starts, module.num_starts)?;
                ascending(module.switches, module.num_switches)?;
                match (module.index.is_null(), module.table.is_null()) {
                    (false, _) => get(module.index)?.section().arch(),
                    (true, false) => get(module.table)?.arch(),
                    (true, true) => arch,
                }
            };
            if table_arch != arch {
                return Err(InvalidArgument);
            }
        }
        // SAFETY: promised by the caller.
        unsafe { put(out, Space { arch, generation: Generation::new(), modules }) }
    })
}

/// Checks that ranges ascend.
///
/// # Safety
/// The conditions of [`array()`].
unsafe fn ascending(ranges: *const cfipack_range, len: usize) -> Result<(), cfipack_status> {
    // SAFETY: promised by the caller.
    let ranges = unsafe { array(ranges, len) }?;
    let are_ranges = ranges.iter().all(|range| range.start <= range.end);
    if are_ranges && ranges.is_sorted_by_key(|range| range.start) { Ok(()) } else { Err(InvalidArgument) }
}
