//! Conversions from and to `usize`, whose width depends on the target, that never wrap a value around.

const _: () = assert!(usize::BITS >= 32 && usize::BITS <= 64, "sizes of 32 or 64 bits");

/// A conversion to `usize` of a number that a file contains.
///
/// ```
/// use cfipack_format::widen::ToUsize;
///
/// let bytes = [1, 2, 3];
/// let (offset, too_far) = (2_u32, u64::MAX);
/// assert_eq!(bytes.get(offset.to_usize()), Some(&3));
/// assert_eq!(bytes.get(too_far.to_usize()), None);
/// ```
pub trait ToUsize {
    /// The value; the largest one, which lies past the end of every slice, if the target's sizes have fewer bits.
    fn to_usize(self) -> usize;
}

impl ToUsize for u32 {
    #[inline]
    fn to_usize(self) -> usize {
        self as usize
    }
}

impl ToUsize for u64 {
    #[inline]
    fn to_usize(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

/// A conversion of a size in memory to 64 bits.
pub trait ToU64 {
    /// The value, which always fits.
    fn to_u64(self) -> u64;
}

impl ToU64 for usize {
    #[inline]
    fn to_u64(self) -> u64 {
        self as u64
    }
}
