//! Stores Rust values in memory of the caller, so that the values need no release.

use core::mem::{align_of, size_of};

use crate::arguments::{reference, write};
use crate::cfipack_status::{self, InvalidArgument};

/// A C structure that has memory for a value.
pub(crate) trait Memory {
    /// The first word of the memory. It distinguishes a stored value from other memory.
    const TAG: u64;
    /// The type of the value.
    type Value;
}

#[repr(C)]
struct Tagged<T> {
    tag: u64,
    value: T,
}

/// Stores a value.
///
/// # Safety
/// A pointer that is not null and is aligned must be writable.
pub(crate) unsafe fn put<M: Memory>(memory: *mut M, value: M::Value) -> Result<(), cfipack_status> {
    const { assert!(size_of::<Tagged<M::Value>>() <= size_of::<M>()) };
    const { assert!(align_of::<Tagged<M::Value>>() <= align_of::<M>()) };
    if memory.is_null() || !memory.is_aligned() {
        return Err(InvalidArgument);
    }
    // SAFETY: not null, aligned, large enough; writable by the caller's promise.
    unsafe { memory.cast::<Tagged<M::Value>>().write(Tagged { tag: M::TAG, value }) };
    Ok(())
}

/// Removes the value. After a call that fails, the memory then contains neither an older value nor garbage.
///
/// # Safety
/// The conditions of [`put`].
pub(crate) unsafe fn clear<M: Memory>(memory: *mut M) -> Result<(), cfipack_status> {
    const { assert!(align_of::<M>() >= align_of::<u64>() && size_of::<M>() >= size_of::<u64>()) };
    // SAFETY: promised by the caller.
    unsafe { write(memory.cast::<u64>(), 0) }
}

/// Returns the stored value.
///
/// # Safety
/// A pointer that is not null and is aligned must be readable for `'a`. Only [`put`] may write the tag: any other
/// writer forges a value.
#[inline]
pub(crate) unsafe fn get<'a, M: Memory>(memory: *const M) -> Result<&'a M::Value, cfipack_status>
where
    M::Value: 'a,
{
    const { assert!(align_of::<M>() >= align_of::<u64>() && size_of::<M>() >= size_of::<u64>()) };
    // SAFETY: promised by the caller.
    unsafe { reference(memory) }?;
    // SAFETY: readable, and large enough for a word.
    if unsafe { memory.cast::<u64>().read() } != M::TAG {
        return Err(InvalidArgument);
    }
    // SAFETY: the tag is written together with a value, by `put`.
    Ok(unsafe { &(*memory.cast::<Tagged<M::Value>>()).value })
}
