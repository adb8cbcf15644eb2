//! Makes the compact [encodings](Encoder) of functions from their CFI, and `__LD,__compact_unwind`, the
//! [section](Section) by which an assembler passes them to a linker.
//!
//! - `encode`: the [`Encoder`], with `body`, `step`, `saved` and `calls` for true encodings, and `x86` and `arm64`
//!   for bits
//! - [`llvm_mc`]: llvm-mc's encodings, whether true or not
//! - `relocation`: the relocations of `__compact_unwind`
//!
//! A linker goes from CFI to `__unwind_info` like this:
//!
//! ```
//! use cfipack_cfi as cfi;
//! use cfipack_encoder::compact_unwind::{Encoder, Mode};
//! use cfipack_encoder::unwind_info::{Builder, Entry, Options};
//! use cfipack_format::compact_unwind::Encoding;
//! use cfipack_format::{Address, Arch, ImageOffset};
//!
//! // push rbx; sub rsp, 16; call f; add rsp, 16; pop rbx; ret
//! let code = [0x53, 0x48, 0x83, 0xec, 16, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 16, 0x5b, 0xc3];
//! let eh_frame = [
//!     // CIE: "zR", pcrel sdata4; def_cfa rsp+8, offset rip -8
//!     20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0,
//!     // FDE: 16 bytes of code from 0x1000
//!     36, 0, 0, 0, 28, 0, 0, 0, 0xe0, 0x0f, 0, 0, 16, 0, 0, 0, 0,
//!     // after the push: def_cfa_offset 16, offset rbx -16; then 32, 16, 8
//!     0x41, 0x0e, 16, 0x83, 2, 0x44, 0x0e, 32, 0x49, 0x0e, 16, 0x41, 0x0e, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0,
//! ];
//! let section = cfi::Section::new(cfi::SectionKind::EhFrame, &eh_frame, Address(0), Arch::Amd64);
//! let mut encoder = Encoder::new(Arch::Amd64)?;
//! let mut table = Builder::new(Arch::Amd64, Options::default())?;
//! for function in cfi::Functions::new(&section) {
//!     let function = function?;
//!     let encoding = encoder.encode(&function, Some(&code), Mode::Checked).unwrap_or_else(|unsupported| {
//!         eprintln!("{unsupported}");
//!         Encoding::dwarf(Arch::Amd64, function.fde.0 as u32)
//!     });
//!     // 32 bytes of stack; rbx below the return address.
//!     assert_eq!(encoding, Encoding::frameless(4, 1, 0));
//!     table.push(Entry::new(ImageOffset(function.key.0 as u32), function.size as u32, encoding));
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! An assembler makes a section for an object like this:
//!
//! ```
//! use cfipack_encoder::compact_unwind::{Entry, Section, RelocationTarget};
//! use cfipack_format::Arch;
//! use cfipack_format::compact_unwind::Encoding;
//!
//! let mut section = Section::new(Arch::Amd64)?;
//! section.push(&Entry {
//!     function: RelocationTarget::Section { number: 1, address: 0 },
//!     length: 5,
//!     encoding: Encoding::frame(0, [0; 5]),
//!     personality: None,
//!     lsda: None,
//! });
//! assert_eq!((section.len(), section.num_entries()), (32, 1));
//! assert_eq!(section.relocations().count(), 1);
//! # Ok::<(), cfipack_format::UnsupportedFormat>(())
//! ```
//!
//! If the encodings are llvm-mc 23's, then so are the rows and relocations, byte for byte.

mod arm64;
mod body;
mod calls;
mod encode;
pub mod llvm_mc;
mod relocation;
mod saved;
mod step;
mod x86;

use alloc::vec::Vec;

use cfipack_format::Arch;
use cfipack_format::compact_unwind::{Encoding, Entry as Row, Flags};

pub use encode::{Encoder, Mode};
pub use relocation::{Relocation, RelocationTarget};

use crate::{Reason, UnsupportedFormat};

/// Refuses architectures without compact encodings.
const fn check(arch: Arch) -> Result<(), UnsupportedFormat> {
    if arch.has_compact_unwind() {
        Ok(())
    } else {
        Err(UnsupportedFormat::Arch { arch, format: "__compact_unwind" })
    }
}

/// A range of code and the way to unwind it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The start of the range.
    pub function: RelocationTarget,
    /// The length of the range in bytes.
    pub length: u32,
    /// The compact encoding. Its LSDA flag is set automatically if there is an LSDA.
    pub encoding: Encoding,
    /// The personality, usually a symbol.
    pub personality: Option<RelocationTarget>,
    /// The language-specific data area.
    pub lsda: Option<RelocationTarget>,
}

