//! The section header.

use bitflags::bitflags;

use crate::Endian;

/// The first two bytes of a section, in the section's byte order.
pub const MAGIC: u16 = 0xdee2;

bitflags! {
    /// Flags of the header.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Flags: u8 {
        /// `SFRAME_F_FDE_SORTED`: the index is sorted by function start.
        const FDE_SORTED = 0x1;
        /// `SFRAME_F_FRAME_POINTER`: every function keeps a frame pointer. No known tool sets it.
        const FRAME_POINTER = 0x2;
        /// `SFRAME_F_FDE_FUNC_START_PCREL`: a start is relative to its own field, not to the section.
        const START_PCREL = 0x4;
    }
}

/// The header, the same 28 bytes in every version.
///
/// | offset | type | field |
/// |---|---|---|
/// | 0 | u16 | magic 0xdee2 |
/// | 2 | u8 | version |
/// | 3 | u8 | flags |
/// | 4 | u8 | ABI and byte order |
/// | 5 | i8 | fixed FP offset from the CFA, 0 = not fixed |
/// | 6 | i8 | fixed RA offset from the CFA, 0 = not fixed |
/// | 7 | u8 | bytes of the auxiliary header, which follows |
/// | 8 | u32 | number of FDEs |
/// | 12 | u32 | number of FREs, summed over the FDEs |
/// | 16 | u32 | bytes of the FRE sub-section |
/// | 20 | u32 | offset of the function index, from the end of the headers |
/// | 24 | u32 | offset of the FRE sub-section, from the end of the headers |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Header {
    /// Version number as stored; see [`Version::from_number`](super::Version::from_number).
    pub version: u8,
    /// Flags, unknown ones retained.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serialize::flags"))]
    #[cfg_attr(feature = "schemars", schemars(with = "u8"))]
    pub flags: Flags,
    /// ABI number as stored; see [`Abi::from_number`](super::Abi::from_number).
    pub abi: u8,
    /// Offset of the saved FP from the CFA if it is the same everywhere, else 0; bytes.
    pub fixed_fp_offset: i8,
    /// Offset of the return address from the CFA if it is the same everywhere, else 0; bytes.
    pub fixed_ra_offset: i8,
    /// Bytes of the auxiliary header.
    pub auxhdr_len: u8,
    /// Number of FDEs.
    pub num_fdes: u32,
    /// Number of FREs over all FDEs.
    pub num_fres: u32,
    /// Bytes of the FRE sub-section.
    pub fre_len: u32,
    /// Offset of the function index from the end of the headers.
    pub fde_off: u32,
    /// Offset of the FRE sub-section from the end of the headers.
    pub fre_off: u32,
}

impl Header {
    /// Bytes on disk.
    pub const SIZE: usize = 28;

    /// Returns the byte order of a section that starts with these two bytes, or `None` if they are not the
    /// magic.
    pub fn endian_of(magic: [u8; 2]) -> Option<Endian> {
        [Endian::Little, Endian::Big].into_iter().find(|endian| endian.u16(magic) == MAGIC)
    }

    /// Reads the fields after the magic.
    pub fn read(b: &[u8; Self::SIZE], endian: Endian) -> Self {
        let word = |at: usize| endian.u32([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        Self {
            version: b[2],
            flags: Flags::from_bits_retain(b[3]),
            abi: b[4],
            fixed_fp_offset: b[5] as i8,
            fixed_ra_offset: b[6] as i8,
            auxhdr_len: b[7],
            num_fdes: word(8),
            num_fres: word(12),
            fre_len: word(16),
            fde_off: word(20),
            fre_off: word(24),
        }
    }

    /// Returns the bytes of the header, including the magic.
    pub fn write(&self, endian: Endian) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        b[..2].copy_from_slice(&endian.put_u16(MAGIC));
        b[2] = self.version;
        b[3] = self.flags.bits();
        b[4] = self.abi;
        b[5] = self.fixed_fp_offset as u8;
        b[6] = self.fixed_ra_offset as u8;
        b[7] = self.auxhdr_len;
        let words = [self.num_fdes, self.num_fres, self.fre_len, self.fde_off, self.fre_off];
        for (slot, word) in b[8..].chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&endian.put_u32(word));
        }
        b
    }
}
