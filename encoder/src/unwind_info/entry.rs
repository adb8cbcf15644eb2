//! The entries that you push.

use core::num::NonZeroU32;

use cfipack_format::compact_unwind::Encoding;
use cfipack_format::{Arch, Key, LsdaKey};

/// A range of code and the way to unwind it. The range is a function, or a part of a function.
///
/// The field `fde` is never 0, because the first CIE lies at offset 0. A personality is never 0 either, since 0 means
/// "no personality" on disk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The start of the range. You choose the key: it can be the image offset, or any number that your closures for
    /// [`Section::place`](super::Section::place) turn into an image offset.
    pub function: Key,
    /// The length of the range in bytes. Only the length of the last entry is written, because it gives the end of
    /// the table.
    pub length: u32,
    /// The compact encoding. Pass [`Encoding::NONE`] for code without unwind information.
    ///
    /// The table sets the LSDA flag and the personality number itself, whatever they are here. There is one
    /// exception: in [`Layout::Lld`](super::Layout::Lld), outside of DWARF mode, a personality number stays
    /// and the table's number is ORed to it, as ld64.lld does. Objects should not have such a number.
    pub encoding: Encoding,
    /// The personality: any number that you choose, or `None`.
    pub personality: Option<NonZeroU32>,
    /// The LSDA: any number but 0 that you choose, for example its image offset.
    pub lsda: Option<LsdaKey>,
    /// The offset of the function's FDE in the image's `__eh_frame`, if it has an FDE. In DWARF mode it replaces the
    /// offset in the encoding. In other modes it is used if the function has to fall back to DWARF mode.
    pub fde: Option<NonZeroU32>,
}

impl Entry {
    /// Makes an entry without personality, LSDA and FDE. The length is in bytes.
    pub fn new(function: impl Into<Key>, length: u32, encoding: Encoding) -> Self {
        Self { function: function.into(), length, encoding, personality: None, lsda: None, fde: None }
    }
}

/// Returns whether an encoding is in DWARF mode. It compares numbers, which is faster than decoding the mode.
#[inline]
pub(super) fn is_dwarf(encoding: Encoding, arch: Arch) -> bool {
    encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number()
}
