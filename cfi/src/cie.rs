//! The common information entry (CIE).

use cfipack_format::{Address, Arch, Register, SectionOffset};

use crate::Error;
use crate::cursor::Cursor;
use crate::pointer::{Bases, PointerEncoding};
use crate::record::Records;

/// A CIE: the description that several FDEs share.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cie<'a> {
    /// The offset of the CIE in the section.
    pub offset: SectionOffset,
    /// The version: 1, 3 or 4.
    pub version: u8,
    /// The augmentation string, without its zero byte.
    pub augmentation: &'a [u8],
    /// The code alignment factor: bytes of code per unit of an advance.
    pub code_alignment: u64,
    /// The data alignment factor: bytes per unit of a factored offset.
    pub data_alignment: i64,
    /// The column of the return address.
    pub return_address: Register,
    /// Augmentation `S`: a signal frame.
    pub signal_frame: bool,
    /// Augmentation `B`: return addresses are signed with key B (AArch64).
    pub pauth_key_b: bool,
    /// Augmentation `G`: the frame's stack memory is tagged (AArch64).
    pub tagged: bool,
    /// Augmentation `P`: the personality routine.
    pub personality: Option<Personality>,
    /// Augmentation `L`: how FDEs encode their LSDA.
    pub lsda_encoding: PointerEncoding,
    /// The instructions, which run before the instructions of every FDE.
    pub instructions: &'a [u8],
    /// Augmentation `z`: FDEs have augmentation data, after its length.
    pub(crate) has_data: bool,
    /// Augmentation `R`: how FDEs encode addresses.
    pub fde_encoding: PointerEncoding,
}

/// A CIE's personality routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Personality {
    /// The encoding of the pointer. The pointer is the address of the routine, or of a cell that holds the
    /// routine's address.
    pub encoding: PointerEncoding,
    /// The offset of the pointer in the section. In a relocatable object, a relocation has this offset.
    pub field: SectionOffset,
    /// The address of the routine or the cell. `None` in [unrelocated](crate::Functions::keyed) input, where
    /// the field's relocation has the address.
    pub address: Option<Address>,
}

/// The greatest number of bytes after the CIE id. Hostile input may have more CIEs than a cache holds, so
/// that we read and run a CIE again for each FDE.
const MAX_LENGTH: usize = 1024;

impl<'a> Cie<'a> {
    /// Creates a CIE that is in no section, for [`Function::from_parts`](crate::Function::from_parts). It has
    /// no augmentation letters and no pointers.
    pub const fn from_parts(
        code_alignment: u64,
        data_alignment: i64,
        return_address: Register,
        instructions: &'a [u8],
    ) -> Self {
        Self {
            offset: SectionOffset(0),
            version: 1,
            augmentation: &[],
            code_alignment,
            data_alignment,
            return_address,
            signal_frame: false,
            pauth_key_b: false,
            tagged: false,
            personality: None,
            lsda_encoding: PointerEncoding::OMITTED,
            instructions,
            has_data: false,
            fde_encoding: PointerEncoding::ABSOLUTE,
        }
    }

    /// Parses the CIE whose record starts at `offset`. `body` is the rest of the record after the CIE id.
    pub(crate) fn parse(section: &Records<'a>, offset: SectionOffset, body: &'a [u8]) -> Result<Self, Error> {
        let truncated = Error::Truncated { offset };
        if body.len() > MAX_LENGTH {
            return Err(Error::CieLength { offset, length: body.len() });
        }
        let mut cursor = Cursor::new(body, section.arch.endian());
        let version = cursor.u8().ok_or(truncated)?;
        if !matches!(version, 1 | 3 | 4) {
            return Err(Error::CieVersion { offset, version });
        }
        let text = cursor.rest();
        let length = text.iter().position(|&byte| byte == 0).ok_or(truncated)?;
        let augmentation = &text[..length];
        cursor.take(length + 1).ok_or(truncated)?;
        if augmentation == b"eh" {
            // GCC 2: the address of the exception table.
            cursor.take(section.arch.pointer_size().into()).ok_or(truncated)?;
        }
        if version == 4 {
            check_sizes(&mut cursor, section.arch, offset)?;
        }
        let code_alignment = cursor.uleb().ok_or(truncated)?;
        let data_alignment = cursor.sleb().ok_or(truncated)?;
        let column = if version == 1 { cursor.u8().map(u64::from) } else { cursor.uleb() };
        let column = column.ok_or(truncated)?;
        let return_address = u16::try_from(column).map_err(|_| Error::ReturnColumn { offset, column })?;
        let plain = Self::from_parts(code_alignment, data_alignment, Register(return_address), &[]);
        let mut cie = Self { offset, version, augmentation, ..plain };
        match augmentation {
            b"" | b"eh" => {}
            [b'z', letters @ ..] => {
                let length = cursor.uleb().ok_or(truncated)?;
                let length = usize::try_from(length).map_err(|_| truncated)?;
                let data = cursor.take(length).ok_or(truncated)?;
                cie.has_data = true;
                cie.parse_augmentation(letters, data, section)?;
            }
            // gas writes a lone `S` in `.debug_frame`. Only with `z` is there data for the letters.
            letters => {
                if let Some(&letter) = letters.iter().find(|letter| !b"SBG".contains(letter)) {
                    return Err(Error::Augmentation { offset, letter });
                }
                cie.parse_augmentation(letters, &[], section)?;
            }
        }
        cie.instructions = cursor.rest();
        Ok(cie)
    }

