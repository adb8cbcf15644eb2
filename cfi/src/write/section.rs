//! Writes a section.

use alloc::vec::Vec;

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, SectionOffset};

use super::{Error, leb128};
use crate::record::id_size;
use crate::{Section, SectionKind};

/// Writes `.eh_frame` or `.debug_frame`, record by record, in the architecture's byte order.
///
/// Write a CIE with [`Writer::cie`], then its FDEs with [`Writer::fde`], and take the bytes with
/// [`Writer::into_bytes`].
#[derive(Clone, Debug)]
pub struct Writer {
    pub(super) kind: SectionKind,
    pub(super) arch: Arch,
    pub(super) address: Address,
    /// The base of `DW_EH_PE_textrel` pointers.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers.
    pub data: Address,
    /// Records end at a multiple of this many bytes, and are filled up with `DW_CFA_nop`. The default is 4 in
    /// `.eh_frame`, and the size of a pointer in `.debug_frame`. Use 1 for no padding.
    pub alignment: usize,
    /// True if records get 64-bit lengths (DWARF 5, section 7.4).
    pub is_64_bit: bool,
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty section for `address`.
    pub fn new(kind: SectionKind, arch: Arch, address: Address) -> Self {
        let alignment = match kind {
            SectionKind::EhFrame => 4,
            SectionKind::DebugFrame => arch.pointer_size().into(),
        };
        let (text, data) = (Address(0), Address(0));
        Self { kind, arch, address, text, data, alignment, is_64_bit: false, bytes: Vec::new() }
    }

    /// Creates a section for `address` that starts with these bytes.
    pub fn after(kind: SectionKind, arch: Arch, address: Address, bytes: Vec<u8>) -> Self {
        Self { bytes, ..Self::new(kind, arch, address) }
    }

    /// Returns the bytes so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the section in the form that a reader takes.
    pub fn section(&self) -> Section<'_> {
        let Self { text, data, .. } = *self;
        Section::new(self.kind, &self.bytes, self.address, self.arch).with_text(text).with_data(data)
    }

    /// Returns the offset of the next record.
    pub fn offset(&self) -> SectionOffset {
        SectionOffset(self.bytes.len())
    }

    /// Appends a zero length. It ends an `.eh_frame` or a part of an `.eh_frame`.
    pub fn terminator(&mut self) {
        self.u32(0);
    }

    /// Appends bytes unchanged: padding, or bytes that no assembler writes.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Extends the last record, which starts at `record`, by `padding` bytes of `DW_CFA_nop`.
    pub fn extend_record(&mut self, record: SectionOffset, padding: usize) {
        self.bytes.resize(self.bytes.len() + padding, 0);
        let content = record.0 + if self.is_64_bit { 12 } else { 4 };
        let length = self.bytes.len().saturating_sub(content);
        let endian = self.arch.endian();
        if self.is_64_bit {
            self.bytes[content - 8..content].copy_from_slice(&endian.put_u64(length.to_u64()));
        } else {
            self.bytes[record.0..content].copy_from_slice(&endian.put_u32(length as u32));
        }
    }

    /// Appends a record: its length, the output of `body` (which starts with the id), and padding. If `body`
    /// fails, nothing is appended.
    pub(super) fn record<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let start = self.bytes.len();
        self.u32(if self.is_64_bit { 0xffff_ffff } else { 0 });
        if self.is_64_bit {
            self.u64(0);
        }
        let content = self.bytes.len();
        let result = body(self).inspect_err(|_| self.bytes.truncate(start))?;
        let end = start + (self.bytes.len() - start).next_multiple_of(self.alignment.max(1));
        self.bytes.resize(end, 0);
        let (endian, length) = (self.arch.endian(), end - content);
        if self.is_64_bit {
            self.bytes[content - 8..content].copy_from_slice(&endian.put_u64(length.to_u64()));
        } else {
            self.bytes[start..content].copy_from_slice(&endian.put_u32(length as u32));
        }
        Ok(result)
    }

    /// Appends a CIE id or a CIE pointer. It has 8 bytes in the 64-bit format of `.debug_frame`, otherwise 4.
    pub(super) fn id(&mut self, id: u64) {
        if id_size(self.kind, self.is_64_bit) == 8 {
            self.u64(id);
        } else {
            self.u32(id as u32);
        }
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.raw(&self.arch.endian().put_u16(value));
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.raw(&self.arch.endian().put_u32(value));
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.raw(&self.arch.endian().put_u64(value));
    }

    pub(super) fn uleb(&mut self, value: u64) {
        leb128::unsigned(&mut self.bytes, value);
    }

    pub(super) fn sleb(&mut self, value: i64) {
        leb128::signed(&mut self.bytes, value);
    }
}
