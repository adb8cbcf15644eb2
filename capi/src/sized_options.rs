//! Options that can grow.

use core::fmt;
use core::mem::{align_of, size_of};

use cfipack_format::widen::ToUsize;

#[cfg(feature = "write")]
use crate::handle::Failure;

/// A structure of options, which starts with its size as the caller's header has it, so that fields can be added at its
/// end. A field that the caller does not have is zero, which is the default.
///
/// # Safety
/// The type has no padding and every pattern of bits is one of its values.
pub(crate) unsafe trait SizedOptions: Copy {
    /// All fields zero.
    const DEFAULT: Self;
}

/// The reason why a structure of options is refused.
pub(crate) enum Refused {
    Misaligned,
    Size(usize),
    /// A field that this version does not have, and that must not be ignored, is set.
    Fields,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned => f.write_str("a structure is misaligned"),
            Self::Size(size) => write!(f, "{size} is not the size of a structure"),
            Self::Fields => f.write_str("this version has not all fields of a structure"),
        }
    }
}

/// Reads the options of a handle; null gives the defaults.
///
/// # Safety
/// The options that `pointer` leads to, read by [`read`].
#[cfg(feature = "write")]
pub(crate) unsafe fn options<T: SizedOptions>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: promised by the caller.
    unsafe { read(pointer) }.map_err(|refused| Failure::argument(&refused))
}

/// Reads options; null gives the defaults.
///
/// # Safety
/// A pointer that is not null and is aligned has to be readable for the size that is stated there.
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
    if !(4..=4096).contains(&size) {
        return Err(Refused::Size(size));
    }
    // SAFETY: readable for `size` bytes by the caller's promise.
    let given = unsafe { core::slice::from_raw_parts(pointer.cast::<u8>(), size) };
    let (known, unknown) = given.split_at(size.min(size_of::<T>()));
    if unknown.iter().any(|&byte| byte != 0) {
        return Err(Refused::Fields);
    }
    let mut value = T::DEFAULT;
    // SAFETY: `known` is not longer than the type, whose values are all patterns of bits.
    unsafe { core::ptr::copy_nonoverlapping(known.as_ptr(), (&raw mut value).cast::<u8>(), known.len()) };
    Ok(value)
}
