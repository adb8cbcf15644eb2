//! Conversions from and to `usize` that never wrap around. The width of `usize` depends on the target.

const _: () = assert!(usize::BITS >= 32 && usize::BITS <= 64, "sizes of 32 or 64 bits");

/// Converts a number from a file to `usize`.
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
    /// Returns the value. If the value does not fit, returns the greatest `usize`, which lies past the end of
    /// every slice.
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

/// Converts a size in memory to 64 bits.
pub trait ToU64 {
    /// Returns the value, which always fits.
    fn to_u64(self) -> u64;
}

impl ToU64 for usize {
    #[inline]
    fn to_u64(self) -> u64 {
        self as u64
    }
}
