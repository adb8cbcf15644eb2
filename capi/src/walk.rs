//! Walks a whole stack in a single call.

use core::mem::{MaybeUninit, align_of, size_of};
use core::sync::atomic::{AtomicU32, Ordering};

use cfipack_decoder::sframe::{Error, Frame, Registers};
use cfipack_decoder::walk::{
    AddressSpace, Cache, CacheEntry, End, FoundBy, Generation, StackFrame, Walk, ends_with_call,
};
use cfipack_format::{Address, Arch};

use crate::arguments::{arch, array, array_mut, flag, reference, write, write_optional};
use crate::cfipack_status::{self, InvalidArgument};
use crate::in_place::{Memory, clear, get, put};
use crate::sframe::cfipack_sframe;
use crate::sframe_index::cfipack_sframe_index;
use crate::sized_options::{self, SizedOptions};
use crate::status::call;
use crate::step::{OtherRegisters, cfipack_memory, cfipack_registers, word};

/// The walk has not ended: there are more frames than fit.
pub const CFIPACK_END_NONE: u32 = 0;
/// The row of the last frame marks an outermost frame. The stack is complete.
pub const CFIPACK_END_OUTERMOST: u32 = 1;
/// The last frame is in `starts` or `switches` of its module, so the stack starts there. The stack is complete.
pub const CFIPACK_END_START: u32 = 2;
/// The return address is 0, and no frame is a guess. The stack is complete.
pub const CFIPACK_END_NULL: u32 = 3;
/// No table covers the code of the last frame, and its frame pointer does not lead to a frame of this stack.
pub const CFIPACK_END_NO_ROW: u32 = 4;
/// The row of the last frame needs a register that tables do not restore for a caller.
pub const CFIPACK_END_REGISTER: u32 = 5;
/// The row of the last frame needs memory that was not given.
pub const CFIPACK_END_MEMORY: u32 = 6;
/// The caller's frame would not lie above the last frame, or would lie outside the stack.
pub const CFIPACK_END_NOT_RISING: u32 = 7;
/// The row of the last frame has a rule that is impossible in a table.
pub const CFIPACK_END_RULE: u32 = 8;
/// The table of the last frame's code is damaged.
pub const CFIPACK_END_TABLE: u32 = 9;
/// The end is unknown: the return address is 0 after a guess, or the frame pointer of code that no table covers is 0.
/// The last frame may be outermost, or callers are missing because the code has other values in the register.
pub const CFIPACK_END_GUESSED_NULL: u32 = 10;
/// The return address is in no module. After a guess it is also this if no call is before the return address.
pub const CFIPACK_END_NOT_CODE: u32 = 11;

/// The innermost frame.
pub const CFIPACK_FOUND_BY_REGISTERS: u8 = 0;
/// The row of the frame before led to this frame, and no frame so far is a guess. It is as correct as the tables.
pub const CFIPACK_FOUND_BY_TABLE: u8 = 1;
/// The frame pointer of the frame before led to this frame, because no table covers that code. This is a guess.
pub const CFIPACK_FOUND_BY_FRAME_POINTER: u8 = 2;
/// The row of the frame before led to this frame, but a frame further in is a guess. It is as correct as that guess.
pub const CFIPACK_FOUND_BY_TABLE_AFTER_GUESS: u8 = 3;

/// No call has more bytes.
const LONGEST_CALL: usize = 16;

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

/// A cache of rows by PC, in memory of the caller. Only one walk at a time uses it. Other walks, in any thread or
/// signal handler, see that it is in use and do without it.
#[repr(C)]
#[derive(Debug)]
pub struct cfipack_cache {
    /// Memory that only the library reads and writes.
    pub opaque: [u64; 8],
}

/// A frame of a stack.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_frame {
    /// The address of the next instruction in the innermost frame. In other frames it is the return address
    /// without a signature.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// 1 if `pc` is an instruction that has not run yet; 0 if `pc` follows a call, and then the byte before `pc`
    /// belongs to the function.
    pub is_exact: u8,
    /// `CFIPACK_FOUND_BY_...`
    pub found_by: u8,
    /// Always 0.
    pub reserved: [u8; 6],
}

/// The thread to walk. If a field other than `size` is 0, its default applies.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_thread {
    /// `sizeof(cfipack_thread)`
    pub size: u32,
    /// AArch64: the number of bits of an address without a signature, at most 55. 0 means 48.
    pub address_bits: u32,
    /// The address of the next instruction in the innermost frame.
    pub pc: u64,
    /// The registers of the innermost frame.
    pub registers: *const cfipack_registers,
    /// The readable parts of the stack, as for `cfipack_step`.
    pub memory: *const cfipack_memory,
    /// The number of elements in `memory`.
    pub num_memory: usize,
    /// The first address of the stack. Frames outside the stack are not followed, even if their memory is given.
    pub stack_start: u64,
    /// The address after the stack, or 0 if the bounds of the stack are unknown.
    pub stack_end: u64,
    /// A cache, or null.
    pub cache: *mut cfipack_cache,
    /// 1 to end the walk at code that no table covers, instead of following its frame pointer.
    pub no_frame_pointers: u8,
    /// Must be 0.
    pub reserved: [u8; 7],
}

