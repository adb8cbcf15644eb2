//! Generates hostile input. Each generator makes input of one shape and any size, whose cost must grow no faster than
//! its size.

mod cfi;
mod code;
mod files;
mod functions;
mod linked;
mod links;
mod mach_objects;
mod names;
mod page_tables;
mod regions;
mod tables;
mod work;

pub use cfi::CFI;
pub use code::{CODE, Code, LONG, follow_long};
pub use files::FILES;
pub use functions::{FUNCTIONS_TOGETHER, Functions};
pub use linked::LINKED;
pub use links::{LINKS, LinkObject};
pub use mach_objects::MACH_OBJECTS;
pub use names::OVERLAPPING_NAMES;
pub use page_tables::PAGE_TABLES;
pub use regions::REGIONS;
pub use tables::TABLES;

/// An input.
#[derive(Clone, Debug)]
pub enum Input {
    /// An `.eh_frame` for x86-64.
    Cfi(Vec<u8>),
    /// Two `.sframe` sections, each with one table or several.
    Tables([Vec<u8>; 2]),
    /// An `__unwind_info`.
    PageTable(Vec<u8>),
    /// `__compact_unwind` and `__eh_frame` of Mach-O objects for x86-64.
    MachObjects(Vec<[Vec<u8>; 2]>),
    /// Addresses of generated functions of 16 bytes, in the order in which they are added.
    Places(Vec<u64>),
    /// A function's code, with the rows of its CFI.
    Code(Code),
    /// Functions' code without CFI.
    Functions(Functions),
    /// The objects of a link.
    Link(Vec<LinkObject>),
    /// An ELF or Mach-O file, an archive or a fat file.
    File(Vec<u8>),
}

/// A shape: its name, and a function that makes an input of about `n` parts.
pub type Shape = (&'static str, fn(usize) -> Input);

impl Input {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Cfi(bytes) | Self::PageTable(bytes) | Self::File(bytes) => bytes.len(),
            Self::Tables([a, b]) => a.len() + b.len(),
            Self::Code(code) => code.len(),
            Self::Functions(functions) => functions.len(),
            // Each function counts with a name and a directive.
            Self::Places(places) => 16 * places.len(),
            Self::Link(objects) => objects.iter().map(LinkObject::len).sum(),
            Self::MachObjects(objects) => objects.iter().flatten().map(Vec::len).sum(),
        }
    }

    /// Returns whether the input has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
