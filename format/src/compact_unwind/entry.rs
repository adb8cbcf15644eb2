//! A row of `__compact_unwind`.

use super::Encoding;

/// A row of `__compact_unwind`: how to unwind a range of code, from an assembler to a linker.
///
/// | 64-bit (32 bytes) | 32-bit (20 bytes) | field |
/// |---|---|---|
/// | 0: u64 | 0: u32 | start of the range; relocated |
/// | 8: u32 | 4: u32 | bytes of the range |
/// | 12: u32 | 8: u32 | encoding, without personality bits |
/// | 16: u64 | 12: u32 | personality, 0 = none; relocated |
/// | 24: u64 | 16: u32 | LSDA, 0 = none; relocated |
///
/// Every method takes the size of the architecture's pointers in bytes, 8 or 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Entry {
    /// Start of the range as stored: the addend of its relocation.
    pub function: u64,
    /// Bytes of the range.
    pub length: u32,
    /// The encoding that describes how to unwind the range.
    pub encoding: Encoding,
    /// The personality as stored: the addend of its relocation, if it has a relocation.
    pub personality: u64,
    /// The LSDA as stored: the addend of its relocation, if it has a relocation.
    pub lsda: u64,
}

impl Entry {
    /// The greatest size of a row, in bytes.
    pub const MAX_SIZE: usize = 32;

    /// The offset of the range's start in a row.
    pub const FUNCTION_AT: usize = 0;

    /// Returns the size of a row in bytes: 32 or 20.
    pub const fn size(pointer_size: u8) -> usize {
        3 * pointer_size as usize + 8
    }

    /// Returns the offset of the personality in a row: 16 or 12.
    pub const fn personality_at(pointer_size: u8) -> usize {
        pointer_size as usize + 8
    }

    /// Returns the offset of the LSDA in a row: 24 or 16.
    pub const fn lsda_at(pointer_size: u8) -> usize {
        2 * pointer_size as usize + 8
    }

    /// Reads a row from exactly [`Entry::size`] bytes. Returns `None` for another length, or if the pointer
    /// size is neither 4 nor 8.
    pub fn read(b: &[u8], pointer_size: u8) -> Option<Self> {
        if !matches!(pointer_size, 4 | 8) || b.len() != Self::size(pointer_size) {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let pointer = |at: usize| match pointer_size {
            8 => u64::from(word(at)) | u64::from(word(at + 4)) << 32,
            _ => u64::from(word(at)),
        };
        let length_at = usize::from(pointer_size);
        Some(Self {
            function: pointer(Self::FUNCTION_AT),
            length: word(length_at),
            encoding: Encoding(word(length_at + 4)),
            personality: pointer(Self::personality_at(pointer_size)),
            lsda: pointer(Self::lsda_at(pointer_size)),
        })
    }

    /// Returns the bytes of a row: the first [`Entry::size`] bytes are the row, and zeros follow. Only the low
    /// `pointer_size` bytes of a pointer are kept.
    ///
    /// # Panics
    /// `pointer_size` is more than 8. No Mach-O file has such pointers.
    pub fn write(&self, pointer_size: u8) -> [u8; Self::MAX_SIZE] {
        let mut b = [0; Self::MAX_SIZE];
        let width = usize::from(pointer_size);
        let mut put = |at: usize, value: u64, width: usize| {
            b[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        };
        put(Self::FUNCTION_AT, self.function, width);
        put(width, u64::from(self.length), 4);
        put(width + 4, u64::from(self.encoding.0), 4);
        put(Self::personality_at(pointer_size), self.personality, width);
        put(Self::lsda_at(pointer_size), self.lsda, width);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row llvm-mc 23 writes for a function with a personality at 0x10 and an LSDA.
    #[test]
    fn both_widths() {
        let row = Entry {
            function: 0x1_0000_0004,
            length: 5,
            encoding: Encoding(0x4100_0000),
            personality: 0x10,
            lsda: 8,
        };
        let bytes = row.write(8);
        assert_eq!(&bytes[..16], &[4, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0x41]);
        assert_eq!(&bytes[16..], &[0x10, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Entry::read(&bytes, 8), Some(row));
        let bytes = row.write(4);
        assert_eq!(&bytes[..20], &[4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0x41, 0x10, 0, 0, 0, 8, 0, 0, 0]);
        assert_eq!(Entry::read(&bytes[..20], 4), Some(Entry { function: 4, ..row }));
        assert_eq!(Entry::read(&bytes[..19], 4), None);
    }

    #[test]
    fn pointers_are_of_4_or_8_bytes() {
        for pointer_size in (0..=u8::MAX).filter(|size| !matches!(size, 4 | 8)) {
            let bytes = [0xff; 3 * 255 + 8];
            assert_eq!(
                Entry::read(&bytes[..Entry::size(pointer_size)], pointer_size),
                None,
                "{pointer_size}"
            );
        }
    }
}
