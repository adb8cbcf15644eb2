//! Directives from the frame tables of `gimli::write`.

use alloc::vec::Vec;

use cfipack_format::{Arch, Endian, Key, SectionOffset, Unsupported};
use gimli::write::{Address, EhFrame, EndianVec, FrameTable, Writer};
use gimli::{DwEhPe, RunTimeEndian};

use crate::Directives;
use crate::cfi::{self, Functions, Section, SectionKind};

cfipack_format::errors! {
    /// The reason why a frame table gives no directives.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum GimliError {
        /// gimli cannot write the table.
        #[error("{error}")]
        Write(error: gimli::write::Error),
        /// A record that gimli wrote cannot be read.
        #[error("{error}")]
        Read(error: cfi::Error),
        /// A function's instructions have no directives.
        #[error("{unsupported}")]
        Function(unsupported: Unsupported),
    }
}

/// Returns the functions of a frame table of gimli 0.34, in order. For example, a code generator with
/// Cranelift has such a table. The table has no accessors, so this function writes the table and reads it
/// again. `key_of` returns your key for an address in the table: of a function, a personality routine or a
/// language-specific data area.
///
/// If your table is of another version of gimli, write it yourself. Then read it with [`Functions`] and
/// [`Directives::from_cfi`].
///
/// # Errors
/// The table cannot be written as `.eh_frame`, or has instructions that no directive represents.
pub fn from_gimli(
    table: &FrameTable,
    arch: Arch,
    mut key_of: impl FnMut(Address) -> Key,
) -> Result<Vec<(Key, Directives)>, GimliError> {
    let endian = match arch.endian() {
        Endian::Little => RunTimeEndian::Little,
        Endian::Big => RunTimeEndian::Big,
    };
    let mut eh_frame = EhFrame(Recorder { bytes: EndianVec::new(endian), pointers: Vec::new() });
    table.write_eh_frame(&mut eh_frame).map_err(GimliError::Write)?;
    let Recorder { bytes, pointers } = eh_frame.0;
    let mut key_at = |SectionOffset(offset)| {
        let index = pointers.binary_search_by_key(&offset, |&(at, _)| at).ok()?;
        Some(key_of(pointers[index].1))
    };
    let section = Section::new(SectionKind::EhFrame, bytes.slice(), cfipack_format::Address(0), arch);
    let mut result = Vec::with_capacity(table.fde_count());
    // Every function is alive, and gets its key later.
    for function in Functions::keyed(&section, |_| Some(Key(0))) {
        let function = function.map_err(GimliError::Read)?;
        let mut directives = Directives::from_cfi(&function).map_err(GimliError::Function)?;
        if let Some(personality) = function.cie.personality
            && let Some(key) = key_at(personality.field)
        {
            directives.personality(personality.encoding, key);
        }
        if let Some(key) = function.lsda_field().and_then(&mut key_at) {
            directives.lsda(function.cie.lsda_encoding, key);
        }
        let key = key_at(function.start_field).unwrap_or_default();
        result.push((key, directives));
    }
    Ok(result)
}

/// Writes zeros for addresses, and records the addresses.
struct Recorder {
    bytes: EndianVec<RunTimeEndian>,
    /// The offset of each address, in ascending order, and the address.
    pointers: Vec<(usize, Address)>,
}

impl Writer for Recorder {
    type Endian = RunTimeEndian;

    fn endian(&self) -> RunTimeEndian {
        self.bytes.endian()
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn write(&mut self, bytes: &[u8]) -> gimli::write::Result<()> {
        self.bytes.write(bytes)
    }

    fn write_at(&mut self, offset: usize, bytes: &[u8]) -> gimli::write::Result<()> {
        self.bytes.write_at(offset, bytes)
    }

    fn write_address(&mut self, address: Address, size: u8) -> gimli::write::Result<()> {
        self.pointers.push((self.len(), address));
        self.write_udata(0, size)
    }

    fn write_eh_pointer(&mut self, address: Address, eh_pe: DwEhPe, size: u8) -> gimli::write::Result<()> {
        self.pointers.push((self.len(), address));
        self.write_eh_pointer_data(0, eh_pe.format(), size)
    }
}
