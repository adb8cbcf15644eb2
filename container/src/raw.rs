//! Headers, entries and symbols as they lie in a file. This module is for the other crates of cfipack.
//!
//! An editor of files needs to know the place of each field. In other programs, use the rest of this crate instead:
//! any minor version may change this module, and the changelog does not mention such changes.

/// The entries of `ar` archives.
pub mod archive {
    pub use crate::archive::entries::{Entries, Entry, EntryKind, HEADER_LEN, IndexKind, SIZE_FIELD};
    pub use crate::archive::symbol_index::Numbers;
}

/// The headers of ELF files.
pub mod elf {
    pub use crate::elf::headers::Headers;
}

/// The slices of fat files.
pub mod fat {
    pub use crate::fat::{Slice, has_magic, read};
}

/// The headers, relocations and symbols of Mach-O files.
pub mod macho {
    pub use crate::macho::headers::{Header, Headers};
    pub use crate::macho::relocate::{Fixup, Target};
    pub use crate::macho::symbols::{Symbol, SymbolTable};
}
