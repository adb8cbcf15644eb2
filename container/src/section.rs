//! Sections, independent of the format.

use std::borrow::Cow;

use cfipack_cfi::{self as cfi, Excluded, Functions};
use cfipack_format::{Address, Arch};

/// A section of a file. In a file without section headers, a segment takes its place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Section<'a> {
    /// The index in the section table, or `None` for a segment.
    pub index: Option<usize>,
    /// The name. Bytes that are not UTF-8 are replaced.
    pub name: Cow<'a, str>,
    /// The address in memory. In a relocatable object, [`Placement`](crate::Placement) chooses it.
    pub address: Address,
    /// The bytes. They are borrowed from the file, or a copy if they were decompressed or relocated.
    pub bytes: Cow<'a, [u8]>,
}

impl<'a> Section<'a> {
    /// Makes a section that is not in a section table, for example from a file with only a section's bytes.
    pub const fn new(name: Cow<'a, str>, address: Address, bytes: Cow<'a, [u8]>) -> Self {
        Self { index: None, name, address, bytes }
    }
}

/// A section of call frame information, with everything that a reader needs to decode it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallFrameSection<'a> {
    /// The section.
    pub section: Section<'a>,
    /// Whether the section has the layout of `.eh_frame` or of `.debug_frame`.
    pub kind: cfi::SectionKind,
    /// The architecture of the file.
    pub arch: Arch,
    /// The base of `DW_EH_PE_textrel` pointers, which is the address of `.text`.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers, which is the address of the GOT.
    pub data: Address,
    /// The FDEs that do not describe a function of their own, ascending by offset. See
    /// [`File::call_frame_sections`](crate::File::call_frame_sections) for the reasons.
    pub excluded: Vec<Excluded>,
}

/// A place in a section.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Location<'a> {
    /// The section's index in the section table.
    pub section: usize,
    /// The section's name.
    pub name: Cow<'a, str>,
    /// The offset from the section's start in bytes.
    pub offset: u64,
}

impl CallFrameSection<'_> {
    /// Returns whether every FDE of the section is [excluded](Self::excluded).
    pub fn is_superfluous(&self) -> bool {
        !self.excluded.is_empty() && Functions::new(&self.cfi()).next().is_none()
    }

    /// Returns the section in the form that `cfipack_cfi` reads.
    pub fn cfi(&self) -> cfi::Section<'_> {
        cfi::Section::new(self.kind, &self.section.bytes, self.section.address, self.arch)
            .with_text(self.text)
            .with_data(self.data)
            .with_excluded(&self.excluded)
    }
}
