//! Walks a whole stack in a single call.

use core::mem::MaybeUninit;

use cfipack_decoder::sframe::Registers;
use cfipack_decoder::walk::{AddressSpace, FoundBy, StackFrame, Walk};
use cfipack_format::Address;

use crate::arguments::{array, array_mut, flag, reference, write, write_optional};
use crate::cfipack_status::{self, InvalidArgument};
use crate::in_place::get;
use crate::modules::cfipack_modules;
use crate::sized_options::{self, SizedOptions};
use crate::status::call;
use crate::step::{OtherRegisters, cfipack_memory, cfipack_registers, word};
use crate::walk_cache::{CacheGuard, cfipack_cache};
use crate::walk_end::{CFIPACK_END_NONE, number_of_end};

/// The innermost frame.
pub const CFIPACK_FOUND_BY_REGISTERS: u8 = 0;
/// The row of the frame before led to this frame, and no frame so far is a guess. It is as correct as the tables.
pub const CFIPACK_FOUND_BY_TABLE: u8 = 1;
/// The frame pointer of the frame before led to this frame, because no table covers that code. This is a guess.
pub const CFIPACK_FOUND_BY_FRAME_POINTER: u8 = 2;
/// The row of the frame before led to this frame, but a frame further in is a guess. It is as correct as that guess.
pub const CFIPACK_FOUND_BY_TABLE_AFTER_GUESS: u8 = 3;

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
    // SAFETY: promised by the caller.
    call(|| unsafe { walk_in(get(modules)?, thread, frames, capacity, count, end) })
}

/// Walks up the stack of a thread in any address space.
///
/// # Safety
/// The conditions of [`cfipack_walk`].
pub(crate) unsafe fn walk_in(
    space: &impl AddressSpace,
    thread: *const cfipack_thread,
    frames: *mut cfipack_frame,
    capacity: usize,
    count: *mut usize,
    end: *mut u32,
) -> Result<(), cfipack_status> {
    // SAFETY: promised by the caller.
    let thread = unsafe { sized_options::read(thread) }.map_err(|_| InvalidArgument)?;
    // SAFETY: promised by the caller.
    let given = unsafe { reference(thread.registers) }?;
    let is_stack = thread.stack_end == 0 || thread.stack_start <= thread.stack_end;
    if thread.reserved != [0; 7] || given.reserved != [0; 6] || thread.address_bits > 55 || !is_stack {
        return Err(InvalidArgument);
    }
    // SAFETY: promised by the caller.
    let memory = unsafe { array(thread.memory, thread.num_memory) }?;
    // SAFETY: promised by the caller.
    let out = unsafe { array_mut(frames.cast::<MaybeUninit<cfipack_frame>>(), capacity) }?;
    let mut others = OtherRegisters::new();
    // SAFETY: promised by the caller.
    let registers = Registers { others: unsafe { others.read(given) }?, ..given.named()? };
    let arch = space.arch();
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
    // A call that fails must not write frames, so check the pointers first.
    // SAFETY: promised by the caller.
    unsafe {
        write(count, 0)?;
        write_optional(end, CFIPACK_END_NONE)?;
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
