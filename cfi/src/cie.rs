//! The common information entry.

use cfipack_format::{Address, Arch, Register, SectionOffset};

use crate::Error;
use crate::cursor::Cursor;
use crate::pointer::{Bases, PointerEncoding};
use crate::record::Records;

/// A CIE: what its FDEs have in common.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cie<'a> {
    /// The offset of its start.
    pub offset: SectionOffset,
    /// 1, 3 or 4.
    pub version: u8,
    /// The augmentation string, without its zero byte.
    pub augmentation: &'a [u8],
    /// Bytes of code that an advance counts.
    pub code_alignment: u64,
    /// The factor of factored offsets.
    pub data_alignment: i64,
    /// The column that holds the return address.
    pub return_address: Register,
    /// Augmentation `S`: a signal frame.
    pub signal_frame: bool,
    /// Augmentation `B`: return addresses are signed with key B (AArch64).
    pub pauth_key_b: bool,
    /// Augmentation `G`: the frame's stack memory is tagged (AArch64).
    pub tagged: bool,
    /// Augmentation `P`: the personality routine.
    pub personality: Option<Personality>,
    /// Augmentation `L`: how FDEs store their LSDA.
    pub lsda_encoding: PointerEncoding,
    /// The instructions that precede those of every FDE.
    pub instructions: &'a [u8],
    /// Augmentation `z`: FDEs carry augmentation data with its length in front.
    pub(crate) has_data: bool,
    /// Augmentation `R`: how FDEs store addresses.
    pub fde_encoding: PointerEncoding,
}

/// A CIE's personality routine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Personality {
    /// The encoding of the pointer to the routine: its address, or that of a cell that holds it.
    pub encoding: PointerEncoding,
    /// The offset of the pointer, which a relocation of a relocatable object names.
    pub field: SectionOffset,
    /// The routine or the cell; none in [unrelocated](crate::Functions::keyed) input, where the relocation of the
    /// field has it.
    pub address: Option<Address>,
}

/// Bytes after the CIE id, at most. No cache holds as many CIEs as hostile input may have, in turn or
/// one inside the other, and each FDE may then cost reading its CIE and running the instructions.
const MAX_LENGTH: usize = 1024;

impl<'a> Cie<'a> {
    /// A CIE that lies in no section, for [`Function::from_parts`](crate::Function::from_parts): without letters and
    /// pointers, with these alignment factors, return column and instructions.
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

    /// Parses the CIE whose record starts at `offset`, with `body` what follows the CIE id.
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
        let mut cie = Self {
            offset,
            version,
            augmentation,
            code_alignment,
            data_alignment,
            return_address: Register(return_address),
            signal_frame: false,
            pauth_key_b: false,
            tagged: false,
            personality: None,
            lsda_encoding: PointerEncoding::OMITTED,
            instructions: &[],
            has_data: false,
            fde_encoding: PointerEncoding::ABSOLUTE,
        };
        match augmentation {
            b"" | b"eh" => {}
            [b'z', letters @ ..] => {
                let length = cursor.uleb().and_then(|length| usize::try_from(length).ok());
                let data = length.and_then(|length| cursor.take(length)).ok_or(truncated)?;
                cie.has_data = true;
                cie.parse_augmentation(letters, data, section)?;
            }
            // gas writes `S` so in `.debug_frame`. Only `z` gives the length of the letters' data.
            letters => {
                let unknown = letters.iter().find(|letter| !b"SBG".contains(letter));
                unknown.map_or(Ok(()), |&letter| Err(Error::Augmentation { offset, letter }))?;
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
                    if !self.fde_encoding.is_readable() || self.fde_encoding.is_indirect() {
                        return Err(Error::PointerEncoding { offset, encoding: self.fde_encoding.0 });
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
                // No unwinding rule depends on it.
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

    /// Returns whether `other` gives its FDEs' instructions the same meaning.
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

/// Version 4: the sizes of an address and of a segment selector.
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
            // Nine bytes stand between the id and the instructions.
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
