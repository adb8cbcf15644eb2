//! [`Section`]: the finished section, which you write for a linked file, or with relocations for a relocatable file.

use alloc::vec::Vec;

use crate::encoder::sframe::{self as encoder, At, WriteError, Written};
use crate::format::elf::{Relocated, RelocationType};
use crate::format::sframe::Version;
use crate::format::{Address, Arch, Key, SectionOffset, Unsupported};

/// A finished `.sframe` section that lacks only the functions' addresses. Its size is exact. You can write it again
/// after each relayout.
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

/// A relocation of a `.sframe` section in a relocatable file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Relocation {
    /// The offset of the relocated field in the section.
    pub offset: SectionOffset,
    /// The width of the field, and the base of its distance.
    pub kind: RelocationKind,
    /// The function that the relocation leads to. The linker knows the function's symbol, and the addend of the
    /// function's start.
    pub function: Key,
    /// The number of bytes to add to the addend of the function's start.
    pub addend: u64,
}

/// How a relocation is computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RelocationKind {
    /// 64 bits, relative to the field: version 3.
    Relative64,
    /// 32 bits, relative to the field: version 2.
    Relative32,
}

impl RelocationKind {
    /// Returns the ELF relocation type that GNU `as` uses: `R_X86_64_PC64`, `R_AARCH64_PREL64`, `R_390_PC64`, or
    /// their 32-bit counterparts. Returns `None` for an architecture that SFrame does not support.
    pub const fn elf_type(self, arch: Arch) -> Option<RelocationType> {
        arch.relocation(self.size(), Relocated::Distance)
    }

    /// Returns the size of the field in bytes: 8 or 4.
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

    /// Copies the rows that this section borrows from the objects' tables. You can then free the bytes of the
    /// objects.
    pub fn into_owned(self) -> Section<'static> {
        let Self { section, arch, version } = self;
        Section { section: section.into_owned(), arch, version }
    }

    /// Returns the exact size of the section in bytes. It is the same in a linked and in a relocatable file.
    pub fn len(&self) -> usize {
        self.section.len()
    }

    /// Returns whether the section has no functions. A linker omits the section then, and GNU `ld` gives it 0 bytes.
    pub fn is_empty(&self) -> bool {
        self.num_fdes() == 0
    }

    /// Returns the number of entries in the function index.
    pub fn num_fdes(&self) -> usize {
        self.section.num_fdes()
    }

    /// Returns the functions that were pushed without an error and [omitted](Self::omit_distant) later.
    pub fn omitted(&self) -> &[Unsupported] {
        self.section.omitted()
    }

    /// Omits the functions that are out of reach of version 2's 32-bit distances if the section lies at `address`.
    /// This makes the section smaller. See [`omit_distant`](encoder::Section::omit_distant).
    pub fn omit_distant(&mut self, address: Address, address_of: impl Fn(Key) -> Address) {
        self.section.omit_distant(address, address_of);
    }

    /// Writes the section of a linked file into `out`, which must have [`Self::len`] bytes. `at` is the address of
    /// the section. `address_of` returns the address of a function, and is also called for omitted functions. If `at`
    /// has a [pool](At::on), several threads may call `address_of` at the same time.
    ///
    /// Functions may turn out to share PCs, for example if input sections overlap in the output. This is not
    /// an error. A function gets no rows if another function starts inside it or at the same address, and
    /// [`Written`] names both functions.
    ///
    /// # Errors
    /// Returns an error if `out` has another length, if a function is too far away for version 2, or if the counts of
    /// functions, rows or row bytes do not fit into the header. `out` may have been written to.
    pub fn write<'p>(
        &self,
        out: &mut [u8],
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Written, WriteError> {
        self.section.write(out, at, address_of)
    }

    /// Like [`Self::write`], but returns the bytes, which saves a copy of the rows.
    ///
    /// # Errors
    /// Returns the errors of [`Self::write`], apart from the length. Functions that turn out to share PCs are an
    /// error here.
    pub fn into_bytes<'p>(
        self,
        at: impl Into<At<'p>>,
        address_of: impl Fn(Key) -> Address + Sync,
    ) -> Result<Vec<u8>, WriteError> {
        self.section.into_bytes(at, address_of)
    }

    /// Writes the section of a relocatable file into `out`, which must have [`Self::len`] bytes. All start fields are
    /// zero, and entries are in the order in which you pushed them. Write the [relocations](Self::relocations) along
    /// with it.
    ///
    /// # Errors
    /// Returns an error if `out` has another length, or if the counts of functions, rows or row bytes do not fit into
    /// the header.
    pub fn write_relocatable(&self, out: &mut [u8]) -> Result<(), WriteError> {
        self.section.write_relocatable(out)
    }

    /// Returns the relocations of the section in a relocatable file: one for each entry, in the order of the fields.
    /// Each relocation is relative to its field: the value is the function's address plus the addend, minus the
    /// field's address.
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

    /// Returns the architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }
}
