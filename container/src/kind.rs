//! The two kinds of files.

/// Whether a file is linked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A relocatable object. This crate applies its relocations, and [`Placement`](crate::Placement) chooses its
    /// addresses.
    Relocatable,
    /// An executable or a shared library. It has its own addresses.
    Linked,
}
