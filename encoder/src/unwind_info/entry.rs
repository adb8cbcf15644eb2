//! An entry: what a table encodes for a range of code.

use core::num::NonZeroU32;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, Key, LsdaKey};

/// One range of code and how it is unwound: a function, or one of the parts that a function has.
///
/// Zero never is the place of an FDE (the first CIE is there), nor, on disk, the number of a personality.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The start of the range: any number that the caller knows it by, its image offset for instance.
    pub function: Key,
    /// Bytes of the range. Only that of the last one is written: it ends the table.
    pub length: u32,
    /// The encoding of the function's unwinding. Its LSDA flag and personality number are set when the table is
    /// written, whatever they are here. Only in [`Layout::Lld`](super::Layout::Lld), outside DWARF mode, a
    /// number stays and the personality's is ORed to it, as ld64.lld does; objects should have none.
    /// [`Encoding::NONE`]: code without unwind information.
    pub encoding: Encoding,
    /// The personality: any number the caller knows it by.
    pub personality: Option<NonZeroU32>,
    /// The LSDA: any number but 0 that the caller knows it by, its image offset for instance.
    pub lsda: Option<LsdaKey>,
    /// Offset of its FDE in the image's `__eh_frame`, if it has one. In DWARF mode it takes the
    /// place of the encoding's own offset; in other modes it is used if the function has to
    /// fall back to DWARF.
    pub fde: Option<NonZeroU32>,
}

impl Entry {
    /// An entry without personality, LSDA and FDE.
    pub fn new(function: impl Into<Key>, length: u32, encoding: Encoding) -> Self {
        Self { function: function.into(), length, encoding, personality: None, lsda: None, fde: None }
    }
}

/// Returns whether an encoding is in DWARF mode; by number, which costs less than the mode.
#[inline]
pub(super) fn is_dwarf(encoding: Encoding, arch: Arch) -> bool {
    encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number()
}
