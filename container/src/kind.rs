//! The two kinds of files.

/// Whether a file has been linked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// An object for a linker: relocations are applied here, addresses come from a [`Placement`](crate::Placement).
    Relocatable,
    /// An executable or a shared library, with addresses of its own.
    Linked,
}
