//! Rows of code that the linker writes itself.

use crate::encoder::sframe::TableFunction;
use crate::format::sframe::{FdeInfo, FreType};
use crate::format::{Key, Row};

/// The rows of stubs, a PLT or a thunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StubRows<'r> {
    /// What [`Section::write`](super::Section::write) asks the address of.
    pub key: Key,
    /// Bytes from the key's address to the first stub. Rows with another offset than 0 are pushed right after the others
    /// of the key, in ascending order: a PLT's first entry, then its stubs.
    pub offset: u64,
    /// Bytes of code.
    pub size: u32,
    /// Bytes of a stub, if all have the same rows: these repeat then. 0: rows do not repeat.
    pub repeat: u8,
    /// Bytes of the section that the stubs are in, by which GNU `ld` chooses the width of starts; 0 if that does not
    /// matter.
    pub section_size: u32,
    /// The rows, in the order of their starts, which count from the first byte; of those that repeat from that of each
    /// stub.
    pub rows: &'r [Row],
}

impl<'r> StubRows<'r> {
    /// The rows of `size` bytes of code.
    pub const fn new(key: Key, size: u32, rows: &'r [Row]) -> Self {
        Self { key, offset: 0, size, repeat: 0, section_size: 0, rows }
    }

    /// They start so many bytes after the key's address.
    #[must_use]
    pub const fn with_offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// They repeat after so many bytes.
    #[must_use]
    pub const fn with_repeat(mut self, bytes: u8) -> Self {
        self.repeat = bytes;
        self
    }

    /// The section that they are in has so many bytes.
    #[must_use]
    pub const fn with_section_size(mut self, bytes: u32) -> Self {
        self.section_size = bytes;
        self
    }

    pub(crate) fn function(&self) -> TableFunction {
        let mut info = FdeInfo::empty().with_fre_type(FreType::for_start(self.section_size));
        info.set(FdeInfo::PC_MASK, self.repeat != 0);
        TableFunction::new(self.key, self.size).with_offset(self.offset).with_info(info, self.repeat)
    }
}
