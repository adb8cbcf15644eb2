//! The frame description entry.

use cfipack_format::{Address, SectionOffset};

use super::cursor::Cursor;
use super::pointer::{Bases, PointerEncoding};
use super::section::Record;
use super::{Cie, Error, Section};

/// A function: an FDE with its CIE.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// First address.
    pub start: Address,
    /// Bytes of code.
    pub size: u64,
    /// Where the FDE starts.
    pub fde: SectionOffset,
    /// Where its `start` field lies, which a relocation of a relocatable object names.
    pub start_field: SectionOffset,
    /// The CIE.
    pub cie: Cie<'a>,
    /// Augmentation data `L`: the language-specific data area; a cell with its address if the
    /// encoding is indirect.
    pub lsda: Option<Address>,
    /// The FDE's own instructions, padding included.
    pub instructions: &'a [u8],
    /// The section, whose bases `DW_CFA_set_loc` needs.
    pub(super) section: Section<'a>,
}

impl<'a> Function<'a> {
    #[inline]
    pub(super) fn parse(section: &Section<'a>, cie: &Cie<'a>, record: &Record<'a>) -> Result<Self, Error> {
        let offset = record.offset;
        let truncated = Error::Truncated { offset };
        let address_size = section.arch.pointer_size();
        let mut cursor = Cursor::new(record.body, section.arch.endian());
        let here = section.address_of(record.body);
        let bases = Bases { text: section.text, data: section.data, function: Address(0) };
        let start =
            cie.fde_encoding.read_address(&mut cursor, here, &bases, address_size).ok_or(truncated)?;
        let size = cie.fde_encoding.read_value(&mut cursor, address_size).ok_or(truncated)?;
        let mut lsda = None;
        if cie.has_data {
            let length = cursor.uleb().ok_or(truncated)?;
            let length = usize::try_from(length).map_err(|_| truncated)?;
            let data = cursor.take(length).ok_or(truncated)?;
            if length != 0 && cie.lsda_encoding != PointerEncoding::OMITTED {
                lsda = read_lsda(section, cie, data, start);
            }
        }
        Ok(Self {
            start,
            size,
            fde: offset,
            start_field: SectionOffset(section.offset_of(record.body)),
            cie: *cie,
            lsda,
            instructions: cursor.rest(),
            section: *section,
        })
    }

    /// The architecture of the section.
    #[inline]
    pub fn arch(&self) -> cfipack_format::Arch {
        self.section.arch
    }

    /// The address behind the last byte.
    #[inline]
    pub fn end(&self) -> Address {
        Address(self.start.0.wrapping_add(self.size))
    }

    /// The operand of `DW_CFA_set_loc` at the front of `operand`, and what follows it.
    pub(super) fn read_location(&self, operand: &'a [u8]) -> Option<(Address, &'a [u8])> {
        let section = &self.section;
        let mut cursor = Cursor::new(operand, section.arch.endian());
        let bases = Bases { text: section.text, data: section.data, function: self.start };
        let here = section.address_of(operand);
        let size = section.arch.pointer_size();
        let address = self.cie.fde_encoding.read_address(&mut cursor, here, &bases, size)?;
        Some((address, cursor.rest()))
    }
}

/// The LSDA pointer; a value of zero means that there is none.
fn read_lsda<'a>(section: &Section<'a>, cie: &Cie<'a>, data: &'a [u8], start: Address) -> Option<Address> {
    let bases = Bases { text: section.text, data: section.data, function: start };
    let size = section.arch.pointer_size();
    let encoding = PointerEncoding(cie.lsda_encoding.0 & 0x7f);
    let mut cursor = Cursor::new(data, section.arch.endian());
    if encoding.read_value(&mut cursor, size)? == 0 {
        return None;
    }
    let mut cursor = Cursor::new(data, section.arch.endian());
    encoding.read_address(&mut cursor, section.address_of(data), &bases, size)
}
