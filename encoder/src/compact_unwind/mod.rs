//! Compact unwind: the [encodings](Encoder) of functions, from their CFI, and
//! `__LD,__compact_unwind`, the [section](Section) in which an assembler hands them to a linker.
//!
//! A linker's way, from CFI straight to `__unwind_info`:
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
//! An assembler's, for an object:
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
//! Rows and relocations are llvm-mc 23's, byte for byte, where the encodings are.

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

/// Refuses architectures that the format has no encodings for.
const fn check(arch: Arch) -> Result<(), UnsupportedFormat> {
    match arch.has_compact_unwind() {
        true => Ok(()),
        false => Err(UnsupportedFormat::Arch { arch, format: "__compact_unwind" }),
    }
}

/// One range of code and how it is unwound.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Start of the range.
    pub function: RelocationTarget,
    /// Bytes of the range.
    pub length: u32,
    /// The encoding of the function's unwinding. Its LSDA flag is set if there is an LSDA.
    pub encoding: Encoding,
    /// The personality.
    pub personality: Option<RelocationTarget>,
    /// The LSDA.
    pub lsda: Option<RelocationTarget>,
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
    ///
    /// # Errors
    /// The format has no encodings for the architecture: s390x and big-endian AArch64.
    pub const fn new(arch: Arch) -> Result<Self, UnsupportedFormat> {
        match check(arch) {
            Ok(()) => Ok(Self { arch, bytes: Vec::new(), relocations: Vec::new() }),
            Err(unsupported) => Err(unsupported),
        }
    }

    /// A section without rows, for the same architecture.
    pub const fn shard(&self) -> Self {
        Self { arch: self.arch, bytes: Vec::new(), relocations: Vec::new() }
    }

    /// Adds the rows of another section after this one's, as if they had been pushed here.
    ///
    /// # Errors
    /// The shard is for another architecture: nothing of it is added.
    pub fn absorb(&mut self, shard: Self) -> Result<(), Reason> {
        if shard.arch != self.arch {
            return Err(Reason::Architecture);
        }
        let before = self.bytes.len() as u32;
        let moved = |relocation: Relocation| Relocation { offset: before + relocation.offset, ..relocation };
        self.relocations.extend(shard.relocations.into_iter().map(moved));
        self.bytes.extend(shard.bytes);
        Ok(())
    }

    /// Adds a row. A range without unwind information ([`Encoding::NONE`]) has none. In DWARF
    /// mode the FDE has personality and LSDA, and the row has neither, as llvm-mc writes it.
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

    /// Bytes of the section.
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether the section has no rows.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Rows of the section.
    pub const fn num_entries(&self) -> usize {
        self.bytes.len() / Row::size(self.arch.pointer_size())
    }

    /// The rows, in the order of pushing.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The rows, in the order of pushing.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The relocations, the last one first, as llvm-mc writes them.
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
