//! The `.sframe` table of a region.

use alloc::vec::Vec;

use cfipack_cfi::Function;
use cfipack_encoder::sframe::{Builder, Options, Section};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Key, Unsupported};

use super::{Error, Region};
use crate::sframe::FEW;

/// The four numbers that you register a table with, in the kernel or an unwinder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Registration {
    /// The address of the table.
    pub table: Address,
    /// Bytes of the table.
    pub table_size: u64,
    /// The address of the code.
    pub text: Address,
    /// Bytes of the code.
    pub text_size: u64,
}

/// A region's table, which needs only its own address.
#[derive(Clone, Debug)]
pub struct Sframe {
    section: Section<'static>,
    omitted: Vec<Unsupported>,
    text: Address,
    text_size: u64,
}

impl Region {
    /// Returns the region's `.sframe` table.
    ///
    /// # Errors
    /// [`Error::Arch`]: the format has no ABI for the architecture.
    pub fn sframe(&self, options: Options) -> Result<Sframe, Error> {
        let options = options.with_few(self.functions.len() <= FEW);
        let builder = Builder::new(self.arch, options);
        let mut builder = builder.map_err(|_| Error::Arch { arch: self.arch, form: ".sframe" })?;
        let mut omitted = Vec::new();
        for function in self.cfi_functions() {
            omitted.extend(builder.push(&function).err());
        }
        let section = builder.finish().into_owned();
        omitted.extend_from_slice(section.omitted());
        Ok(Sframe { section, omitted, text: self.base, text_size: self.length })
    }

    /// Returns the functions for the encoders, with their starts as keys.
    pub(crate) fn cfi_functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.placed().map(|placed| self.parts(placed).function())
    }
}

impl Sframe {
    /// Returns the size of the table in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a table is never empty: it has a header")]
    pub fn len(&self) -> usize {
        self.section.len()
    }

    /// Returns the functions that the table cannot represent, with the reasons. Unwinding ends in them.
    pub fn omitted(&self) -> &[Unsupported] {
        &self.omitted
    }

    /// Writes the table into `out`, which must have [`Self::len`] bytes. The table will lie at `address`.
    /// Returns the numbers to register.
    ///
    /// # Errors
    /// `out` has another length.
    pub fn write(&self, out: &mut [u8], address: Address) -> Result<Registration, Error> {
        self.section.write(out, address, Key::address)?;
        let (text, text_size) = (self.text, self.text_size);
        Ok(Registration { table: address, table_size: out.len().to_u64(), text, text_size })
    }
}
