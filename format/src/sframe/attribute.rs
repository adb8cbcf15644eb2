//! The description that all FREs of a function share: the attribute in version 3. In versions 1 and 2, the FDE
//! has the same fields.

use bitflags::bitflags;

use crate::Endian;

/// The width of the starts of a function's FREs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FreType {
    /// 1 byte: starts up to 255.
    Addr1 = 0,
    /// 2 bytes: starts up to 65535.
    Addr2 = 1,
    /// 4 bytes.
    Addr4 = 2,
}

impl FreType {
    /// Returns the width of a start in bytes.
    #[inline]
    pub const fn width(self) -> usize {
        1 << self as u8
    }

    /// Returns the narrowest type for `start`.
    #[inline]
    pub const fn for_start(start: u32) -> Self {
        match start {
            0..=0xff => Self::Addr1,
            0x100..=0xffff => Self::Addr2,
            _ => Self::Addr4,
        }
    }
}

/// The kind of a function's FREs (version 3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FdeType {
    /// The CFA is SP or FP plus an offset. RA and FP are in their default places, or at the CFA plus an offset.
    Default = 0,
    /// Each of the CFA, RA and FP has its own base register, and a flag for a load from memory.
    Flex = 1,
}

impl FdeType {
    /// Returns the type in the second info byte of an attribute, or `None` for an unknown number.
    #[inline]
    pub const fn from_info2(info2: u8) -> Option<Self> {
        match info2 & 0x1f {
            0 => Some(Self::Default),
            1 => Some(Self::Flex),
            _ => None,
        }
    }
}

bitflags! {
    /// The info byte of an FDE: bits 0 to 3 are the [`FreType`].
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct FdeInfo: u8 {
        /// The number of the [`FreType`].
        const FRE_TYPE = 0x0f;
        /// PC type MASK: the FREs repeat every `rep_size` bytes (PLT stubs). Clear: INC.
        const PC_MASK = 0x10;
        /// AArch64: return addresses are signed with key B. Clear: key A.
        const PAUTH_KEY_B = 0x20;
        /// A signal frame (version 3): the instruction at the PC has not been executed.
        const SIGNAL = 0x80;
        const _ = !0;
    }
}

impl FdeInfo {
    /// Returns the FRE type, or `None` for an unknown number.
    #[inline]
    pub const fn fre_type(self) -> Option<FreType> {
        match self.bits() & 0xf {
            0 => Some(FreType::Addr1),
            1 => Some(FreType::Addr2),
            2 => Some(FreType::Addr4),
            _ => None,
        }
    }

    /// Returns these flags with another FRE type.
    #[inline]
    pub const fn with_fre_type(self, fre_type: FreType) -> Self {
        Self::from_bits_retain(self.bits() & 0xf0 | fre_type as u8)
    }
}

/// Version 3's attribute, which stands immediately before its function's first FRE.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u16 | number of FREs |
/// | 2 | u8 | info |
/// | 3 | u8 | bits 0 to 4: FDE type |
/// | 4 | u8 | bytes after which a PC-mask function repeats, else 0 |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Attribute {
    /// Number of FREs that follow.
    pub num_fres: u16,
    /// FRE type, PC type, key, signal.
    pub info: FdeInfo,
    /// The second info byte as stored; see [`Attribute::fde_type`].
    pub info2: u8,
    /// Bytes after which a PC-mask function repeats.
    pub rep_size: u8,
}

impl Attribute {
    /// Bytes on disk.
    pub const SIZE: usize = 5;

    /// Returns the FDE type, or `None` for an unknown number.
    #[inline]
    pub const fn fde_type(&self) -> Option<FdeType> {
        FdeType::from_info2(self.info2)
    }

    /// Reads the five bytes.
    #[inline]
    pub fn read(b: &[u8; Self::SIZE], endian: Endian) -> Self {
        Self {
            num_fres: endian.u16([b[0], b[1]]),
            info: FdeInfo::from_bits_retain(b[2]),
            info2: b[3],
            rep_size: b[4],
        }
    }

    /// Returns the five bytes.
    #[inline]
    pub fn write(&self, endian: Endian) -> [u8; Self::SIZE] {
        let count = endian.put_u16(self.num_fres);
        [count[0], count[1], self.info.bits(), self.info2, self.rep_size]
    }
}
