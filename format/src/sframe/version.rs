//! The versions of the format, and what differs between them.

use super::{Attribute, Flags};

/// Version of the format.
///
/// What a version has is asked of it; code that has to decide by itself matches every version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Version {
    /// Version 1 (binutils 2.40): 17-byte FDEs. Read only.
    V1 = 1,
    /// Version 2 (binutils 2.41 to 2.45, LLVM 23): 20-byte FDEs.
    V2 = 2,
    /// Version 3 (binutils 2.46 and later): 16-byte index entries, 64-bit starts, flex FDEs.
    V3 = 3,
}

impl Version {
    /// The version to write where none is asked for.
    pub const DEFAULT: Self = Self::V3;

    /// Every version.
    pub const ALL: [Self; 3] = [Self::V1, Self::V2, Self::V3];

    /// The version with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }

    /// The version to write where this one would do: itself, or version 2 for version 1, which is only read.
    #[inline]
    pub const fn writable(self) -> Self {
        match self {
            Self::V1 | Self::V2 => Self::V2,
            Self::V3 => Self::V3,
        }
    }

    /// The version with this number, if it is one that is written.
    pub fn written(number: u8) -> Option<Self> {
        Self::from_number(number).filter(|version| version.writable() == *version)
    }

    /// Bytes of one entry of the function index.
    #[inline]
    pub const fn fde_size(self) -> usize {
        match self {
            Self::V1 => 17,
            Self::V2 => 20,
            Self::V3 => 16,
        }
    }

    /// Bytes of the start in an entry of the function index.
    #[inline]
    pub const fn start_size(self) -> usize {
        match self {
            Self::V1 | Self::V2 => 4,
            Self::V3 => 8,
        }
    }

    /// Returns whether a function can start so many bytes from what its start is relative to.
    #[inline]
    pub const fn reaches(self, distance: i64) -> bool {
        self.start_size() == 8 || distance == distance as i32 as i64
    }

    /// Returns whether an [attribute](Attribute) stands before a function's FREs; if not, its fields are those of the FDE.
    #[inline]
    pub const fn has_attributes(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Bytes of the attribute before a function's FREs.
    #[inline]
    pub const fn attribute_size(self) -> usize {
        if self.has_attributes() { Attribute::SIZE } else { 0 }
    }

    /// The most FREs that a function's description can count.
    #[inline]
    pub const fn max_fres(self) -> u32 {
        if self.has_attributes() { u16::MAX as u32 } else { u32::MAX }
    }

    /// Returns whether there are flex FDEs.
    #[inline]
    pub const fn has_flex(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Returns whether signal frames are marked.
    #[inline]
    pub const fn has_signal_frames(self) -> bool {
        match self {
            Self::V1 | Self::V2 => false,
            Self::V3 => true,
        }
    }

    /// Returns whether the bytes after which a PC-mask function repeats are stored.
    #[inline]
    pub const fn has_repetition_size(self) -> bool {
        match self {
            Self::V1 => false,
            Self::V2 | Self::V3 => true,
        }
    }

    /// The flags that the version defines; libsframe 2.47 refuses a section with any other.
    pub const fn known_flags(self) -> Flags {
        match self {
            Self::V1 => Flags::FDE_SORTED.union(Flags::FRAME_POINTER),
            Self::V2 => Flags::all(),
            Self::V3 => Flags::FDE_SORTED.union(Flags::START_PCREL),
        }
    }
}
