//! Writes the frame description entry (FDE).

use cfipack_format::widen::ToU64;
use cfipack_format::{Address, SectionOffset};

use super::{Error, Writer, WrittenCie};
use crate::{PointerEncoding, SectionKind};

impl Writer {
    /// Appends an FDE with a CIE of this section, for the function of `size` bytes at `start`. Returns the
    /// offset of the FDE's `start` field, for a relocation in a relocatable object.
    ///
    /// ```text
    /// length  4 or 12 | CIE pointer  4 or 8 | start  pointer | size  pointer's format
    /// "z": length of the LSDA pointer  uleb, then  L: pointer
    /// instructions
    /// ```
    ///
    /// # Errors
    /// A pointer does not fit. Then nothing is appended.
    pub fn fde(
        &mut self,
        cie: &WrittenCie,
        start: Address,
        size: u64,
        lsda: Option<Address>,
        instructions: &[u8],
    ) -> Result<SectionOffset, Error> {
        self.fde_body(cie, start, size, instructions, |writer| {
            if !cie.has_data {
                return Ok(());
            }
            writer.with_length(|writer| match (cie.lsda_encoding, lsda) {
                (PointerEncoding::OMITTED, _) => Ok(()),
                (encoding, Some(lsda)) => writer.pointer(encoding, lsda),
                (encoding, None) => writer.value(encoding, 0),
            })
        })
    }

    /// Appends an FDE with arbitrary augmentation data, which includes its length. Use this function to test a
    /// reader with data that no assembler writes.
    ///
    /// # Errors
    /// The start or the size does not fit. Then nothing is appended.
    pub fn fde_with_augmentation_data(
        &mut self,
        cie: &WrittenCie,
        start: Address,
        size: u64,
        data: &[u8],
        instructions: &[u8],
    ) -> Result<SectionOffset, Error> {
        self.fde_body(cie, start, size, instructions, |writer| {
            writer.raw(data);
            Ok(())
        })
    }

    fn fde_body(
        &mut self,
        cie: &WrittenCie,
        start: Address,
        size: u64,
        instructions: &[u8],
        augmentation_data: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<SectionOffset, Error> {
        self.record(|writer| {
            let here = writer.bytes.len();
            writer.id(match writer.kind {
                SectionKind::EhFrame => (here - cie.offset.0).to_u64(),
                SectionKind::DebugFrame => cie.offset.0.to_u64(),
            });
            let start_field = writer.offset();
            writer.pointer(cie.fde_encoding, start)?;
            writer.value(cie.fde_encoding, size)?;
            augmentation_data(writer)?;
            writer.raw(instructions);
            Ok(start_field)
        })
    }
}