/// A `__compact_unwind` section of an object. Push one row per function.
///
/// To use several threads, give each thread a [`shard`](Self::shard) and [`absorb`](Self::absorb) the shards in a
/// fixed order. The bytes do not depend on the number of threads.
#[derive(Clone, Debug)]
pub struct Section {
    arch: Arch,
    bytes: Vec<u8>,
    relocations: Vec<Relocation>,
}

impl Section {
    /// Makes an empty section for an object of `arch`: x86-64, i386, arm64 or arm64_32.
    ///
    /// # Errors
    /// This function returns an error for any other architecture, because the format has no encodings for it.
    pub const fn new(arch: Arch) -> Result<Self, UnsupportedFormat> {
        match check(arch) {
            Ok(()) => Ok(Self { arch, bytes: Vec::new(), relocations: Vec::new() }),
            Err(unsupported) => Err(unsupported),
        }
    }

    /// Makes an empty section for the same architecture.
    pub const fn shard(&self) -> Self {
        Self { arch: self.arch, bytes: Vec::new(), relocations: Vec::new() }
    }

    /// Adds all rows of another section, as if they had been pushed here.
    ///
    /// # Errors
    /// This function returns an error, and adds nothing, if the shard has another architecture.
    pub fn absorb(&mut self, shard: Self) -> Result<(), Reason> {
        if shard.arch != self.arch {
            return Err(Reason::Architecture);
        }
        let before = self.bytes.len() as u32;
        for relocation in shard.relocations {
            self.relocations.push(Relocation { offset: before + relocation.offset, ..relocation });
        }
        self.bytes.extend(shard.bytes);
        Ok(())
    }

    /// Adds a row. Two kinds of entries are special, as in llvm-mc: a range without unwind information
    /// ([`Encoding::NONE`]) gets no row, and in DWARF mode the row has neither personality nor LSDA, because the FDE
    /// has them.
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
            personality: personality.map_or(0, RelocationTarget::addend),
            lsda: lsda.map_or(0, RelocationTarget::addend),
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

    /// Returns the size of the section in bytes.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the section has no rows.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of rows.
    pub const fn num_entries(&self) -> usize {
        self.bytes.len() / Row::size(self.arch.pointer_size())
    }

    /// Returns the rows as bytes, in the order in which they were pushed. Numbers are little-endian.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the rows as bytes, in the order in which they were pushed. Numbers are little-endian.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the relocations, from the last to the first, as llvm-mc writes them.
    pub fn relocations(&self) -> impl ExactSizeIterator<Item = Relocation> {
        self.relocations.iter().rev().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Entry = Entry {
        function: RelocationTarget::Section { number: 1, address: 16 },
        length: 5,
        encoding: Encoding::frame(0, [0; 5]),
        personality: Some(RelocationTarget::Symbol { number: 3 }),
        lsda: None,
    };

    /// Apple's `compact_unwind_encoding.h` has encodings for four architectures.
    #[test]
    fn architectures_of_the_format() {
        for arch in [Arch::Amd64, Arch::I386, Arch::Aarch64, Arch::Arm64_32] {
            assert!(Section::new(arch).is_ok() && Encoder::new(arch).is_ok(), "{arch}");
        }
        for arch in [Arch::S390x, Arch::Aarch64Be] {
            let unsupported = UnsupportedFormat::Arch { arch, format: "__compact_unwind" };
            assert_eq!(Section::new(arch).unwrap_err(), unsupported);
            assert_eq!(Encoder::new(arch).unwrap_err(), unsupported);
            assert_eq!(llvm_mc::encode(arch, llvm_mc::Frame::new(), []), Err(Reason::Architecture));
        }
    }

    #[test]
    fn shards_are_absorbed_as_if_pushed() {
        for arch in [Arch::Amd64, Arch::I386] {
            let mut pushed = Section::new(arch).unwrap();
            let mut absorbed = pushed.shard();
            for number in 0..5 {
                let row = Entry { length: number, ..ROW };
                let mut shard = absorbed.shard();
                pushed.push(&row);
                shard.push(&row);
                absorbed.absorb(shard).unwrap();
            }
            assert!(absorbed.relocations().eq(pushed.relocations()));
            assert_eq!((absorbed.num_entries(), absorbed.relocations().count()), (5, 10));
            assert_eq!(absorbed.absorb(Section::new(Arch::Aarch64).unwrap()), Err(Reason::Architecture));
            assert_eq!(absorbed.into_bytes(), pushed.as_bytes());
        }
    }
}
