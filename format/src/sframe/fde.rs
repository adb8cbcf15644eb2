//! The function index, with an FDE for each function.

use super::{FdeInfo, Version};
use crate::Endian;

/// The greatest number of FREs in a table, per byte of its index and its FREs. An FRE that several functions
/// share counts for each function.
///
/// cfipack sets this limit, not the format: without it, a small table could have billions of rows. A table
/// without shared FREs has less than 1 FRE per byte.
pub const MAX_FRES_PER_BYTE: usize = 64;

/// The greatest number of bytes of FREs that functions may share when cfipack writes a table. An FRE has at
/// least two bytes. So even the smallest FDE stays within [the limit of the reader](MAX_FRES_PER_BYTE).
pub const MAX_SHARED_FRES: usize = 2 * MAX_FRES_PER_BYTE * Fde::MIN_SIZE;

/// An entry of the function index, in any version.
///
/// | | V1 (17 bytes) | V2 (20 bytes) | V3 (16 bytes) |
/// |---|---|---|---|
/// | start | 0: i32 | 0: i32 | 0: i64 |
/// | size | 4: u32 | 4: u32 | 8: u32 |
/// | FRE offset | 8: u32 | 8: u32 | 12: u32 |
/// | number of FREs | 12: u32 | 12: u32 | in the attribute |
/// | info | 16: u8 | 16: u8 | in the attribute |
/// | repetition size | none | 17: u8, then 2 zero bytes | in the attribute |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fde {
    /// The function's start, relative to this field (`START_PCREL`) or to the section.
    pub start: i64,
    /// The size of the function in bytes.
    pub size: u32,
    /// The offset in the FRE sub-section: of the first FRE (V1, V2) or of the attribute (V3).
    pub fre_off: u32,
    /// Number of FREs; 0 in version 3.
    pub num_fres: u32,
    /// FRE type, PC type, key; empty in version 3.
    pub info: FdeInfo,
    /// Bytes after which a PC-mask function repeats; 0 in versions 1 and 3.
    pub rep_size: u8,
}

impl Fde {
    /// The greatest size of an entry in any version, in bytes.
    pub const MAX_SIZE: usize = sizes().1;
    /// The smallest size of an entry in any version, in bytes.
    pub const MIN_SIZE: usize = sizes().0;

    /// Reads an entry from exactly [`Version::fde_size`] bytes. Returns `None` for another length.
    #[inline]
    pub fn read(b: &[u8], version: Version, endian: Endian) -> Option<Self> {
        if b.len() != version.fde_size() {
            return None;
        }
        let word = |at: usize| endian.u32([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        if version.has_attributes() {
            let start = endian.u64([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]) as i64;
            let info = FdeInfo::empty();
            return Some(Self { start, size: word(8), fre_off: word(12), num_fres: 0, info, rep_size: 0 });
        }
        Some(Self {
            start: i64::from(word(0) as i32),
            size: word(4),
            fre_off: word(8),
            num_fres: word(12),
            info: FdeInfo::from_bits_retain(b[16]),
            rep_size: if version.has_repetition_size() { b[17] } else { 0 },
        })
    }

    /// Returns the bytes of an entry: the first [`Version::fde_size`] bytes are the entry, and zeros follow.
    /// Versions 1 and 2 have signed starts of 32 bits, so only the low 32 bits of the start are written.
    #[inline]
    pub fn write(&self, version: Version, endian: Endian) -> [u8; Self::MAX_SIZE] {
        let mut b = [0; Self::MAX_SIZE];
        if version.has_attributes() {
            let size_and_offset = match endian {
                Endian::Little => u64::from(self.size) | u64::from(self.fre_off) << 32,
                Endian::Big => u64::from(self.size) << 32 | u64::from(self.fre_off),
            };
            b[..8].copy_from_slice(&endian.put_u64(self.start as u64));
            b[8..16].copy_from_slice(&endian.put_u64(size_and_offset));
            return b;
        }
        let words = [self.start as u32, self.size, self.fre_off, self.num_fres];
        for (slot, word) in b.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&endian.put_u32(word));
        }
        b[16] = self.info.bits();
        if version.has_repetition_size() {
            b[17] = self.rep_size;
        }
        b
    }
}

/// Returns the smallest and the greatest size of an entry.
const fn sizes() -> (usize, usize) {
    let (mut least, mut most, mut number) = (usize::MAX, 0, 0);
    while number < Version::ALL.len() {
        let size = Version::ALL[number].fde_size();
        least = if size < least { size } else { least };
        most = if size > most { size } else { most };
        number += 1;
    }
    (least, most)
}
