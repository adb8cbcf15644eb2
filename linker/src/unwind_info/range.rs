//! A range of code with its unwind information.

use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::{Arch, Key, LsdaKey};

use super::Fde;

/// A range of code with its unwind information.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) function: Key,
    /// The length in bytes.
    pub(super) length: u32,
    /// [`Encoding::NONE`] for code without unwind information. In DWARF mode the offset is 0.
    pub(super) encoding: Encoding,
    /// The number of the personality in the builder.
    pub(super) personality: Option<u32>,
    pub(super) lsda: Option<LsdaKey>,
    /// The function's FDE. It describes the range in DWARF mode, and is the fallback otherwise.
    pub(super) fde: Option<Fde>,
}

impl Range {
    pub(super) fn without_information(function: Key, length: u32) -> Self {
        Self { function, length, encoding: Encoding::NONE, personality: None, lsda: None, fde: None }
    }

    pub(super) fn has_information(&self) -> bool {
        self.encoding != Encoding::NONE
    }

    pub(super) fn is_dwarf(&self, arch: Arch) -> bool {
        self.encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number()
    }

    /// Switches the range to its FDE. Without an FDE the range loses its unwind information.
    pub(super) fn fall_back(&mut self, arch: Arch) {
        let inside = self.encoding.flags() & Flags::NOT_FUNCTION_START;
        *self = match self.fde {
            Some(_) => Self { encoding: Encoding::dwarf(arch, 0).with_flags(inside), ..*self },
            None => Self::without_information(self.function, self.length),
        };
    }
}
