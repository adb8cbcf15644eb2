//! The two kinds of files.

/// The kind of a file: linked or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// An object for a linker: relocations are applied here, addresses come from a [`Placement`](crate::Placement).
    Relocatable,
    /// An executable or a shared library, with addresses of its own.
    Linked,
}
