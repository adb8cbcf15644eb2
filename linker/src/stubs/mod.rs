//! Rows for the stubs that a linker writes: PLTs, range-extension thunks, what `ifunc` and TLS descriptors need.
//!
//! No compiler describes this code, so a table made of the inputs alone has holes where every call to a shared library
//! passes. A linker knows its stubs: it gives their [`Shape`], by name ([`StubKind`]) or by rows of its own, how many
//! there are, and the key that it will answer with the section's address. What repeats becomes one PC-mask FDE, the
//! header of a PLT an FDE of its own.
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
//! Without a row, because none is true: the tail that all stubs of a lazy [retpoline PLT](StubKind::Amd64RetpolinePlt)
//! share (its CFA depends on who calls it).
//!
//! Veneers of AArch64's errata 835769 and 843419 are a piece of the function that they serve, and have that function's
//! row: of the instruction that was [moved](moved_by_veneer) there. So are thunks between parts of one function, as a
//! branch to its distant cold part needs them; all others have [their caller's](StubKind::Aarch64Jump).

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

/// A section of stubs, or a part of one with a key of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub struct Stubs<'r> {
    key: Key,
    is_placed: bool,
    shape: Shape<'r>,
    entries: u32,
}

impl<'r> Stubs<'r> {
    /// Stubs whose place is not known yet: [`Section::write`](crate::encoder::sframe::Section::write) asks for the address of
    /// `key`. For a builder whose functions have [keys](cfipack_cfi::Functions::keyed) and no addresses.
    pub fn keyed(key: Key, shape: impl Into<Shape<'r>>) -> Self {
        Self { key, is_placed: false, shape: shape.into(), entries: 0 }
    }

    /// Stubs that start at an address. For a builder whose functions have addresses.
    pub fn at(address: Address, shape: impl Into<Shape<'r>>) -> Self {
        Self { key: address.into(), is_placed: true, shape: shape.into(), entries: 0 }
    }

    /// With so many entries after the header; as long as none are given there is only what does not repeat.
    pub const fn with_entries(mut self, entries: u32) -> Self {
        self.entries = entries;
        self
    }

    /// Bytes of all of them together.
    pub const fn len(&self) -> u64 {
        let [header, gap, entries, trailer] = self.parts();
        header.len() + gap.len() + entries.len() + trailer.len()
    }

    /// Returns whether there are none: no header, no entries and no trailer.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds their rows to a table. Call frame information that describes the same code, as ld writes it, must not be
    /// pushed as well: functions that share PCs are [told apart or omitted](Builder::finish).
    ///
    /// # Errors
    /// Those of [`Builder::push_stubs`]; of a named shape with its own sizes only that the table has no more room, or
    /// that other functions of it have addresses and these do not, or the other way round.
    pub fn push(&self, builder: &mut Builder<'_>) -> Result<(), Unsupported> {
        builder.push_stubs(self.key, self.is_placed, &self.parts())
    }

    /// Header, gap, entries, trailer; one that there is not is empty.
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
    /// Adds the rows of stubs, [keyed](Stubs::keyed). GNU `ld` has those of PLTs after all objects'.
    ///
    /// # Errors
    /// Those of [`Stubs::push`].
    pub fn push_stubs(&mut self, stubs: &Stubs<'_>) -> Result<(), Unsupported> {
        stubs.push(&mut self.builder)
    }
}
