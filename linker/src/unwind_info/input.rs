//! Objects as a linker gives them, and the questions that it is asked about them.

use cfipack_format::{Address, Key, LsdaKey, PersonalityKey, SectionOffset};

/// The unwind information of an object, not relocated.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Input<'a> {
    /// A number for the object that the linker chooses: its FDEs ([`Fde`]) and warnings carry it.
    pub object: u32,
    /// The bytes of `__LD,__compact_unwind`; none if the object does not have it.
    pub compact_unwind: &'a [u8],
    /// The bytes of `__TEXT,__eh_frame`; none if the object does not have it.
    pub eh_frame: &'a [u8],
    /// The address of `__eh_frame` in the object, from which its distances count.
    pub eh_frame_address: Address,
}

impl<'a> Input<'a> {
    /// An object without unwind information.
    pub fn new(object: u32) -> Self {
        Self { object, ..Self::default() }
    }

    /// With a `__compact_unwind`.
    #[must_use]
    pub fn with_compact_unwind(self, bytes: &'a [u8]) -> Self {
        Self { compact_unwind: bytes, ..self }
    }

    /// With an `__eh_frame`, which lies at this address in the object.
    #[must_use]
    pub fn with_eh_frame(self, bytes: &'a [u8], address: Address) -> Self {
        Self { eh_frame: bytes, eh_frame_address: address, ..self }
    }
}

/// One of an object's two sections of unwind information.
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
    /// The section that it stands in.
    pub part: Part,
    /// The offset in the section: what a relocation names.
    pub offset: SectionOffset,
    /// The address in the object that it leads to as it stands there: what counts if it has no relocation (distances
    /// in the `__eh_frame` of x86-64), or one that names a section. None for an LSDA, or a row's personality, whose field
    /// is zero: without relocation there is none.
    pub target: Option<Address>,
}

/// The targets of the pointers in an object's unwind information: what their relocations lead to.
pub trait Resolve {
    /// The function that a field leads to; none if it is dead: stripped, or a weak definition that lost, or discarded
    /// in any other way. A function that was folded into an identical one may be resolved to that one's key.
    fn function(&mut self, field: Field) -> Option<Key>;

    /// The personality that a field leads to; none if it leads nowhere.
    fn personality(&mut self, field: Field) -> Option<PersonalityKey>;

    /// The LSDA that a field leads to; none if it leads nowhere.
    fn lsda(&mut self, field: Field) -> Option<LsdaKey>;
}

/// An FDE of an input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fde {
    /// [`Input::object`].
    pub object: u32,
    /// The offset of its record in the object's `__eh_frame`.
    pub offset: SectionOffset,
}
