//! An input object and its live functions, as a linker passes them.

use crate::format::{Key, SectionOffset};

/// The unwind sections of one object, as they stand in the file before relocation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Object<'a> {
    /// The bytes of `.sframe`, of any section type. If several tables follow each other, as some linkers leave them
    /// in relocatable output, all of them are read.
    pub sframe: Option<&'a [u8]>,
    /// The bytes of `.eh_frame`.
    pub eh_frame: Option<&'a [u8]>,
}

impl<'a> Object<'a> {
    /// Creates an object without unwind sections.
    pub const fn new() -> Self {
        Self { sframe: None, eh_frame: None }
    }

    /// Sets the bytes of the `.sframe` section.
    #[must_use]
    pub const fn with_sframe(mut self, bytes: &'a [u8]) -> Self {
        self.sframe = Some(bytes);
        self
    }

    /// Sets the bytes of the `.eh_frame` section.
    #[must_use]
    pub const fn with_eh_frame(mut self, bytes: &'a [u8]) -> Self {
        self.eh_frame = Some(bytes);
        self
    }

    /// The number of bytes in both sections.
    pub(crate) fn len(&self) -> usize {
        self.sframe.map_or(0, <[u8]>::len) + self.eh_frame.map_or(0, <[u8]>::len)
    }
}

/// The place of a field that holds a function's start, where the object has a relocation that leads to the function.
/// For each section you are asked for fields in ascending order, so a cursor along the sorted relocations finds each
/// answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Field {
    /// The offset of the field in the object's `.sframe`.
    Sframe(SectionOffset),
    /// The offset of the field in the object's `.eh_frame`.
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
/// // Only three bytes of its input section are in the output.
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
    /// Identifies the function. You choose the number. It must be unique per function of the link, and the same for
    /// the function's entry in a table and for its FDE.
    pub key: Key,
    /// The number of bytes from the function's start to the end of its input section, or to the end of the piece of
    /// the section that is in the output. Rows end there, even if a table or FDE claims a larger size. If you pass
    /// `None` and an input claims a size that is too large, the function is
    /// [omitted](crate::encoder::sframe::Written) when the section is written.
    pub extent: Option<u32>,
}

impl Live {
    /// Creates a live function without a known extent.
    pub const fn new(key: Key) -> Self {
        Self { key, extent: None }
    }

    /// Sets [`extent`](Self::extent): rows end this many bytes after the function's start.
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
