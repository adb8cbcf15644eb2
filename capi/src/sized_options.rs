//! Structures of options that can grow in later versions.

use core::mem::{align_of, size_of};

use cfipack_format::widen::ToUsize;

#[cfg(feature = "write")]
use crate::handle::Failure;

/// A structure of options that starts with its size in the caller's header, so that later versions can add fields at
/// its end. A field that the caller's header lacks is zero, which is the default.
///
/// # Safety
/// The type has no padding, and every pattern of bits is a valid value.
pub(crate) unsafe trait SizedOptions: Copy {
    /// The defaults: all fields are zero.
    const DEFAULT: Self;
}

cfipack_format::messages! {
    /// The reason why a structure is refused.
    pub(crate) enum Refused {
        #[error("a structure is misaligned")]
        Misaligned,
        #[error("{size} is not the size of a structure")]
        Size(size: usize),
        /// A field that this version does not know, and must not ignore, is set.
        #[error("this version has not all fields of a structure")]
        Fields,
    }
}

/// Reads the options of a call that creates a handle. Null gives the defaults.
///
/// # Safety
/// The conditions of [`read`].
#[cfg(feature = "write")]
pub(crate) unsafe fn options<T: SizedOptions>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: promised by the caller.
    unsafe { read(pointer) }.map_err(|refused| Failure::argument(&refused))
}

/// Reads options. Null gives the defaults.
///
/// # Safety
/// A pointer that is not null and is aligned must be readable for the size that the structure states.
#[inline]
pub(crate) unsafe fn read<T: SizedOptions>(pointer: *const T) -> Result<T, Refused> {
    if pointer.is_null() {
        return Ok(T::DEFAULT);
    }
    if !pointer.is_aligned() {
        return Err(Refused::Misaligned);
    }
    const { assert!(align_of::<T>() >= 4) };
    // SAFETY: the size is the first field, an aligned u32.
    let size = (unsafe { pointer.cast::<u32>().read() }).to_usize();
    // Every version of a structure has the same alignment. Half of a pointer would be another pointer.
    if !(4..=4096).contains(&size) || !size.is_multiple_of(align_of::<T>()) {
        return Err(Refused::Size(size));
    }
    // SAFETY: readable for `size` bytes by the caller's promise.
    let given = unsafe { core::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    let (known, unknown) = given.split_at(size.min(size_of::<T>()));
    if unknown.iter().any(|&byte| byte != 0) {
        return Err(Refused::Fields);
    }
    let mut value = T::DEFAULT;
    // SAFETY: `known` is not longer than the type, and every pattern of bits is a valid value.
    unsafe { core::ptr::copy_nonoverlapping(known.as_ptr(), (&raw mut value).cast::<u8>(), known.len()) };
    Ok(value)
}
