//! Rows for the stubs that a linker writes: PLTs, range-extension thunks, and the code for `ifunc` and TLS
//! descriptors.
//!
//! No compiler describes this code. A table that is made only from the inputs therefore has a hole at every call of a
//! shared library. A linker knows its stubs. You give their [`Shape`], by name ([`StubKind`]) or by rows of your own,
//! the number of entries, and the key of the section. Repeated entries become a single PC-mask FDE, and the header of
//! a PLT gets an FDE of its own.
//!
//! ```
//! use cfipack_encoder::sframe::{Builder, Options};
//! use cfipack_format::{Address, Arch, Key};
//! use cfipack_linker::stubs::{Shape, StubKind, Stubs};
//!
//! let mut builder = Builder::new(Arch::Amd64, Options::default())?;
//! // `.plt`: a header and 12 entries that push their index; `.plt.got`: 3 entries of 8 bytes that only jump.
//! let (plt, plt_got) = (Key(1), Key(2));
//! Stubs::keyed(plt, StubKind::Amd64LazyPlt).with_entries(12).push(&mut builder)?;
//! let jumps = Shape::from(StubKind::Amd64Jump).with_entry_size(8);
//! Stubs::keyed(plt_got, jumps).with_entries(3).push(&mut builder)?;
//!
//! let section = builder.finish();
//! let bytes = section.into_bytes(Address(0x2000), |key| Address(if key == plt { 0x1020 } else { 0x10f0 }))?;
//! let table = cfipack_decoder::sframe::Section::parse(&bytes, Address(0x2000))?;
//! let cfa = |pc| table.lookup(Address(pc)).map(|row| row.unwrap().cfa);
//! assert_eq!(cfa(0x1030 + 16 * 7)?, cfa(0x10f0 + 8)?); // only the return address is on the stack
//! assert_ne!(cfa(0x1030 + 16 * 7)?, cfa(0x1030 + 16 * 7 + 11)?); // an entry has pushed its index
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! The tail that all stubs of a lazy [retpoline PLT](StubKind::Amd64RetpolinePlt) share has no row. Its CFA depends
//! on the caller, so no row would be true.
//!
//! Some code runs in the frame of a function and needs that function's row. For example, a veneer for AArch64's
//! errata 835769 and 843419 has the row of the instruction that was [moved](moved_by_veneer) there. The same holds
//! for a thunk between two parts of a function, such as a branch to a distant cold part. All other thunks have [their
//! caller's row](StubKind::Aarch64Jump).
//!
//! # Modules
//! - `kind`: [`StubKind`], the stubs of known linkers, with their [`Shape`] and rows.
//! - `recognise`: [`recognise()`] finds the shape of finished stubs from their bytes.
//! - `veneer`: [`moved_by_veneer`] finds the instruction that a veneer replaces.

mod kind;
mod recognise;
mod veneer;

pub use crate::encoder::sframe::StubPart;
pub use kind::{Code, Shape, StubKind};
pub use recognise::{Recognised, recognise};
pub use veneer::moved_by_veneer;

use crate::encoder::sframe::Builder;
use crate::format::Unsupported;
use crate::format::{Address, Key};
use crate::sframe::Merger;

/// A section of stubs, or a part of a section that has its own key. Call [`push`](Self::push) or
/// [`Merger::push_stubs`] to add its rows to a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Stubs<'r> {
    key: Key,
    is_placed: bool,
    shape: Shape<'r>,
    entries: u32,
}

impl<'r> Stubs<'r> {
    /// Creates stubs without an address. [`Section::write`](crate::encoder::sframe::Section::write) asks for the
    /// address of `key`. Use this with a builder whose functions have [keys](cfipack_cfi::Functions::keyed) instead
    /// of addresses.
    pub fn keyed(key: Key, shape: impl Into<Shape<'r>>) -> Self {
        Self { key, is_placed: false, shape: shape.into(), entries: 0 }
    }

    /// Creates stubs that start at an address. Use this with a builder whose functions have addresses.
    pub fn at(address: Address, shape: impl Into<Shape<'r>>) -> Self {
        Self { key: address.into(), is_placed: true, shape: shape.into(), entries: 0 }
    }

    /// Sets the number of entries after the header. The default is 0: only the header and the trailer.
    pub const fn with_entries(mut self, entries: u32) -> Self {
        self.entries = entries;
        self
    }

    /// Returns the size of header, gap, entries and trailer together, in bytes.
    pub const fn len(&self) -> u64 {
        let [header, gap, entries, trailer] = self.parts();
        header.len() + gap.len() + entries.len() + trailer.len()
    }

    /// Returns whether there is no code: no header, no entries and no trailer.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds the rows of these stubs to a table. Do not also push CFI for the same code, which ld writes: functions
    /// that share PCs are [separated or omitted](Builder::finish).
    ///
    /// # Errors
    /// Returns the errors of [`Builder::push_stubs`]. A named shape with its own sizes fails only in two cases: if
    /// the table has no more room, or if stubs with an address meet functions without addresses, or the reverse.
    pub fn push(&self, builder: &mut Builder<'_>) -> Result<(), Unsupported> {
        builder.push_stubs(self.key, self.is_placed, &self.parts())
    }

    /// Returns header, gap, entries and trailer. A missing part is empty.
    const fn parts(&self) -> [StubPart<'r>; 4] {
        let Shape { header, gap, entry, trailer } = self.shape;
        [
            StubPart::once(header.size, header.rows),
            StubPart::gap(gap),
            StubPart::repeated(entry.size, self.entries, entry.rows),
            StubPart::once(trailer.size, trailer.rows),
        ]
    }
}

impl Merger<'_> {
    /// Adds the rows of [keyed](Stubs::keyed) stubs. GNU `ld` puts the rows of PLTs after the rows of all objects.
    ///
    /// # Errors
    /// Returns the errors of [`Stubs::push`].
    pub fn push_stubs(&mut self, stubs: &Stubs<'_>) -> Result<(), Unsupported> {
        stubs.push(&mut self.builder)
    }
}
