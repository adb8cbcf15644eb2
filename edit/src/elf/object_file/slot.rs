//! A section of the old file or of the new file.

use std::ops::Range;

use cfipack_container::SectionName;
use object::Endianness;
use object::elf::{SectionFlags, SectionHeader64, SectionType};

use crate::rewrite::Rewrite;

/// A section of the old file or of the new file.
#[derive(Clone, Debug)]
pub(super) struct Slot<'a> {
    pub(super) name: SectionName,
    pub(super) header: SectionHeader64<Endianness>,
    /// The bytes in the old file, or `None` if the section is new or has no bytes.
    pub(super) old: Option<Range<usize>>,
    /// The new contents, if they change.
    pub(super) new: Option<Rewrite<'a>>,
    pub(super) is_removed: bool,
}

/// The alignment of a table and of its relocations in bytes.
const ALIGN: u64 = 8;

impl Slot<'_> {
    /// Turns the section into a table or its relocations.
    pub(super) fn set_kind(
        &mut self,
        endian: Endianness,
        kind: SectionType,
        flags: SectionFlags,
        entry: u64,
    ) {
        self.header.sh_type.set(endian, kind);
        self.header.sh_flags.set(endian, flags);
        self.header.sh_addralign.set(endian, ALIGN);
        self.header.sh_entsize.set(endian, entry);
    }

    /// Returns the number of bytes in the new file.
    pub(super) fn len(&self) -> usize {
        match &self.new {
            Some(contents) => contents.len(),
            None => self.old.as_ref().map_or(0, Range::len),
        }
    }

    /// Returns whether the section has no bytes in either file.
    pub(super) fn has_no_bytes(&self) -> bool {
        self.new.is_none() && self.old.is_none()
    }
}
