//! The frame description entry.

use cfipack_format::{Address, SectionOffset};

use crate::cursor::Cursor;
use crate::pointer::{Bases, PointerEncoding};
use crate::record::{Record, Records};
use crate::{Cie, Error};

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
    /// The augmentation data, without its length.
    pub(crate) augmentation_data: &'a [u8],
    /// The FDE's own instructions, padding included.
    pub instructions: &'a [u8],
    /// The section, whose bases `DW_CFA_set_loc` needs.
    pub(crate) section: Records<'a>,
}

impl<'a> Function<'a> {
    #[inline]
    pub(crate) fn parse(section: &Records<'a>, cie: &Cie<'a>, record: &Record<'a>) -> Result<Self, Error> {
        let offset = record.offset;
        let truncated = Error::Truncated { offset };
        let address_size = section.arch.pointer_size();
        let mut cursor = Cursor::new(record.body, section.arch.endian());
        let here = section.address_of(record.body);
        let bases = Bases { text: section.text, data: section.data, function: Address(0) };
        let (start, size) = match (cie.fde_encoding, cursor.rest().first_chunk::<8>()) {
            // What nearly every file has: two reads at once.
            (PointerEncoding::PC_RELATIVE_SIGNED_4, Some(&[s0, s1, s2, s3, z0, z1, z2, z3])) => {
                let endian = section.arch.endian();
                cursor.take(8);
                let distance = endian.u32([s0, s1, s2, s3]) as i32;
                (here.offset(distance.into()), endian.u32([z0, z1, z2, z3]) as i32 as u64)
            }
            (encoding, _) => {
                let start =
                    encoding.read_address(&mut cursor, here, &bases, address_size).ok_or(truncated)?;
                (start, encoding.read_value(&mut cursor, address_size).ok_or(truncated)?)
            }
        };
        let mut augmentation_data: &[u8] = &[];
        if cie.has_data {
            let length = cursor.uleb().ok_or(truncated)?;
            let length = usize::try_from(length).map_err(|_| truncated)?;
            augmentation_data = cursor.take(length).ok_or(truncated)?;
        }
        Ok(Self {
            start,
            size,
            fde: offset,
            start_field: SectionOffset(section.offset_of(record.body)),
            cie: *cie,
            augmentation_data,
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
    pub(crate) fn read_location(&self, operand: &'a [u8]) -> Option<(Address, &'a [u8])> {
        let section = &self.section;
        let mut cursor = Cursor::new(operand, section.arch.endian());
        let bases = Bases { text: section.text, data: section.data, function: self.start };
        let here = section.address_of(operand);
        let size = section.arch.pointer_size();
        let address = self.cie.fde_encoding.read_address(&mut cursor, here, &bases, size)?;
        Some((address, cursor.rest()))
    }

    /// Augmentation `L`: the language-specific data area, or the cell with its address if the CIE's
    /// encoding is indirect; none where the value is zero.
    pub fn lsda(&self) -> Option<Address> {
        let encoding = PointerEncoding(self.cie.lsda_encoding.0 & 0x7f);
        if self.cie.lsda_encoding == PointerEncoding::OMITTED || self.augmentation_data.is_empty() {
            return None;
        }
        let section = &self.section;
        let size = section.arch.pointer_size();
        let cursor = Cursor::new(self.augmentation_data, section.arch.endian());
        if encoding.read_value(&mut cursor.clone(), size)? == 0 {
            return None;
        }
        let bases = Bases { text: section.text, data: section.data, function: self.start };
        encoding.read_address(&mut cursor.clone(), section.address_of(self.augmentation_data), &bases, size)
    }
}
