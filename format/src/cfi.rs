//! A section of call frame information (CFI) as a file holds it, with everything else that a reader needs.
//! `cfipack-cfi` reads it, and so does the independent judge in `cfipack-roundtrip`.

use core::fmt;

use crate::{Address, Arch, SectionOffset};

/// The layout of a section: `.eh_frame` or `.debug_frame`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SectionKind {
    /// `.eh_frame`: CIE pointers count back from their own field, and a zero length ends a part (Linux Standard
    /// Base 5.0, "Exception Frames").
    EhFrame,
    /// `.debug_frame`: CIE pointers are offsets in the section (DWARF 5, section 6.4.1).
    DebugFrame,
}

impl SectionKind {
    /// Returns the name of the section in ELF files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EhFrame => ".eh_frame",
            Self::DebugFrame => ".debug_frame",
        }
    }
}

/// A section of call frame information.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Section<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The address of the section in memory, which is the base of PC-relative pointers.
    pub address: Address,
    /// The layout.
    pub kind: SectionKind,
    /// The architecture, which determines the byte order and the pointer size.
    pub arch: Arch,
    /// The base of `DW_EH_PE_textrel` pointers.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers (the GOT).
    pub data: Address,
    /// FDEs that do not describe a function of their own, in ascending order of their offsets. Readers skip
    /// these FDEs.
    pub excluded: &'a [Excluded],
}

/// An FDE that does not describe a function of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Excluded {
    /// The offset of the FDE's record in the section.
    pub fde: SectionOffset,
    /// The reason why the FDE does not count.
    pub reason: Exclusion,
}

/// The reason why an FDE does not count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Exclusion {
    /// The linker discarded or folded the function and kept its FDE.
    Discarded,
    /// Another FDE has the same start and the same description.
    Repeated,
    /// `.eh_frame`, which unwinders read, describes the function too.
    Superseded,
    /// The verifier cannot read or evaluate the FDE, so no table is to have rows for it.
    Unjudged,
    /// Its function is unknown, although no linker discarded it. For example, `strip` removed the relocations of an
    /// object, or a compiler wrote records of another layout than DWARF's.
    Unplaced,
}

impl Exclusion {
    /// All reasons.
    pub const ALL: [Self; 5] =
        [Self::Discarded, Self::Repeated, Self::Superseded, Self::Unjudged, Self::Unplaced];

    /// Returns a short name for counting.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discarded => "discarded",
            Self::Repeated => "repeated",
            Self::Superseded => "superseded",
            Self::Unjudged => "unjudged",
            Self::Unplaced => "unplaced",
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Discarded => "the linker discarded the function",
            Self::Repeated => "another FDE describes the function alike",
            Self::Superseded => "an FDE in .eh_frame describes the function",
            Self::Unjudged => "the verifier cannot judge the function",
            Self::Unplaced => "no relocation or address leads to the function",
        })
    }
}

impl<'a> Section<'a> {
    /// Creates a section. The bases of text and data are 0, and all FDEs count.
    pub const fn new(kind: SectionKind, bytes: &'a [u8], address: Address, arch: Arch) -> Self {
        Self { bytes, address, kind, arch, text: Address(0), data: Address(0), excluded: &[] }
    }

    /// Sets the [bytes](Self::bytes).
    #[must_use]
    pub const fn with_bytes(self, bytes: &'a [u8]) -> Self {
        Self { bytes, ..self }
    }

    /// Sets the base of [`DW_EH_PE_textrel`](Self::text) pointers.
    #[must_use]
    pub const fn with_text(self, text: Address) -> Self {
        Self { text, ..self }
    }

    /// Sets the base of [`DW_EH_PE_datarel`](Self::data) pointers.
    #[must_use]
    pub const fn with_data(self, data: Address) -> Self {
        Self { data, ..self }
    }

    /// Sets the FDEs that do not [count](Self::excluded), in ascending order of their offsets.
    #[must_use]
    pub const fn with_excluded(self, excluded: &'a [Excluded]) -> Self {
        Self { excluded, ..self }
    }
}
