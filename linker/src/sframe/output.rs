//! The finished section: written for a linked file, or with relocations for a relocatable one.

use alloc::vec::Vec;

use crate::encoder::sframe::{self as encoder, At, WriteError, Written};
use crate::format::elf::{Relocated, RelocationType};
use crate::format::sframe::Version;
use crate::format::{Address, Arch, Key, SectionOffset, Unsupported};

/// A `.sframe` section that needs only addresses. Its size is exact, and it can be written again after each
/// relayout.
///
/// ```
/// use cfipack_format::{Arch, Key};
/// use cfipack_linker::sframe::{Live, Merger, Object, Options};
///
/// // The `.eh_frame` of an object before relocation: one function of four bytes (`push rbp; pop rbp; ret`).
/// let eh_frame = [
///     0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, //
///     0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x42, 0x0e, 8, 0,
/// ];
/// let object = Object::new().with_eh_frame(&eh_frame);
/// let mut merger = Merger::new(Arch::Amd64, Options::new())?;
/// merger.push_object(&object, |_| Some(Live::new(Key(7))), |note| panic!("{note}"));
/// let section = merger.finish();
/// let mut bytes = vec![0; section.len()];
/// section.write_relocatable(&mut bytes)?; // for `ld -r`
/// let relocations: Vec<_> = section.relocations().collect();
/// assert_eq!((relocations.len(), relocations[0].offset.0, relocations[0].function), (1, 28, Key(7)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Section<'a> {
    section: encoder::Section<'a>,
    arch: Arch,
    version: Version,
}

/// A relocation of the section in a relocatable file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the field in the section.
    pub offset: SectionOffset,
    /// The field's width, and what it is relative to.
    pub kind: RelocationKind,
    /// The function that it leads to: the symbol, and the addend of the function's start, are the linker's to know.
    pub function: Key,
    /// The difference of the addend to the function's start, in bytes.
    pub addend: u64,
}

/// The computation of a relocation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RelocationKind {
    /// 64 bits, relative to the field: version 3.
    Relative64,
    /// 32 bits, relative to the field: version 2.
    Relative32,
}

impl RelocationKind {
    /// The ELF relocation type, as GNU `as` has it: `R_X86_64_PC64`, `R_AARCH64_PREL64`, `R_390_PC64` and those of 32
    /// bits. `None` for an architecture that the format does not have.
    pub const fn elf_type(self, arch: Arch) -> Option<RelocationType> {
        arch.relocation(self.size(), Relocated::Distance)
    }

    /// Bytes of the field.
    pub const fn size(self) -> u8 {
        match self {
            Self::Relative64 => 8,
            Self::Relative32 => 4,
        }
    }
}

impl<'a> Section<'a> {
    pub(crate) fn new(section: encoder::Section<'a>, arch: Arch, version: Version) -> Self {
        Self { section, arch, version }
    }

    /// The section with a copy of the rows that it takes from the objects' tables, whose bytes need not stay then.
    pub fn into_owned(self) -> Section<'static> {
        let Self { section, arch, version } = self;
        Section { section: section.into_owned(), arch, version }
    }

    /// Bytes of the section, exact, in a linked and in a relocatable file.
    pub fn len(&self) -> usize {
        self.section.len()
    }

    /// Returns whether it has no function: a linker omits the section then, and GNU `ld` gives it 0 bytes.
    pub fn is_empty(&self) -> bool {
        self.num_fdes() == 0
    }

    /// Entries of the function index.
    pub fn num_fdes(&self) -> usize {
        self.section.num_fdes()
    }

    /// Functions that were taken and [omitted](Self::omit_distant) later.
    pub fn omitted(&self) -> &[Unsupported] {
        self.section.omitted()
    }

    /// Omits the functions that version 2 cannot reach from `address`: see
    /// [`omit_distant`](encoder::Section::omit_distant). The section is smaller then.
    pub fn omit_distant(&mut self, address: Address, address_of: impl Fn(Key) -> Address) {
        self.section.omit_distant(address, address_of);
    }

    /// Writes the section of a linked file, `at` its address, into `out`, of [`Self::len`] bytes. `address_of` gives the
    /// addresses of all functions, and of those that are omitted; with a [pool](At::on) several threads may ask it at
    /// the same time.
    ///
    /// Functions that turn out to share PCs, as those of input sections that overlap in the output, are no error: one
    /// that another function starts in, or where it does, gets no rows, and [`Written`] names both.
    ///
    /// # Errors
    /// `out` has another length, a function is too far away for version 2, or there are more functions, rows or bytes
    /// of them than the header can count. `out` may have been written to.
    pub fn write<'p>(
        &self,
        out: &mut [u8],
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Written, WriteError> {
        self.section.write(out, at, address_of)
    }

    /// The bytes of the section of a linked file, as by [`Self::write`], but without a copy of the rows.
    ///
    /// # Errors
    /// Those of [`Self::write`] but for the length; also functions that turn out to share PCs.
    pub fn into_bytes<'p>(
        self,
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Vec<u8>, WriteError> {
        self.section.into_bytes(at, address_of)
    }

    /// Writes the section of a relocatable file into `out`, of [`Self::len`] bytes: starts are zero, entries in the
    /// order in which they were pushed. Each of the [relocations](Self::relocations) goes with it.
    ///
    /// # Errors
    /// `out` has another length, or there are more functions, rows or bytes of them than the header can count.
    pub fn write_relocatable(&self, out: &mut [u8]) -> Result<(), WriteError> {
        self.section.write_relocatable(out)
    }

    /// The relocations of the section in a relocatable file, one for each entry, in the order of their fields. All are
    /// relative to the field: the value is the address of the function plus the addend, less the field's address.
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> + '_ {
        let kind = match self.version {
            Version::V1 | Version::V2 => RelocationKind::Relative32,
            Version::V3 => RelocationKind::Relative64,
        };
        self.section.start_fields().map(move |start| Relocation {
            offset: start.field,
            kind,
            function: start.function,
            addend: start.offset,
        })
    }

    /// The architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }
}
