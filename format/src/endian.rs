//! Byte order of the integers on disk.

/// The byte order of a file. Reads and writes use arrays of the exact size, so they cannot fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Endian {
    /// Least significant byte first: x86, AArch64.
    Little,
    /// Most significant byte first: s390x, big-endian AArch64.
    Big,
}

macro_rules! integers {
    ($($read:ident $write:ident $int:ty, $size:literal;)*) => {$(
        #[doc = concat!("Reads a `", stringify!($int), "`.")]
        #[inline]
        pub fn $read(self, bytes: [u8; $size]) -> $int {
            match self {
                Self::Little => <$int>::from_le_bytes(bytes),
                Self::Big => <$int>::from_be_bytes(bytes),
            }
        }

        #[doc = concat!("The bytes of a `", stringify!($int), "`.")]
        #[inline]
        pub fn $write(self, value: $int) -> [u8; $size] {
            match self {
                Self::Little => value.to_le_bytes(),
                Self::Big => value.to_be_bytes(),
            }
        }
    )*};
}

impl Endian {
    integers! {
        u16 put_u16 u16, 2;
        u32 put_u32 u32, 4;
        u64 put_u64 u64, 8;
    }
}
