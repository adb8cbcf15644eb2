//! Writes `__LD,__compact_unwind`, the section in which an assembler tells a linker how functions
//! are unwound: its rows, and the relocations for their pointers.
//!
//! ```
//! use cfipack_encoder::compact_unwind::{Entry, Section, Target};
//! use cfipack_format::Arch;
//! use cfipack_format::compact_unwind::Encoding;
//!
//! let mut section = Section::new(Arch::Amd64);
//! section.push(&Entry {
//!     function: Target::Section { number: 1, address: 0 },
//!     length: 5,
//!     encoding: Encoding::frame(0, [0; 5]),
//!     personality: None,
//!     lsda: None,
//! });
//! assert_eq!(section.bytes().len(), 32);
//! assert_eq!(section.relocations().count(), 1);
//! ```
//!
//! Rows and relocations are llvm-mc 23's, byte for byte, where the encodings are.

mod arm64;
mod body;
mod calls;
mod encode;
pub mod llvm_mc;
mod relocation;
mod saved;
mod x86;

use alloc::vec::Vec;

use cfipack_format::Arch;
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};

pub use encode::{Encoder, Mode};
pub use relocation::{Relocation, Target};

/// One range of code and how it is unwound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Start of the range.
    pub function: Target,
    /// Bytes of the range.
    pub length: u32,
    /// How it is unwound. Its LSDA flag is set if there is an LSDA.
    pub encoding: Encoding,
    /// Its personality.
    pub personality: Option<Target>,
    /// Its LSDA.
    pub lsda: Option<Target>,
}

/// A `__compact_unwind` section of an object.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
}

impl Section {
    /// An empty section of an object for `arch`: x86-64, i386, arm64 or arm64_32.
    pub const fn new(arch: Arch) -> Self {
        Self { arch, bytes: Vec::new(), relocations: Vec::new() }
    }

    /// Adds a row. A range without unwind information ([`Encoding::NONE`]) has none. In DWARF
    /// mode the FDE says personality and LSDA, and the row does not, as llvm-mc has it.
    pub fn push(&mut self, entry: &Entry) {
        if entry.encoding == Encoding::NONE {
            return;
        }
        let dwarf = entry.encoding.mode_number() == Encoding::dwarf(self.arch, 0).mode_number();
        let (personality, lsda) = if dwarf { (None, None) } else { (entry.personality, entry.lsda) };
        let flags = if lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        let row = Row {
            function: entry.function.addend(),
            length: entry.length,
            encoding: entry.encoding.with_flags(flags),
            personality: personality.map_or(0, Target::addend),
            lsda: lsda.map_or(0, Target::addend),
        };
        let pointer_size = self.arch.pointer_size();
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&row.write(pointer_size)[..Row::size(pointer_size)]);
        let fields = [
            (Row::FUNCTION_AT, Some(entry.function)),
            (Row::personality_at(pointer_size), personality),
            (Row::lsda_at(pointer_size), lsda),
        ];
        for (field, target) in fields {
            if let Some(target) = target {
                let offset = (at + field) as u32;
                self.relocations.push(Relocation { offset, target, size: pointer_size });
            }
        }
    }

    /// The rows, in the order of pushing.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The relocations, the last one first, as llvm-mc writes them.
    pub fn relocations(&self) -> impl ExactSizeIterator<Item = Relocation> {
        self.relocations.iter().rev().copied()
    }
}
