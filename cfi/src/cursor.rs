//! Reads integers from the start of a slice.

use cfipack_format::Endian;

/// A position in the bytes of a record. Every read returns `None` if the bytes end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    endian: Endian,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { bytes, endian }
    }

    /// Returns the unread bytes.
    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Continues at `rest`, a tail of the unread bytes.
    #[inline]
    pub(crate) fn set_rest(&mut self, rest: &'a [u8]) {
        self.bytes = rest;
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(count)?;
        self.bytes = tail;
        Some(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk()?;
        self.bytes = tail;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (&head, tail) = self.bytes.split_first()?;
        self.bytes = tail;
        Some(head)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(self.endian.u16(self.array()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(self.endian.u32(self.array()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(self.endian.u64(self.array()?))
    }

    /// Reads an unsigned LEB128 number. Bits beyond the 64th must be zero.
    #[inline]
    pub(crate) fn uleb(&mut self) -> Option<u64> {
        let byte = self.u8()?;
        if byte < 0x80 { Some(u64::from(byte)) } else { self.long_uleb(byte) }
    }

    #[cold]
    fn long_uleb(&mut self, first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift < 64 {
                value |= bits << shift;
            }
            if shift >= 64 && bits != 0 || shift == 63 && bits > 1 {
                return None;
            }
            if byte < 0x80 {
                return Some(value);
            }
            shift = (shift + 7).min(70);
        }
    }

    /// Reads a signed LEB128 number. Bits beyond the 64th must repeat the sign.
    #[inline]
    pub(crate) fn sleb(&mut self) -> Option<i64> {
        let byte = self.u8()?;
        // A single byte has seven bits, with the sign in bit 6.
        if byte < 0x80 { Some(i64::from((byte << 1) as i8 >> 1)) } else { self.long_sleb(byte) }
    }

    #[cold]
    fn long_sleb(&mut self, first: u8) -> Option<i64> {
        let mut value = i64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.u8()?;
            let bits = i64::from(byte & 0x7f);
            if shift < 64 {
                value |= bits << shift;
            }
            let sign = if value < 0 { 0x7f } else { 0 };
            if shift >= 64 && bits != sign || shift == 63 && bits != 0 && bits != 0x7f {
                return None;
            }
            shift = (shift + 7).min(70);
            if byte < 0x80 {
                let sign_extend = byte & 0x40 != 0 && shift < 64;
                return Some(if sign_extend { value | -1 << shift } else { value });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leb128_round_trips_through_gimli() {
        let values = [0, 1, 63, 64, 127, 128, 300, 1 << 31, i64::MAX, -1, -64, -65, -128, i64::MIN];
        for value in values {
            let mut bytes = [0; 16];
            let length = gimli::leb128::write::signed(&mut bytes.as_mut_slice(), value).unwrap();
            let mut cursor = Cursor::new(&bytes[..length], Endian::Little);
            assert_eq!(cursor.sleb(), Some(value));
            assert!(cursor.rest().is_empty());
            let length = gimli::leb128::write::unsigned(&mut bytes.as_mut_slice(), value as u64).unwrap();
            let mut cursor = Cursor::new(&bytes[..length], Endian::Little);
            assert_eq!(cursor.uleb(), Some(value as u64));
            assert!(cursor.rest().is_empty());
        }
    }

    #[test]
    fn overlong_and_overflowing_leb128() {
        let read = |bytes: &[u8]| Cursor::new(bytes, Endian::Little).uleb();
        assert_eq!(read(&[0x81, 0x80, 0x80, 0x00]), Some(1));
        assert_eq!(read(&[0xff; 9]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        // The tenth byte has bit 63. Further bytes may only repeat zeros.
        assert_eq!(read(b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), Some(1 << 63));
        assert_eq!(read(b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), Some(1));
        assert_eq!(read(b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), None);
        let read = |bytes: &[u8]| Cursor::new(bytes, Endian::Little).sleb();
        // Further bytes may repeat the sign.
        assert_eq!(read(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), Some(-1));
        assert_eq!(read(b"\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00"), Some(1));
        for (tenth, rest) in [(0x01, None), (0x7e, None), (0xff, Some(0x00)), (0x80, Some(0x7f))] {
            let bytes = [0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, tenth, rest.unwrap_or(0)];
            assert_eq!(read(&bytes), None, "{tenth:#x}");
        }
    }
}
