//! The versions of the format, and their differences.

use super::{Attribute, Flags};

/// A version of the format.
///
/// Methods of this type return the properties of a version. Code that decides by itself matches every version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Version 1 (binutils 2.40): 17-byte FDEs. cfipack reads it and does not write it.
    V1 = 1,
    /// Version 2 (binutils 2.41 to 2.45, LLVM 23): 20-byte FDEs.
    V2 = 2,
    /// Version 3 (binutils 2.46 and later): 16-byte index entries, 64-bit starts, flex FDEs.
    V3 = 3,
}

impl Version {
    /// The version that is written by default.
    pub const DEFAULT: Self = Self::V3;

    /// Every version.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// Returns the version with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }

    /// Returns the version to write in place of this version: version 2 for version 1, which is only read,
    /// otherwise the same version.
    #[inline]
    pub const fn writable(self) -> Self {
        match self {
            Self::V1 | Self::V2 => Self::V2,
            Self::V3 => Self::V3,
        }
    }

    /// Returns the version with this number, or `None` if cfipack does not write it.
    pub fn written(number: u8) -> Option<Self> {
        Self::from_number(number).filter(|version| version.writable() == *version)
    }

    /// Returns the size of an FDE in bytes.
    #[inline]
    pub const fn fde_size(self) -> usize {
        match self {
            Self::V1 => 17,
            Self::V2 => 20,
            Self::V3 => 16,
        }
    }

    /// Returns the size of the start field of an FDE in bytes.
    #[inline]
    pub const fn start_size(self) -> usize {
        match self {
            Self::V1 | Self::V2 => 4,
            Self::V3 => 8,
        }
    }

    /// Returns whether a start can be this many bytes away from its origin.
    #[inline]
    pub const fn reaches(self, distance: i64) -> bool {
        self.start_size() == 8 || distance == distance as i32 as i64
    }

    /// Returns whether an [attribute](Attribute) comes before a function's FREs. If not, the FDE has the
    /// attribute's fields.
    #[inline]
    pub const fn has_attributes(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Returns the size of the attribute in bytes, which is 0 if there is no attribute.
    #[inline]
    pub const fn attribute_size(self) -> usize {
        if self.has_attributes() { Attribute::SIZE } else { 0 }
    }

    /// Returns the greatest number of FREs that a function can have.
    #[inline]
    pub const fn max_fres(self) -> u32 {
        if self.has_attributes() { u16::MAX as u32 } else { u32::MAX }
    }

    /// Returns whether the version has flex FDEs.
    #[inline]
    pub const fn has_flex(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Returns whether the version marks signal frames.
    #[inline]
    pub const fn has_signal_frames(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Returns whether the version stores the number of bytes after which a PC-mask function repeats.
    #[inline]
    pub const fn has_repetition_size(self) -> bool {
        match self {
            Self::V1 => false,
            Self::V2 | Self::V3 => true,
        }
    }

    /// Returns the flags that the version defines. libsframe 2.47 refuses a section with another flag.
    pub const fn known_flags(self) -> Flags {
        match self {
            Self::V1 => Flags::FDE_SORTED.union(Flags::FRAME_POINTER),
            Self::V2 => Flags::all(),
            Self::V3 => Flags::FDE_SORTED.union(Flags::START_PCREL),
        }
    }
}
