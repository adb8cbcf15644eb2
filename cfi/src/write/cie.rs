//! Writes the common information entry (CIE).

use cfipack_format::{Address, Arch, Register, SectionOffset};

use super::{Error, Writer};
use crate::{PointerEncoding, SectionKind};

/// A CIE to write. [`Cie::new`] creates a common CIE, and the `with_…` methods change it.
///
/// ```text
/// length  4 or 12   | id  4 or 8 | version  1 | augmentation  zero-terminated
/// "eh": pointer     | version 4: address size 1, segment selector size 1
/// code alignment  uleb | data alignment  sleb | return column  1, or uleb from version 3 on
/// "z": length of the letters' data  uleb, then for each letter  P: encoding 1, pointer  L: encoding 1  R: encoding 1
/// instructions
/// ```
///
/// DWARF 5, section 6.4.1; Linux Standard Base 5.0, "Exception Frames".
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Cie<'a> {
    /// The version: 1, 3 or 4.
    pub version: u8,
    /// The augmentation string: empty, `eh`, `z` followed by letters of `PLRSBG`, or letters of `SBG` alone.
    pub augmentation: &'a [u8],
    /// The code alignment factor: bytes of code per unit of an advance.
    pub code_alignment: u64,
    /// The data alignment factor: bytes per unit of a factored offset.
    pub data_alignment: i64,
    /// The column of the return address.
    pub return_address: Register,
    /// Letter `P`: the personality routine, or the cell that holds its address.
    pub personality: Option<(PointerEncoding, Address)>,
    /// Letter `L`: how FDEs encode their LSDA.
    pub lsda_encoding: PointerEncoding,
    /// Letter `R`: how FDEs encode starts and sizes. Without the letter, they are absolute.
    pub fde_encoding: PointerEncoding,
    /// Bytes to write in place of the augmentation data and its length, whatever the letters are. Use them to
    /// test a reader with data that no assembler writes.
    pub augmentation_data: Option<&'a [u8]>,
    /// The instructions.
    pub instructions: &'a [u8],
}

/// A CIE that has been written. Pass it to [`Writer::fde`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct WrittenCie {
    /// The offset of the CIE in the section.
    pub offset: SectionOffset,
    pub(super) arch: Arch,
    pub(super) code_alignment: u64,
    pub(super) data_alignment: i64,
    pub(super) has_data: bool,
    pub(super) fde_encoding: PointerEncoding,
    pub(super) lsda_encoding: PointerEncoding,
}

impl<'a> Cie<'a> {
    /// Creates the CIE that compilers use for most functions: version 1, `zR`, PC-relative pointers of four
    /// bytes, and the architecture's alignment factors and return column.
    pub fn new(arch: Arch, instructions: &'a [u8]) -> Self {
        let (code_alignment, data_alignment) = arch.cfi_alignment();
        Self {
            version: 1,
            augmentation: b"zR",
            code_alignment,
            data_alignment,
            return_address: arch.return_address(),
            personality: None,
            lsda_encoding: PointerEncoding::OMITTED,
            fde_encoding: PointerEncoding::PC_RELATIVE_SIGNED_4,
            augmentation_data: None,
            instructions,
        }
    }

    /// Sets the augmentation string.
    pub fn with_augmentation(self, augmentation: &'a [u8]) -> Self {
        Self { augmentation, ..self }
    }

    /// Sets the code and data alignment factors.
    pub fn with_alignment(self, code_alignment: u64, data_alignment: i64) -> Self {
        Self { code_alignment, data_alignment, ..self }
    }

    /// Sets the encoding of starts and sizes in FDEs.
    pub fn with_fde_encoding(self, fde_encoding: PointerEncoding) -> Self {
        Self { fde_encoding, ..self }
    }

    /// Sets the bytes of the augmentation data, which include its length.
    pub fn with_augmentation_data(self, data: &'a [u8]) -> Self {
        Self { augmentation_data: Some(data), ..self }
    }

    /// Writes the data of the letters.
    fn write_augmentation_data(&self, writer: &mut Writer) -> Result<(), Error> {
        for &letter in &self.augmentation[1..] {
            match (letter, self.personality) {
                (b'P', Some((encoding, routine))) => {
                    writer.raw(&[encoding.0]);
                    writer.pointer(encoding, routine)?;
                }
                (b'P', None) => writer.raw(&[PointerEncoding::OMITTED.0]),
                (b'L', _) => writer.raw(&[self.lsda_encoding.0]),
                (b'R', _) => writer.raw(&[self.fde_encoding.0]),
                (b'S' | b'B' | b'G', _) => {}
                _ => return Err(Error::Augmentation { letter }),
            }
        }
        Ok(())
    }
}

impl Writer {
    /// Appends a CIE.
    ///
    /// # Errors
    /// A value does not fit its field. Then nothing is appended.
    pub fn cie(&mut self, cie: &Cie<'_>) -> Result<WrittenCie, Error> {
        let offset = self.offset();
        let has_data = cie.augmentation.first() == Some(&b'z');
        self.record(|writer| writer.cie_body(cie, has_data))?;
        let encoding_of = |letter, encoding, without| {
            if has_data && cie.augmentation.contains(&letter) { encoding } else { without }
        };
        Ok(WrittenCie {
            offset,
            arch: self.arch,
            code_alignment: cie.code_alignment,
            data_alignment: cie.data_alignment,
            has_data,
            fde_encoding: encoding_of(b'R', cie.fde_encoding, PointerEncoding::ABSOLUTE),
            lsda_encoding: encoding_of(b'L', cie.lsda_encoding, PointerEncoding::OMITTED),
        })
    }

    fn cie_body(&mut self, cie: &Cie<'_>, has_data: bool) -> Result<(), Error> {
        self.id(match self.kind {
            SectionKind::EhFrame => 0,
            SectionKind::DebugFrame => u64::MAX,
        });
        self.raw(&[cie.version]);
        self.raw(cie.augmentation);
        self.raw(&[0]);
        match cie.augmentation {
            b"eh" => self.value(PointerEncoding::ABSOLUTE, 0)?,
            _ if has_data || cie.augmentation_data.is_some() => {}
            letters => {
                if let Some(&letter) = letters.iter().find(|letter| !b"SBG".contains(letter)) {
                    return Err(Error::Augmentation { letter });
                }
            }
        }
        match cie.version {
            1 | 3 => {}
            4 => self.raw(&[self.arch.pointer_size(), 0]),
            version => return Err(Error::Version { version }),
        }
        self.uleb(cie.code_alignment);
        self.sleb(cie.data_alignment);
        let register = cie.return_address;
        match (cie.version, u8::try_from(register.0)) {
            (1, Ok(column)) => self.raw(&[column]),
            (1, Err(_)) => return Err(Error::ReturnColumn { register }),
            _ => self.uleb(register.0.into()),
        }
        match cie.augmentation_data {
            Some(data) => self.raw(data),
            None if has_data => self.with_length(|writer| cie.write_augmentation_data(writer))?,
            None => {}
        }
        self.raw(cie.instructions);
        Ok(())
    }

    /// Appends the output of `data`, after its length in a single byte. Every length takes a byte, because a
    /// PC-relative pointer in the data depends on its place, and the data of real CIEs and FDEs has fewer than
    /// 128 bytes.
    pub(super) fn with_length(
        &mut self,
        data: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let at = self.bytes.len();
        self.raw(&[0]);
        data(self)?;
        let length = self.bytes.len() - at - 1;
        if length >= 0x80 {
            return Err(Error::AugmentationData { length });
        }
        self.bytes[at] = length as u8;
        Ok(())
    }
}
