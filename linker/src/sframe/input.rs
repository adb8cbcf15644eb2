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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Live {
    /// A number that the linker chooses, unique per function of the link, and the same for the function's entry in a
    /// table and its FDE.
    pub key: Key,
    /// Bytes of the function that are part of the output, from its start; `None` for all of it. Rows end there.
    pub extent: Option<u32>,
}

impl Live {
    /// A function that is part of the output as a whole.
    pub const fn new(key: Key) -> Self {
        Self { key, extent: None }
    }

    /// Limits the section to the bytes that are part of the output.
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
