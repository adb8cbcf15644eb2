//! Checks the arguments of a call: pointers may be null or misaligned, and lengths may be impossible.

use core::ffi::c_char;
use core::fmt;
use core::mem::{MaybeUninit, size_of};

use cfipack_format::Arch;

use crate::cfipack_status::{self, BufferSize, InvalidArgument};
use crate::status::Text;

/// x86-64, little endian.
pub const CFIPACK_ARCH_AMD64: u32 = 1;
/// AArch64, little endian; also Apple's arm64.
pub const CFIPACK_ARCH_AARCH64: u32 = 2;
/// AArch64, big endian.
pub const CFIPACK_ARCH_AARCH64_BE: u32 = 3;
/// s390x, big endian.
pub const CFIPACK_ARCH_S390X: u32 = 4;
/// i386: only `__unwind_info`.
pub const CFIPACK_ARCH_I386: u32 = 5;
/// arm64_32: only `__unwind_info`.
pub const CFIPACK_ARCH_ARM64_32: u32 = 6;
/// riscv64: only call frame information of generated code.
pub const CFIPACK_ARCH_RISCV64: u32 = 7;

/// Returns the architecture with a number.
pub(crate) fn arch(number: u32) -> Result<Arch, cfipack_status> {
    Arch::ALL.into_iter().find(|&arch| arch_number(arch) == number).ok_or(InvalidArgument)
}

pub(crate) fn arch_number(arch: Arch) -> u32 {
    match arch {
        Arch::Amd64 => CFIPACK_ARCH_AMD64,
        Arch::Aarch64 => CFIPACK_ARCH_AARCH64,
        Arch::Aarch64Be => CFIPACK_ARCH_AARCH64_BE,
        Arch::S390x => CFIPACK_ARCH_S390X,
        Arch::I386 => CFIPACK_ARCH_I386,
        Arch::Arm64_32 => CFIPACK_ARCH_ARM64_32,
        Arch::Riscv64 => CFIPACK_ARCH_RISCV64,
    }
}

/// Returns an array of the caller. Null is an empty array if the length is 0.
///
/// # Safety
/// An array that is not null, is aligned and does not reach beyond memory must be readable for `'a`.
pub(crate) unsafe fn array<'a, T>(start: *const T, len: usize) -> Result<&'a [T], cfipack_status> {
    if len == 0 {
        return Ok(&[]);
    }
    if !is_array(start, len) {
        return Err(InvalidArgument);
    }
    // SAFETY: not null, aligned, no longer than memory; readable by the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(start, len) })
}

/// Returns an array of the caller for writing.
///
/// # Safety
/// The conditions of [`array()`]. The memory is writable, and nothing else refers to it.
pub(crate) unsafe fn array_mut<'a, T>(start: *mut T, len: usize) -> Result<&'a mut [T], cfipack_status> {
    if len == 0 {
        return Ok(&mut []);
    }
    if !is_array(start, len) {
        return Err(InvalidArgument);
    }
    // SAFETY: not null, aligned, no longer than memory; writable by the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts_mut(start, len) })
}

/// Returns whether an array of this length fits into memory. An element has at least one byte.
fn is_array<T>(start: *const T, len: usize) -> bool {
    const { assert!(size_of::<T>() > 0) };
    !start.is_null()
        && start.is_aligned()
        && len <= isize::MAX.unsigned_abs() / size_of::<T>()
        && start.addr().checked_add(len * size_of::<T>()).is_some()
}

/// Turns a pointer into a reference.
///
/// # Safety
/// A pointer that is not null and is aligned must be readable for `'a`.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, cfipack_status> {
    if !pointer.is_aligned() {
        return Err(InvalidArgument);
    }
    // SAFETY: aligned; readable by the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(InvalidArgument)
}

/// Turns a pointer into a mutable reference.
///
/// # Safety
/// The conditions of [`reference()`]. The memory is writable, and nothing else refers to it.
#[cfg(feature = "write")]
pub(crate) unsafe fn reference_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T, cfipack_status> {
    if !pointer.is_aligned() {
        return Err(InvalidArgument);
    }
    // SAFETY: aligned; writable by the caller's promise.
    unsafe { pointer.as_mut() }.ok_or(InvalidArgument)
}

/// Writes a result. The memory need not be initialised.
///
/// # Safety
/// A pointer that is not null and is aligned must be writable.
pub(crate) unsafe fn write<T>(out: *mut T, value: T) -> Result<(), cfipack_status> {
    if out.is_null() || !out.is_aligned() {
        return Err(InvalidArgument);
    }
    // SAFETY: not null, aligned; writable by the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// Writes a result, unless the pointer is null.
///
/// # Safety
/// The conditions of [`write()`].
pub(crate) unsafe fn write_optional<T>(out: *mut T, value: T) -> Result<(), cfipack_status> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { write(out, value) }
}

/// Writes the first `capacity` values to `out`, whose memory need not be initialised, and the number of all values
/// to `count`. Returns `BufferSize` if there are more values than `capacity`. The pointers are checked before anything
/// is written.
///
/// # Safety
/// The conditions of [`array_mut`] and [`write()`].
pub(crate) unsafe fn write_list<T>(
    out: *mut T,
    capacity: usize,
    count: *mut usize,
    len: usize,
    values: impl Iterator<Item = Result<T, cfipack_status>>,
) -> Result<(), cfipack_status> {
    // SAFETY: the caller's promise.
    let out = unsafe { array_mut(out.cast::<MaybeUninit<T>>(), capacity) }?;
    // SAFETY: the caller's promise.
    unsafe { write(count, len) }?;
    for (value, out) in values.zip(out) {
        out.write(value?);
    }
    if len > capacity { Err(BufferSize) } else { Ok(()) }
}

/// Prints a text to `capacity` bytes at `text`, and writes the length of the whole text to `len`, which may be null. The
/// pointers are checked before anything is printed.
///
/// # Safety
/// The conditions of [`array_mut`] and [`write()`].
pub(crate) unsafe fn write_text(
    text: *mut c_char,
    capacity: usize,
    len: *mut usize,
    print: impl FnOnce(&mut Text<'_>) -> fmt::Result,
) -> Result<(), cfipack_status> {
    // SAFETY: the caller's promise.
    let mut out = Text::new(unsafe { array_mut(text.cast::<u8>(), capacity) }?);
    // SAFETY: the caller's promise.
    unsafe { write_optional(len, 0) }?;
    // `Text` counts the bytes that do not fit, and returns no errors.
    let _ = print(&mut out);
    let written = out.len;
    // SAFETY: the caller's promise.
    unsafe { write_optional(len, written) }?;
    if written > capacity { Err(BufferSize) } else { Ok(()) }
}

/// Reads a field that holds true or false as a byte.
pub(crate) fn flag(byte: u8) -> Result<bool, cfipack_status> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(InvalidArgument),
    }
}
