//! Four kinds of position, and the keys of functions, LSDAs and personalities, as types that do not mix.

use core::fmt;
use core::num::NonZeroU64;

/// A virtual address, for example of code, of a section, or a PC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Address(pub u64);

/// An offset from the start of a section, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SectionOffset(pub usize);

/// An offset from the start of a function, in bytes. [`Row::start`](crate::Row::start) has this type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FunctionOffset(pub u32);

/// An offset from the Mach-O header of an image, in bytes. `__unwind_info` uses image offsets as addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ImageOffset(pub u32);

/// Identifies a function.
///
/// You choose the number. It must be unique per function, and it does not have to be an address. A linker has
/// no addresses yet: it can use, for example, the index of an input section and an offset in it. In a finished
/// file the key is the function's address, and for `__unwind_info` often its [image offset](ImageOffset).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key(pub u64);

/// Identifies a language-specific data area (LSDA). You choose the number, which is not 0. It is unrelated to
/// the [`Key`]s of functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LsdaKey(pub NonZeroU64);

/// Identifies a personality routine. You choose the number. It is unrelated to the [`Key`]s of functions, even
/// if the routine is a function of the image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PersonalityKey(pub u64);

impl LsdaKey {
    /// Creates a key with this number. Returns `None` for 0.
    #[inline]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Creates the key of an LSDA that you identify by its image offset. Returns `None` for 0, where the Mach-O
    /// header is.
    #[inline]
    pub const fn at(offset: ImageOffset) -> Option<Self> {
        Self::new(offset.0 as u64)
    }

    /// Returns the key as an image offset, if you identify LSDAs by image offsets. Otherwise the result is the
    /// low 32 bits of the number.
    #[inline]
    pub const fn image_offset(self) -> ImageOffset {
        ImageOffset(self.0.get() as u32)
    }
}

impl Key {
    /// Returns the key as an address, if you identify functions by their addresses.
    #[inline]
    pub const fn address(self) -> Address {
        Address(self.0)
    }

    /// Returns the key as an image offset, if you identify functions by image offsets. Otherwise the result is
    /// the low 32 bits of the number.
    #[inline]
    pub const fn image_offset(self) -> ImageOffset {
        ImageOffset(self.0 as u32)
    }
}

impl From<Address> for Key {
    #[inline]
    fn from(address: Address) -> Self {
        Self(address.0)
    }
}

impl From<ImageOffset> for Key {
    #[inline]
    fn from(offset: ImageOffset) -> Self {
        Self(offset.0.into())
    }
}

macro_rules! hexadecimal {
    ($($kind:ty),*) => {$(
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    )*};
}
hexadecimal!(Address, SectionOffset, FunctionOffset, ImageOffset, Key, LsdaKey, PersonalityKey);

impl Address {
    /// Moves this address by a signed distance in bytes. It wraps around, as addresses in machines do.
    #[inline]
    pub fn offset(self, distance: i64) -> Self {
        Self(self.0.wrapping_add_signed(distance))
    }

    /// Returns the signed distance from `other` to this address, in bytes.
    #[inline]
    pub fn distance_from(self, other: Self) -> i64 {
        self.0.wrapping_sub(other.0) as i64
    }
}
