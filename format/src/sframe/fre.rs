//! The frame row entry: `start (1, 2 or 4 bytes) | info (1 byte) | data words`.
//!
//! Data words of a function of type DEFAULT, signed, in this order:
//! - amd64: CFA offset \[, FP offset\];
//! - AArch64, s390x: CFA offset \[, RA offset \[, FP offset\]\].
//!
//! s390x stores `(CFA offset - 160) / 8`, and an RA word 0 where only the FP is saved.
//!
//! Data words of type FLEX are pairs ([control word](ControlWord), offset) for the CFA, the RA and the FP. If
//! the RA is in its default place, its pair is omitted, or is the single word 0 if an FP pair follows.
//!
//! An info byte of 0, without words, marks the outermost frame: the return address is undefined.

use crate::Register;

/// The width of an FRE's data words. Each FRE has its own width.
///
/// This type is the only list of the widths. Code that decides by a width matches every size, so that a new size is a
/// list of compile errors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WordSize {
    /// 1 byte.
    B1 = 0,
    /// 2 bytes.
    B2 = 1,
    /// 4 bytes.
    B4 = 2,
}

impl WordSize {
    /// Every size, from the narrowest to the widest. The position of a size is its number in an info byte.
    pub const ALL: [Self; 3] = [Self::B1, Self::B2, Self::B4];

    /// The width of the widest word in bytes.
    pub const MAX_WIDTH: usize = Self::ALL[Self::ALL.len() - 1].width();

    /// Returns the width of a word in bytes.
    #[inline]
    pub const fn width(self) -> usize {
        match self {
            Self::B1 => 1,
            Self::B2 => 2,
            Self::B4 => 4,
        }
    }

    /// Returns the length of `count` words in bytes. This is a shift without a branch, for code that reads many FREs.
    #[inline(always)]
    pub const fn len_of(self, count: usize) -> usize {
        count << self as u8
    }

    /// Returns the size with this number in an info byte, or `None` for an invalid number.
    #[inline]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::B1),
            1 => Some(Self::B2),
            2 => Some(Self::B4),
            _ => None,
        }
    }

    /// Returns the narrowest size for a signed value, or `None` if the value does not fit into 4 bytes.
    #[inline]
    pub const fn for_signed(value: i64) -> Option<Self> {
        if value == value as i8 as i64 {
            Some(Self::B1)
        } else if value == value as i16 as i64 {
            Some(Self::B2)
        } else if value == value as i32 as i64 {
            Some(Self::B4)
        } else {
            None
        }
    }

    /// Returns the narrowest size for an unsigned value.
    #[inline]
    pub const fn for_unsigned(value: u32) -> Self {
        match value {
            0..=0xff => Self::B1,
            0x100..=0xffff => Self::B2,
            _ => Self::B4,
        }
    }
}

// The numbers of the sizes, the shift in `len_of`, and `from_number` agree with `ALL` and `width`.
const _: () = {
    let mut number = 0;
    while number < WordSize::ALL.len() {
        let size = WordSize::ALL[number];
        assert!(size as usize == number && size.len_of(1) == size.width());
        assert!(matches!(WordSize::from_number(number as u8), Some(read) if read as usize == number));
        number += 1;
    }
};

/// The info byte of an FRE.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | CFA base: 0 = FP, 1 = SP (always 0 in FLEX) |
/// | 1 to 4 | number of data words |
/// | 5, 6 | size of a data word: 0, 1, 2 = 1, 2, 4 bytes |
/// | 7 | AArch64: the return address is signed |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FreInfo(pub u8);

impl FreInfo {
    /// The outermost frame: there are no words, and the return address is undefined (version 2 errata 2,
    /// version 3).
    pub const OUTERMOST: Self = Self(0);

    /// The greatest number of data words that mean something: a pair for each of the CFA, the RA and the FP.
    pub const MAX_WORDS: usize = 6;

    /// Packs the four fields. `count` is at most 15.
    #[inline]
    pub const fn new(sp_based: bool, count: u8, size: WordSize, signed: bool) -> Self {
        Self(sp_based as u8 | count << 1 | (size as u8) << 5 | (signed as u8) << 7)
    }

    /// Returns whether the CFA is counted from SP rather than FP (type DEFAULT).
    #[inline]
    pub const fn sp_based(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns the number of data words, 0 to 15.
    #[inline]
    pub const fn count(self) -> u8 {
        self.0 >> 1 & 0xf
    }

    /// Returns the size of a data word, or `None` for the invalid number 3.
    #[inline]
    pub const fn word_size(self) -> Option<WordSize> {
        WordSize::from_number(self.0 >> 5 & 3)
    }

    /// Returns the number of bytes of the FRE after its start: the info byte and the words. Returns `None` for
    /// an invalid word size.
    #[inline]
    pub const fn fre_len(self) -> Option<usize> {
        match self.word_size() {
            Some(size) => Some(1 + size.len_of(self.count() as usize)),
            None => None,
        }
    }

    /// AArch64: returns whether the return address is signed.
    #[inline]
    pub const fn signed(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// The control word for "stored at the CFA plus the offset".
pub const CONTROL_CFA_SLOT: ControlWord = ControlWord(0x2);

/// The first word of a FLEX pair. It names the base of the offset, and whether the sum is an address to load
/// from. The word 0 is not a control word but padding: the RA is in its default place.
///
/// | bits | meaning |
/// |---|---|
/// | 0 | 1 = based on the register, 0 = on the CFA |
/// | 1 | 1 = dereference the sum |
/// | 2 | 0 |
/// | 3 and up | DWARF register number |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ControlWord(pub u32);

impl ControlWord {
    /// Creates a control word that is based on a register.
    #[inline]
    pub const fn register(register: Register, deref: bool) -> Self {
        Self((register.0 as u32) << 3 | (deref as u32) << 1 | 1)
    }

    /// Returns whether the base is the register. Otherwise the base is the CFA.
    #[inline]
    pub const fn is_register_based(self) -> bool {
        self.0 & 1 != 0
    }

    /// Returns whether the sum is an address to load from.
    #[inline]
    pub const fn deref(self) -> bool {
        self.0 & 2 != 0
    }

    /// Returns the register number as stored, up to 29 bits.
    #[inline]
    pub const fn register_number(self) -> u32 {
        self.0 >> 3
    }
}
