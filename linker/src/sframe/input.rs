//! Objects as a linker gives them.

use crate::format::{Key, SectionOffset};

/// The sections of an object that describe its frames, as they stand in it: not relocated.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Object<'a> {
    /// Bytes of `.sframe`, of whatever section type; tables that follow each other, as some linkers leave them
    /// in relocatable output, are all read.
    pub sframe: Option<&'a [u8]>,
    /// Bytes of `.eh_frame`.
    pub eh_frame: Option<&'a [u8]>,
}

impl<'a> Object<'a> {
    /// An object that has none.
    pub const fn new() -> Self {
        Self { sframe: None, eh_frame: None }
    }

    /// With a `.sframe` section.
    #[must_use]
    pub const fn with_sframe(mut self, bytes: &'a [u8]) -> Self {
        self.sframe = Some(bytes);
        self
    }

    /// With a `.eh_frame` section.
    #[must_use]
    pub const fn with_eh_frame(mut self, bytes: &'a [u8]) -> Self {
        self.eh_frame = Some(bytes);
        self
    }

    /// Bytes of the sections.
    pub(crate) fn len(&self) -> usize {
        self.sframe.map_or(0, <[u8]>::len) + self.eh_frame.map_or(0, <[u8]>::len)
    }
}

/// The field of a function's start: where a relocation is that leads to the function. Of each section fields are
/// asked for in ascending order, so that a walk along sorted relocations answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Field {
    /// At an offset in the object's `.sframe`.
    Sframe(SectionOffset),
    /// At an offset in the object's `.eh_frame`.
    EhFrame(SectionOffset),
}

/// A function that is part of the output.
///
/// ```
/// use cfipack_format::{Address, Arch, Key};
/// use cfipack_linker::sframe::{Live, Merger, Object, Options};
///
/// // The `.eh_frame` of an object before relocation: one function of four bytes (`push rbp; pop rbp; ret`).
/// let eh_frame = [
///     0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, //
///     0x14, 0, 0, 0, 0x1c, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0x41, 0x0e, 16, 0x42, 0x0e, 8, 0,
/// ];
/// let mut merger = Merger::new(Arch::Amd64, Options::new())?;
/// // Of its input section only three bytes are part of the output.
/// let live = Live::new(Key(1)).with_extent(3);
/// merger.push_object(&Object::new().with_eh_frame(&eh_frame), |_| Some(live), |note| panic!("{note}"));
/// let bytes = merger.finish().into_bytes(Address(0x2000), |_| Address(0x1000))?;
/// let table = cfipack_decoder::sframe::Section::parse(&bytes, Address(0x2000))?;
/// assert!(table.lookup(Address(0x1002))?.is_some());
/// assert_eq!(table.lookup(Address(0x1003))?, None);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Live {
    /// A number that the linker chooses, unique per function of the link, and the same for the function's entry in a
    /// table and its FDE.
    pub key: Key,
    /// Bytes from the function's start to the end of its input section, or of the part of that which is in the output:
    /// rows end there, whatever size a table or FDE claims. `None` if it is unknown; then a function that is too long
    /// by mistake is [omitted](crate::encoder::sframe::Written) when the section is written.
    pub extent: Option<u32>,
}

impl Live {
    /// A function that is part of the output, wherever its input section ends.
    pub const fn new(key: Key) -> Self {
        Self { key, extent: None }
    }

    /// Ends rows where the function's input section does, this many bytes after the function's start.
    #[must_use]
    pub const fn with_extent(mut self, bytes: u32) -> Self {
        self.extent = Some(bytes);
        self
    }
}

impl From<Key> for Live {
    fn from(key: Key) -> Self {
        Self::new(key)
    }
}
