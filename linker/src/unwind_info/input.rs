//! The unwind information of an object, and the questions about its relocations that a linker answers.

use cfipack_format::{Address, Key, LsdaKey, PersonalityKey, SectionOffset};

/// The unwind sections of one object, before relocation.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Input<'a> {
    /// A number that you choose for the object. [`Fde`]s and warnings carry it.
    pub object: u32,
    /// The bytes of `__LD,__compact_unwind`; empty if the object has no such section.
    pub compact_unwind: &'a [u8],
    /// The bytes of `__TEXT,__eh_frame`; empty if the object has no such section.
    pub eh_frame: &'a [u8],
    /// The address of `__eh_frame` in the object. PC-relative pointers in the section need it.
    pub eh_frame_address: Address,
}

impl<'a> Input<'a> {
    /// Creates an object without unwind information.
    pub fn new(object: u32) -> Self {
        Self { object, ..Self::default() }
    }

    /// Sets the bytes of `__compact_unwind`.
    #[must_use]
    pub fn with_compact_unwind(self, bytes: &'a [u8]) -> Self {
        Self { compact_unwind: bytes, ..self }
    }

    /// Sets the bytes of `__eh_frame`, and its address in the object.
    #[must_use]
    pub fn with_eh_frame(self, bytes: &'a [u8], address: Address) -> Self {
        Self { eh_frame: bytes, eh_frame_address: address, ..self }
    }
}

/// A section of unwind information in an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    /// `__LD,__compact_unwind`.
    CompactUnwind,
    /// `__TEXT,__eh_frame`.
    EhFrame,
}

/// A pointer in an object's unwind information.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Field {
    /// The section that contains the pointer.
    pub part: Part,
    /// The offset of the pointer in the section. Look up the relocation at this offset.
    pub offset: SectionOffset,
    /// The address in the object that the stored value leads to. Use it if the relocation names a section, or
    /// if the field has no relocation, like distances in the `__eh_frame` of x86-64. The pointers of a row always have
    /// relocations: a row without them is damaged. It is `None` for an LSDA or the personality of a row if the stored
    /// value is zero: then only a relocation can give the target.
    pub target: Option<Address>,
}

/// Answers where the pointers in an object's unwind information lead. A linker implements this trait with its
/// knowledge of the object's relocations.
pub trait Resolve {
    /// Returns the function that a field leads to, or `None` if the function is dead. For example, it was stripped,
    /// or it is a weak definition that lost. If a function was folded into an identical function, you may return the
    /// other function's key.
    fn function(&mut self, field: Field) -> Option<Key>;

    /// Returns the personality that a field leads to, or `None` if it leads nowhere.
    fn personality(&mut self, field: Field) -> Option<PersonalityKey>;

    /// Returns the LSDA that a field leads to, or `None` if it leads nowhere.
    fn lsda(&mut self, field: Field) -> Option<LsdaKey>;
}

/// Identifies an FDE of an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fde {
    /// The object's number, [`Input::object`].
    pub object: u32,
    /// The offset of the FDE in the object's `__eh_frame`.
    pub offset: SectionOffset,
}
