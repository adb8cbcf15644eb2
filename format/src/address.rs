//! The four kinds of position, and the keys of what has no position yet, as types that do not mix.

use core::fmt;
use core::num::NonZeroU64;

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

/// The name that a caller gives a function: any number that it chooses, unique per function and independent of where
/// its call frame information lies. For the functions of a finished file it is the function's address, for an
/// image's `__unwind_info` often its [image offset](ImageOffset); for a linker, which has no addresses yet, for example the
/// number of an input section and an offset in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key(pub u64);

/// The name that a caller gives a language-specific data area (LSDA): any number but 0. It is no function's [`Key`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LsdaKey(pub NonZeroU64);

/// The name that a caller gives a personality routine: any number that it chooses. It is no function's [`Key`], also if
/// the routine is defined in the image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PersonalityKey(pub u64);

impl LsdaKey {
    /// The key with this number; none for 0.
    #[inline]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The key of an LSDA that is known by its image offset; none for 0, where the Mach-O header is.
    #[inline]
    pub const fn at(offset: ImageOffset) -> Option<Self> {
        Self::new(offset.0 as u64)
    }

    /// The image offset that the key is, where LSDAs are known by these; of another number its low 32 bits.
    #[inline]
    pub const fn image_offset(self) -> ImageOffset {
        ImageOffset(self.0.get() as u32)
    }
}

impl Key {
    /// The address that the key is, where functions are known by their addresses.
    #[inline]
    pub const fn address(self) -> Address {
        Address(self.0)
    }

    /// The image offset that the key is, where functions are known by these; of another number its low 32 bits.
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
    /// Moves this address by a signed distance, wrapping as machines do.
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
