//! The four kinds of position, as four types that do not mix.

use core::fmt;

/// A virtual address: of code, of a section, or a PC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Address(pub u64);

/// Bytes from the start of a section.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SectionOffset(pub usize);

/// Bytes from the start of a function: what a row's `start` is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FunctionOffset(pub u32);

/// Bytes from an image's Mach-O header: what `__unwind_info` calls an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ImageOffset(pub u32);

macro_rules! hexadecimal {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    )*};
}
hexadecimal!(Address, SectionOffset, FunctionOffset, ImageOffset);

impl Address {
    /// This address moved by a signed distance, wrapping as machines do.
    #[inline]
    pub fn offset(self, distance: i64) -> Self {
        Self(self.0.wrapping_add_signed(distance))
    }

    /// The signed distance from `other` to here.
    #[inline]
    pub fn distance_from(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }
}
