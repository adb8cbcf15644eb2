//! The frame description entry.

use cfipack_format::{Address, SectionOffset};

use super::{Error, Writer, WrittenCie};
use crate::{PointerEncoding, SectionKind};

impl Writer {
    /// Appends an FDE of a CIE of this section, for the function of `size` bytes at `start`. Returns where its
    /// `start` field lies, which a relocation of a relocatable object names.
    ///
    /// ```text
    /// length  4 or 12 | CIE pointer  4 or 8 | start  pointer | size  pointer's format
    /// "z": length of what follows  uleb, then  L: pointer
    /// instructions
    /// ```
    ///
    /// # Errors
    /// A pointer does not fit; nothing is appended then.
    pub fn fde(
        &mut self,
        cie: &WrittenCie,
        start: Address,
        size: u64,
        lsda: Option<Address>,
        instructions: &[u8],
    ) -> Result<SectionOffset, Error> {
        self.record(|writer| {
            let here = writer.bytes.len();
            writer.id(match writer.kind {
                SectionKind::EhFrame => (here - cie.offset.0) as u64,
                SectionKind::DebugFrame => cie.offset.0 as u64,
            });
            let start_field = writer.offset();
            writer.pointer(cie.fde_encoding, start)?;
            writer.value(cie.fde_encoding, size)?;
            if cie.has_data {
                writer.with_length(|writer| match (cie.lsda_encoding, lsda) {
                    (PointerEncoding::OMITTED, _) => Ok(()),
                    (encoding, Some(lsda)) => writer.pointer(encoding, lsda),
                    (encoding, None) => writer.value(encoding, 0),
                })?;
            }
            writer.raw(instructions);
            Ok(start_field)
        })
    }
}