    fn parse_augmentation(
        &mut self,
        letters: &[u8],
        data: &'a [u8],
        section: &Records<'a>,
    ) -> Result<(), Error> {
        let offset = self.offset;
        let truncated = Error::Truncated { offset };
        let mut cursor = Cursor::new(data, section.arch.endian());
        for &letter in letters {
            match letter {
                b'R' => {
                    self.fde_encoding = PointerEncoding(cursor.u8().ok_or(truncated)?);
                    let encoding = self.fde_encoding;
                    if !encoding.is_readable() || encoding.is_indirect() || encoding.is_in_function() {
                        return Err(Error::PointerEncoding { offset, encoding: encoding.0 });
                    }
                }
                b'L' => self.lsda_encoding = PointerEncoding(cursor.u8().ok_or(truncated)?),
                b'P' => {
                    let encoding = PointerEncoding(cursor.u8().ok_or(truncated)?);
                    if encoding != PointerEncoding::OMITTED {
                        self.personality = Some(self.personality(&mut cursor, encoding, section)?);
                    }
                }
                b'S' => self.signal_frame = true,
                b'B' => self.pauth_key_b = true,
                // No rule depends on `G`.
                b'G' => self.tagged = true,
                _ => return Err(Error::Augmentation { offset, letter }),
            }
        }
        Ok(())
    }

    fn personality(
        &self,
        cursor: &mut Cursor<'a>,
        encoding: PointerEncoding,
        section: &Records<'a>,
    ) -> Result<Personality, Error> {
        let offset = self.offset;
        if !encoding.is_readable() {
            return Err(Error::PointerEncoding { offset, encoding: encoding.0 });
        }
        let field = SectionOffset(section.offset_of(cursor.rest()));
        let here = section.address_of(cursor.rest());
        let bases = Bases { text: section.text, data: section.data, function: Address(0) };
        let address = PointerEncoding(encoding.0 & 0x7f)
            .read_address(cursor, here, &bases, section.arch.pointer_size())
            .ok_or(Error::Truncated { offset })?;
        Ok(Personality { encoding, field, address: section.is_placed.then_some(address) })
    }

    /// Returns whether the instructions of an FDE have the same meaning with `other` as with this CIE.
    #[inline]
    pub fn means_the_same(&self, other: &Self) -> bool {
        self.code_alignment == other.code_alignment
            && self.data_alignment == other.data_alignment
            && self.return_address == other.return_address
            && self.signal_frame == other.signal_frame
            && self.pauth_key_b == other.pauth_key_b
            && (core::ptr::eq(self.instructions, other.instructions)
                || self.instructions == other.instructions)
    }
}

/// Checks the two sizes that version 4 has: of an address, and of a segment selector.
fn check_sizes(cursor: &mut Cursor<'_>, arch: Arch, offset: SectionOffset) -> Result<(), Error> {
    let truncated = Error::Truncated { offset };
    let size = cursor.u8().ok_or(truncated)?;
    if size != arch.pointer_size() {
        return Err(Error::AddressSize { offset, size });
    }
    match cursor.u8().ok_or(truncated)? {
        0 => Ok(()),
        size => Err(Error::SegmentSize { offset, size }),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use cfipack_format::{Address, Arch, SectionOffset};

    use super::MAX_LENGTH;
    use crate::write::{Cie, Writer};
    use crate::{Error, Functions, SectionKind};

    #[test]
    fn cies_of_more_bytes_than_any_has_are_refused() {
        for (length, is_read) in [(MAX_LENGTH, true), (MAX_LENGTH + 1, false)] {
            let mut writer = Writer::new(SectionKind::EhFrame, Arch::Amd64, Address(0));
            writer.alignment = 1;
            // There are nine bytes between the id and the instructions.
            let cie = writer.cie(&Cie::new(Arch::Amd64, &vec![0; length - 9])).unwrap();
            assert_eq!(writer.as_bytes().len(), 8 + length);
            writer.fde(&cie, Address(0x1000), 8, None, &[]).unwrap();
            let section = writer.section();
            let read = Functions::new(&section).map(|function| function.map(|function| function.size));
            let expected =
                if is_read { Ok(8) } else { Err(Error::CieLength { offset: SectionOffset(0), length }) };
            assert_eq!(read.collect::<Vec<_>>(), [expected]);
        }
    }
}
