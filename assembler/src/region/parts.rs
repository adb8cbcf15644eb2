//! The parts of a function's call frame information.

use cfipack_cfi::{Cie, Function, Instruction, Instructions};
use cfipack_format::{Address, Arch, Key, Unsupported};

use super::{Error, Properties};
use crate::cfi::write;

/// A function: the instructions of its CIE (`entry`), its own instructions, and its other properties.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) arch: Arch,
    pub(super) start: Address,
    pub(super) size: u64,
    pub(super) properties: &'a Properties,
    pub(super) entry: &'a [u8],
    pub(super) instructions: &'a [u8],
    pub(super) lsda: Option<Address>,
}

impl<'a> Parts<'a> {
    /// Returns the function for the encoders. Its key is its start.
    pub(super) fn function(&self) -> Function<'a> {
        let Properties { code_alignment, data_alignment, return_address, .. } = *self.properties;
        let mut cie = Cie::from_parts(code_alignment, data_alignment, return_address, self.entry);
        cie.signal_frame = self.properties.is_signal_frame;
        cie.pauth_key_b = self.properties.has_key_b;
        cie.tagged = self.properties.is_tagged;
        Function::from_parts(self.arch, Key(self.start.0), self.size, cie, self.instructions)
    }
}

/// Checks that instructions can be read, and can be written for another place.
pub(super) fn readable(function: &Function<'_>, bytes: &[u8]) -> Result<(), Error> {
    for instruction in Instructions::new(function, bytes) {
        match instruction {
            Ok(Instruction::SetLocation(_)) => return Err(write::Error::SetLocation.into()),
            Ok(_) => {}
            Err(reason) => return Err(Error::Instructions(Unsupported::function(function.key, reason))),
        }
    }
    Ok(())
}
