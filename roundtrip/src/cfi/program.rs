//! Everything that determines a function's rows: its instructions, and the CIE that they continue.

use cfipack_format::widen::ToU64;
use gimli::{DwEhPe, Endianity, constants};

use super::about::About;
use super::record::record_at;
use super::source::Cie;

/// The opcode of `DW_CFA_set_loc`, which moves to an address.
const SET_LOC: u8 = constants::DW_CFA_set_loc.0;

/// The instructions of a function and the CIE that they continue. If two programs are equal, gimli makes equal rows
/// relative to the functions' starts. An instruction that moves to an [address](Self::may_have_addresses) breaks this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Program<'f> {
    section: usize,
    /// The offset of the CIE.
    cie: usize,
    instructions: &'f [u8],
}

impl<'f> Program<'f> {
    /// Takes the bytes from an FDE's first instruction to its end.
    pub(super) fn new(section: usize, cie: usize, instructions: &'f [u8]) -> Self {
        Self { section, cie, instructions }
    }

    /// Returns whether an instruction may move to an address instead of by a distance. This only looks for a byte with
    /// the opcode.
    pub(crate) fn may_have_addresses(&self) -> bool {
        self.instructions.contains(&SET_LOC)
    }

    /// Returns a hash: equal programs have the same hash, and other programs may have it too.
    pub(crate) fn hash(&self) -> u64 {
        let (words, rest) = self.instructions.as_chunks::<8>();
        let hash = mix(self.cie.to_u64(), self.instructions.len().to_u64() << 32 | self.section.to_u64());
        let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_ne_bytes(*word)));
        rest.iter().fold(hash, |hash, &byte| mix(hash, byte.into()))
    }
}

/// Adds a word to a hash.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// The part of an FDE before the instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The size of the start and the size field, in bytes.
    addresses: usize,
    /// True if augmentation data follow.
    has_data: bool,
}

impl Head {
    /// Returns the head with which the FDEs of a CIE start, or `None` for a form that compilers do not write.
    pub(super) fn of_fdes<E: Endianity>(cie: &Cie<'_, E>, about: &About<'_>) -> Option<Self> {
        let record = record_at(about.section, cie.offset())??;
        // The version comes first, then the augmentation.
        let has_data = about.section.bytes.get(record.body.checked_add(1)?)? == &b'z';
        let format = cie.fde_address_encoding().map_or(constants::DW_EH_PE_absptr, DwEhPe::format);
        let width = match format {
            constants::DW_EH_PE_absptr => cie.address_size().into(),
            constants::DW_EH_PE_udata4 | constants::DW_EH_PE_sdata4 => 4,
            constants::DW_EH_PE_udata8 | constants::DW_EH_PE_sdata8 => 8,
            _ => return None,
        };
        Some(Self { addresses: 2 * width, has_data })
    }

    /// Returns the instructions of an FDE from the bytes after its CIE pointer. Returns `None` if its augmentation data
    /// are longer than 127 bytes.
    pub(super) fn instructions(self, body: &[u8]) -> Option<&[u8]> {
        let rest = body.get(self.addresses..)?;
        if !self.has_data {
            return Some(rest);
        }
        let (&length, rest) = rest.split_first()?;
        rest.get(usize::from(length)..).filter(|_| length < 0x80)
    }
}
