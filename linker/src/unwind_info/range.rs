//! A range of code, as inputs describe it.

use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::{Arch, Key, LsdaKey};

use super::Fde;

/// A range of code and how it is unwound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) function: Key,
    /// In bytes.
    pub(super) length: u32,
    /// [`Encoding::NONE`]: code without unwind information. In DWARF mode without an offset.
    pub(super) encoding: Encoding,
    /// Number of its personality in the builder.
    pub(super) personality: Option<u32>,
    pub(super) lsda: Option<LsdaKey>,
    /// The FDE that describes it, or can.
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

    /// Leaves the range to its FDE; without one it has no unwind information.
    pub(super) fn fall_back(&mut self, arch: Arch) {
        let inside = self.encoding.flags() & Flags::NOT_FUNCTION_START;
        *self = match self.fde {
            Some(_) => Self { encoding: Encoding::dwarf(arch, 0).with_flags(inside), ..*self },
            None => Self::without_information(self.function, self.length),
        };
    }
}