// SAFETY: integers and pointers without padding.
unsafe impl SizedOptions for cfipack_thread {
    const DEFAULT: Self = Self {
        size: 0,
        address_bits: 0,
        pc: 0,
        registers: core::ptr::null(),
        memory: core::ptr::null(),
        num_memory: 0,
        stack_start: 0,
        stack_end: 0,
        cache: core::ptr::null_mut(),
        no_frame_pointers: 0,
        reserved: [0; 7],
    };
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

/// The value of [`cfipack_cache`].
pub(crate) struct CacheMemory {
    is_used: AtomicU32,
    start: *mut CacheEntry,
    len: usize,
}

impl Memory for cfipack_cache {
    const TAG: u64 = u64::from_le_bytes(*b"cfiCACHE");
    type Value = CacheMemory;
}

impl Space {
    fn find(&self, pc: u64) -> Option<&cfipack_module> {
        let after = self.modules.partition_point(|module| module.start <= pc);
        let module = self.modules.get(after.checked_sub(1)?)?;
        (pc < module.end).then_some(module)
    }
}

/// Returns whether an address is in any of the ascending ranges.
///
/// # Safety
/// The ranges are readable.
unsafe fn is_in(ranges: *const cfipack_range, len: usize, pc: u64) -> bool {
    // SAFETY: promised by the caller.
    let ranges = unsafe { array(ranges, len) }.unwrap_or_default();
    let after = ranges.partition_point(|range| range.start <= pc);
    let Some(last) = after.checked_sub(1).and_then(|at| ranges.get(at)) else { return false };
    pc < last.end
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
                array(module.starts, module.num_starts)?;
                array(module.switches, module.num_switches)?;
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

/// Creates an empty cache in `size` bytes of `memory`. The memory must stay where it is as long as the cache is used.
/// Each PC needs 32 bytes, and 32 kB suffice for most programs. Async-signal-safe.
///
/// # Safety
/// `memory` is writable for `size` bytes and belongs to the cache alone, `out` is writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_cache_init(
    out: *mut cfipack_cache,
    memory: *mut u8,
    size: usize,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        unsafe { clear(out) }?;
        let before = memory.align_offset(align_of::<CacheEntry>());
        let len = size.saturating_sub(before) / size_of::<CacheEntry>();
        // SAFETY: promised by the caller.
        unsafe { array_mut(memory, size) }?;
        let start = memory.wrapping_add(if len == 0 { 0 } else { before }).cast::<CacheEntry>();
        for at in 0..len {
            // SAFETY: aligned, and within the memory.
            unsafe { start.wrapping_add(at).write(CacheEntry::EMPTY) };
        }
        // SAFETY: promised by the caller.
        unsafe { put(out, CacheMemory { is_used: AtomicU32::new(0), start, len }) }
    })
}

/// The right to use a cache. It is returned at the end of a walk.
struct CacheGuard<'c>(&'c CacheMemory);

impl<'c> CacheGuard<'c> {
    fn take(places: &'c CacheMemory) -> Option<Self> {
        let free = places.is_used.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok().then_some(Self(places))
    }

    fn cache(&mut self) -> Cache<'_> {
        let CacheMemory { start, len, .. } = *self.0;
        // SAFETY: written by `cfipack_cache_init`, and only this walk uses it now.
        Cache::new(match len {
            0 => &mut [],
            len => unsafe { core::slice::from_raw_parts_mut(start, len) },
        })
    }
}

impl Drop for CacheGuard<'_> {
    fn drop(&mut self) {
        self.0.is_used.store(0, Ordering::Release);
    }
}

