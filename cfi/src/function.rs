//! The frame description entry (FDE).

use cfipack_format::{Address, Arch, Key, Reason, SectionOffset};

use crate::cursor::Cursor;
use crate::pointer::{Bases, PointerEncoding};
use crate::record::{Record, Records};
use crate::{Cie, Error, Keys, Section, SectionKind};

/// A function: an FDE with its CIE.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Function<'a> {
    /// The key of the function. In [relocated](crate::Functions::new) input this is its first address.
    pub key: Key,
    /// The first address, or `None` in [unrelocated](crate::Functions::keyed) input.
    pub start: Option<Address>,
    /// The size of the code in bytes.
    pub size: u64,
    /// The offset of the FDE.
    pub fde: SectionOffset,
    /// The offset of the FDE's `start` field. In a relocatable object, a relocation has this offset.
    pub start_field: SectionOffset,
    /// The CIE.
    pub cie: Cie<'a>,
    /// The augmentation data, without its length.
    pub(crate) augmentation_data: &'a [u8],
    /// The FDE's own instructions, padding included.
    pub instructions: &'a [u8],
    /// The section. `DW_CFA_set_loc` needs its bases.
    pub(crate) section: Records<'a>,
}

impl<'a> Function<'a> {
    /// Creates a function from instructions that are in no section, for example an assembler's. It has a key
    /// and no address.
    pub fn from_parts(arch: Arch, key: Key, size: u64, cie: Cie<'a>, instructions: &'a [u8]) -> Self {
        let section = Section::new(SectionKind::EhFrame, &[], Address(0), arch);
        Self {
            key,
            start: None,
            size,
            fde: SectionOffset(0),
            start_field: SectionOffset(0),
            cie,
            augmentation_data: &[],
            instructions,
            section: Records::new(&section, false),
        }
    }

    #[inline]
    pub(crate) fn parse(
        section: &Records<'a>,
        cie: &Cie<'a>,
        record: &Record<'a>,
        keys: &mut impl Keys,
    ) -> Result<Option<Self>, Error> {
        let offset = record.offset;
        let truncated = Error::Truncated { offset };
        let address_size = section.arch.pointer_size();
        let mut cursor = Cursor::new(record.body, section.arch.endian());
        let here = section.address_of(record.body);
        let bases = Bases { text: section.text, data: section.data, function: Address(0) };
        let (start, size) = match (cie.fde_encoding, cursor.rest().first_chunk::<8>()) {
            // Nearly every file has this encoding, so both fields are read at once.
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
        let start_field = SectionOffset(section.offset_of(record.body));
        if !section.is_placed && cie.fde_encoding.is_aligned() {
            // The place of the field depends on the section's address.
            return Err(Error::PointerEncoding { offset, encoding: cie.fde_encoding.0 });
        }
        let Some((key, limit)) = keys.key(start_field, start) else { return Ok(None) };
        let size = limit.map_or(size, |limit| size.min(limit.into()));
        if section.is_placed && start.0.checked_add(size).is_none() {
            return Err(Error::Range { offset, start, size });
        }
        let mut augmentation_data: &[u8] = &[];
        if cie.has_data {
            let length = cursor.uleb().ok_or(truncated)?;
            let length = usize::try_from(length).map_err(|_| truncated)?;
            augmentation_data = cursor.take(length).ok_or(truncated)?;
        }
        Ok(Some(Self {
            key,
            start: section.is_placed.then_some(start),
            size,
            fde: offset,
            start_field,
            cie: *cie,
            augmentation_data,
            instructions: cursor.rest(),
            section: *section,
        }))
    }

    /// Returns the architecture of the section.
    #[inline]
    pub fn arch(&self) -> cfipack_format::Arch {
        self.section.arch
    }

    /// Returns the address after the last byte, or `None` if the function has no address.
    #[inline]
    pub fn end(&self) -> Option<Address> {
        self.start.map(|start| Address(start.0.wrapping_add(self.size)))
    }

    /// Returns the distance of an address from the function's start, in bytes. Addresses wrap around.
    ///
    /// # Errors
    /// [`Reason::PlaceUnknown`]: the function has no address.
    pub fn location_of(&self, pc: Address) -> Result<u64, Reason> {
        self.start.map(|start| pc.0.wrapping_sub(start.0)).ok_or(Reason::PlaceUnknown)
    }

    /// Returns the operand of `DW_CFA_set_loc` at the start of `operand`, and the bytes after it. Without
    /// relocation, the address has no meaning.
    pub(crate) fn read_location(&self, operand: &'a [u8]) -> Option<(Address, &'a [u8])> {
        let section = &self.section;
        let mut cursor = Cursor::new(operand, section.arch.endian());
        let function = self.start.unwrap_or_default();
        let bases = Bases { text: section.text, data: section.data, function };
        let here = section.address_of(operand);
        let size = section.arch.pointer_size();
        let address = self.cie.fde_encoding.read_address(&mut cursor, here, &bases, size)?;
        Some((address, cursor.rest()))
    }

    /// Augmentation `L`: returns the offset of the pointer to the language-specific data area (LSDA). In a
    /// relocatable object, a relocation has this offset. A zero without a relocation means that there is no
    /// LSDA.
    pub fn lsda_field(&self) -> Option<SectionOffset> {
        let has_field =
            self.cie.lsda_encoding != PointerEncoding::OMITTED && !self.augmentation_data.is_empty();
        has_field.then(|| SectionOffset(self.section.offset_of(self.augmentation_data)))
    }

    /// Returns the augmentation data after all that the CIE's letters describe. Compilers write none.
    pub fn unused_data(&self) -> &'a [u8] {
        let mut cursor = Cursor::new(self.augmentation_data, self.arch().endian());
        if self.cie.lsda_encoding != PointerEncoding::OMITTED {
            self.cie.lsda_encoding.read_value(&mut cursor, self.arch().pointer_size());
        }
        cursor.rest()
    }

    /// Augmentation `L`: returns the address of the language-specific data area, or `None` if the pointer is
    /// zero. If the CIE's encoding is indirect, this is the address of the cell that holds the LSDA's address.
    ///
    /// # Errors
    /// [`Reason::PlaceUnknown`]: the input is not relocated. The relocation of [`Self::lsda_field`] has the
    /// address.
    pub fn lsda(&self) -> Result<Option<Address>, Reason> {
        match (self.lsda_field(), self.start) {
            (None, _) => Ok(None),
            (Some(_), None) => Err(Reason::PlaceUnknown),
            (Some(_), Some(start)) => Ok(self.placed_lsda(start)),
        }
    }

    fn placed_lsda(&self, function: Address) -> Option<Address> {
        let encoding = PointerEncoding(self.cie.lsda_encoding.0 & 0x7f);
        let section = &self.section;
        let size = section.arch.pointer_size();
        let cursor = Cursor::new(self.augmentation_data, section.arch.endian());
        if encoding.read_value(&mut cursor.clone(), size)? == 0 {
            return None;
        }
        let bases = Bases { text: section.text, data: section.data, function };
        encoding.read_address(&mut cursor.clone(), section.address_of(self.augmentation_data), &bases, size)
    }
}
