//! Collects the bytes of a form.

use alloc::vec::Vec;

use cfipack_format::Endian;

/// The bytes so far, and the byte order of the next integers.
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    pub(super) endian: Endian,
}

impl Out {
    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&self.endian.put_u16(value));
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&self.endian.put_u32(value));
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&self.endian.put_u64(value));
    }
}