/// Walks up the stack of a thread. `frames` gets as many frames as fit, innermost first, and `count` gets their
/// number. `end` may be null; otherwise it gets the reason why there are no more frames: `CFIPACK_END_...`
///
/// The row of a frame's PC leads to its caller. If no table covers the code, the walk follows the frame pointer,
/// provided that it leads to a frame inside the stack and to code of a module, after a call if the code can be read.
/// This is a guess: `found_by` of each frame says whether the frame depends on a guess. Every return address has to be
/// in a module. Async-signal-safe.
///
/// # Safety
/// `modules` and the cache were created; `thread`, and everything that it points to, are readable; `frames` is
/// writable for `capacity` frames; `count` is writable, and `end` too if it is not null.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_walk(
    modules: *const cfipack_modules,
    thread: *const cfipack_thread,
    frames: *mut cfipack_frame,
    capacity: usize,
    count: *mut usize,
    end: *mut u32,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let space = unsafe { get(modules) }?;
        // SAFETY: promised by the caller.
        let thread = unsafe { sized_options::read(thread) }.map_err(|_| InvalidArgument)?;
        // SAFETY: promised by the caller.
        let given = unsafe { reference(thread.registers) }?;
        // SAFETY: promised by the caller.
        let memory = unsafe { array(thread.memory, thread.num_memory) }?;
        // SAFETY: promised by the caller.
        let out = unsafe { array_mut(frames.cast::<MaybeUninit<cfipack_frame>>(), capacity) }?;
        let mut others = OtherRegisters::new();
        // SAFETY: promised by the caller.
        let registers = Registers { others: unsafe { others.read(given) }?, ..given.named()? };
        let arch = space.arch;
        // SAFETY: promised by the caller.
        let read = |address: Address| unsafe { word(memory, address, arch) };
        let mut used = if thread.cache.is_null() {
            None
        } else {
            // SAFETY: promised by the caller.
            CacheGuard::take(unsafe { get(thread.cache.cast_const()) }?)
        };
        let mut cache = used.as_mut().map(CacheGuard::cache);
        let mut walk = Walk::new(space, Address(thread.pc), registers, read)
            .with_frame_pointers(!flag(thread.no_frame_pointers)?);
        if let Some(cache) = &mut cache {
            walk = walk.with_cache(cache);
        }
        if thread.stack_end != 0 {
            walk = walk.with_stack(Address(thread.stack_start)..Address(thread.stack_end));
        }
        if thread.address_bits != 0 {
            walk = walk.with_address_bits(thread.address_bits);
        }
        let mut found = 0;
        for (out, frame) in out.iter_mut().zip(walk.by_ref()) {
            out.write(frame.into());
            found += 1;
        }
        // If `frames` is full, asks for another frame: the walk may end here, and then `end` gets the reason.
        if found == capacity {
            walk.next();
        }
        let reason = walk.end().map_or(CFIPACK_END_NONE, number_of_end);
        // SAFETY: promised by the caller.
        unsafe {
            write_optional(end, reason)?;
            write(count, found)
        }
    })
}

fn number_of_end(end: End) -> u32 {
    match end {
        End::Outermost => CFIPACK_END_OUTERMOST,
        End::Start => CFIPACK_END_START,
        End::Null => CFIPACK_END_NULL,
        End::NoRow => CFIPACK_END_NO_ROW,
        End::Register { .. } => CFIPACK_END_REGISTER,
        End::Memory { .. } => CFIPACK_END_MEMORY,
        End::NotRising => CFIPACK_END_NOT_RISING,
        End::Rule => CFIPACK_END_RULE,
        End::GuessedNull => CFIPACK_END_GUESSED_NULL,
        End::NotCode { .. } => CFIPACK_END_NOT_CODE,
        _ => CFIPACK_END_TABLE,
    }
}

impl From<StackFrame> for cfipack_frame {
    #[inline]
    fn from(frame: StackFrame) -> Self {
        let found_by = match frame.found_by {
            FoundBy::Registers => CFIPACK_FOUND_BY_REGISTERS,
            FoundBy::Table => CFIPACK_FOUND_BY_TABLE,
            FoundBy::FramePointer => CFIPACK_FOUND_BY_FRAME_POINTER,
            FoundBy::TableAfterGuess => CFIPACK_FOUND_BY_TABLE_AFTER_GUESS,
        };
        let is_exact = frame.is_exact.into();
        Self { pc: frame.pc.0, sp: frame.sp, is_exact, found_by, reserved: [0; 6] }
    }
}

/// Returns the meaning of `CFIPACK_END_...` in English. The string is static and never null.
#[unsafe(no_mangle)]
pub extern "C" fn cfipack_end_text(end: u32) -> *const core::ffi::c_char {
    let text = match end {
        CFIPACK_END_NONE => c"more frames",
        CFIPACK_END_OUTERMOST => c"outermost",
        CFIPACK_END_START => c"start of the stack",
        CFIPACK_END_NULL => c"address 0",
        CFIPACK_END_NO_ROW => c"no row",
        CFIPACK_END_REGISTER => c"no register",
        CFIPACK_END_MEMORY => c"no memory",
        CFIPACK_END_NOT_RISING => c"not rising",
        CFIPACK_END_RULE => c"no such rule",
        CFIPACK_END_TABLE => c"damaged table",
        CFIPACK_END_GUESSED_NULL => c"address 0 after a guess",
        CFIPACK_END_NOT_CODE => c"return address outside code",
        _ => c"unknown end",
    };
    text.as_ptr()
}
