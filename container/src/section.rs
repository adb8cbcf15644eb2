//! Sections as the rest of cfipack wants them.

use std::borrow::Cow;

use cfipack_cfi::{self as cfi, Excluded, Functions};
use cfipack_format::{Address, Arch};

/// A section of a file, or a segment where there are no sections.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Section<'a> {
    /// The place in the section table; none for a segment.
    pub index: Option<usize>,
    /// The name; what is not UTF-8 is replaced.
    pub name: Cow<'a, str>,
    /// The address in memory; see [`Placement`](crate::Placement) for relocatable objects.
    pub address: Address,
    /// The bytes: the file's own, or a copy that has been decompressed or relocated.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> Section<'a> {
    /// A section that is in no section table.
    pub const fn new(name: Cow<'a, str>, address: Address, bytes: Cow<'a, [u8]>) -> Self {
        Self { index: None, name, address, bytes }
    }
}

/// A section of call frame information.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallFrameSection<'a> {
    /// The section.
    pub section: Section<'a>,
    /// The layout.
    pub kind: cfi::SectionKind,
    /// The file's architecture.
    pub arch: Arch,
    /// The base of `DW_EH_PE_textrel` pointers: `.text`.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers: the GOT.
    pub data: Address,
    /// FDEs that describe no function of their own, in ascending order of their offsets.
    pub excluded: Vec<Excluded>,
}

/// A place in a section.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Location<'a> {
    /// The section's place in the section table.
    pub section: usize,
    /// The name.
    pub name: Cow<'a, str>,
    /// Bytes from its start.
    pub offset: u64,
}

impl CallFrameSection<'_> {
    /// Returns whether all that the section describes is [excluded](Self::excluded).
    pub fn is_superfluous(&self) -> bool {
        !self.excluded.is_empty() && Functions::new(&self.cfi()).next().is_none()
    }

    /// The section as its reader takes it.
    pub fn cfi(&self) -> cfi::Section<'_> {
        cfi::Section::new(self.kind, &self.section.bytes, self.section.address, self.arch)
            .with_text(self.text)
            .with_data(self.data)
            .with_excluded(&self.excluded)
    }
}
