//! Makes `__TEXT,__unwind_info`, Apple's page table, of functions and their encodings.
//!
//! ```
//! use cfipack_encoder::unwind_info::{Builder, Entry, Layout, Options};
//! use cfipack_format::compact_unwind::Encoding;
//! use cfipack_format::{Arch, ImageOffset};
//!
//! let mut builder = Builder::new(Arch::Amd64, Options { layout: Layout::Lld, ..Options::default() });
//! builder.push(Entry::new(ImageOffset(0x400), 0x20, Encoding::frame(0, [0; 5])));
//! let section = builder.finish();
//! let reserved = section.max_len(); // before anything has an address
//! let placed = section.place(None, |offset| offset)?; // again after a relayout, nothing re-read
//! assert!(placed.len() <= reserved);
//! let mut bytes = vec![0; placed.len()];
//! placed.write(&mut bytes, |_personality| unreachable!("no entry has one"))?;
//! # Ok::<(), cfipack_encoder::unwind_info::Error>(())
//! ```
//!
//! # Layouts
//!
//! All three write the header, the common palette, the personalities, the index, the LSDA index
//! and the pages, in this order, pages forward from the lowest address.
//!
//! | | [`Small`](Layout::Small) | [`Lld`](Layout::Lld) | [`LdPrime`](Layout::LdPrime) |
//! |---|---|---|---|
//! | common palette | what saves most | 127 most used, DWARF included; ties: larger encoding first | 127 most used of those used twice, no DWARF; ties: smaller first |
//! | pages | cut where the bytes are fewest | filled; regular if it would hold under 511 entries and more follow | the same |
//! | equal DWARF encodings in a page | one slot | one slot | a slot each |
//! | last offset in a compressed page | 0xffffff | 0xfffffe | 0xffffff |
//! | padding | none | every page to 4096 bytes | every page's end to 8 bytes, spare index entries |
//! | folding of DWARF entries | yes | yes | no |
//! | sentinel | the given end of the code, or the last entry's end | the last entry's end; an entry without information has no length | as `Small` |
//! | flags and personality of DWARF entries | none | none | as for others |
//!
//! Sources: the behaviour of ld64.lld 22 and 23.1 and of Apple's linkers ld-1115 to ld-1267, held
//! against this writer byte for byte in the tests.
//!
//! Where it would be wrong, no layout imitates: an entry without information that begins where a
//! function with information begins is left out (ld64.lld 23 lets it shadow the function), a row
//! with an LSDA always has its flag, and arm64_32's frame mode is not taken for DWARF mode.
//! Where ld64.lld and Apple's linkers refuse a fourth personality, [`Section::warnings`] names
//! the functions that were moved to their FDEs instead.

mod cut;
mod distinct;
mod fold;
mod palette;
mod personality;
mod section;
mod small;
mod split;

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::compact_unwind::{DWARF_OFFSET_MAX, Encoding, Flags};
use cfipack_format::{Arch, ImageOffset};

use personality::Personalities;
pub use section::{Error, Placed, Section, Warning};

/// Whose table to write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// The fewest bytes that any reader of 4096-byte pages takes.
    #[default]
    Small,
    /// What ld64.lld 23 writes.
    Lld,
    /// What Apple's linker since Xcode 15 writes.
    LdPrime,
}

/// How to write the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Options {
    /// Whose table to write.
    pub layout: Layout,
    /// Leave the LSDA records of DWARF-mode functions out. LLVM's libunwind and lldb take the
    /// LSDA of such a function from its FDE; in the layouts [`Layout::Small`] and [`Layout::Lld`]
    /// nothing leads to the record, which costs 8 bytes. [`Layout::Lld`] is no longer
    /// ld64.lld's with it.
    pub omit_dwarf_lsda: bool,
}

/// One range of code and how it is unwound: a function, or one of the parts that a function has.
///
/// Zero never is the place of an LSDA or an FDE (the Mach-O header and the first CIE are there),
/// nor, on disk, the number of a personality.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Start of the range.
    pub function: ImageOffset,
    /// Bytes of the range. Only that of the last one is written: it ends the table.
    pub length: u32,
    /// How it is unwound. Its LSDA flag and personality number are set when the table is
    /// written, whatever they are here ([`Layout::Lld`] keeps a number that came without a
    /// personality, as ld64.lld does). [`Encoding::NONE`]: code without unwind information.
    pub encoding: Encoding,
    /// Its personality: any number the caller knows it by.
    pub personality: Option<NonZeroU32>,
    /// Image offset of its LSDA.
    pub lsda: Option<NonZeroU32>,
    /// Offset of its FDE in the image's `__eh_frame`, if it has one. In DWARF mode it takes the
    /// place of the encoding's own offset; in other modes it is used if the function has to
    /// fall back to DWARF.
    pub fde: Option<NonZeroU32>,
}

impl Entry {
    /// An entry without personality, LSDA and FDE.
    pub const fn new(function: ImageOffset, length: u32, encoding: Encoding) -> Self {
        Self { function, length, encoding, personality: None, lsda: None, fde: None }
    }
}

/// Collects entries.
#[derive(Clone, Debug)]
pub struct Builder {
    arch: Arch,
    options: Options,
    entries: Vec<Entry>,
    personalities: Personalities,
    warnings: Vec<Warning>,
}

impl Builder {
    /// A table for code of `arch`: x86-64, i386, arm64 or arm64_32.
    pub const fn new(arch: Arch, options: Options) -> Self {
        Self { arch, options, entries: Vec::new(), personalities: Personalities::new(), warnings: Vec::new() }
    }

    /// Makes room for this many more entries.
    pub fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    /// Adds an entry. Any order will do; the order of addresses is the fastest. Of two entries at
    /// one address, the later one counts, unless it has no unwind information and the other has.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        let entry = self.settled(entry);
        if let Some(personality) = entry.personality {
            self.personalities.count(personality, is_dwarf(entry.encoding, self.arch));
        }
        self.entries.push(entry);
    }

    /// Moves all of another builder's entries behind this one's, as if they had been pushed here.
    /// Both are for the same architecture and options.
    pub fn absorb(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.personalities.absorb(other.personalities);
        self.warnings.extend(other.warnings);
    }

    /// Settles what does not depend on addresses: which personalities the table names.
    pub fn finish(mut self) -> Section {
        let kept = core::mem::take(&mut self.personalities).most_used();
        if kept.more {
            let mut entries = core::mem::take(&mut self.entries);
            for entry in &mut entries {
                if let Some(personality) = entry.personality
                    && !kept.numbers.contains(&personality)
                {
                    *entry = self.without_personality(*entry, personality);
                }
            }
            self.entries = entries;
        }
        let Self { arch, options, entries, warnings, .. } = self;
        Section::new(arch, options.layout, entries, kept.numbers.len(), warnings)
    }

    /// The entry with the encoding that the table will hold, but for the personality's number.
    #[inline]
    fn settled(&mut self, mut entry: Entry) -> Entry {
        if entry.encoding.mode_number() == 0 {
            return Entry::new(entry.function, entry.length, Encoding::NONE);
        }
        let mut flags = if entry.lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        let mut bits = entry.encoding.0 & !Flags::HAS_LSDA.bits();
        if is_dwarf(entry.encoding, self.arch) {
            if let Some(fde) = entry.fde {
                bits = bits & !DWARF_OFFSET_MAX | Encoding::dwarf(self.arch, fde.get()).dwarf_offset();
                if fde.get() > DWARF_OFFSET_MAX {
                    self.warnings.push(Warning::FdeOutOfReach { function: entry.function, fde });
                }
            }
            if self.options.omit_dwarf_lsda {
                (entry.lsda, flags) = (None, Flags::empty());
            }
            if self.options.layout != Layout::LdPrime {
                (entry.personality, flags) = (None, Flags::empty());
            }
            bits &= !PERSONALITY_BITS;
        } else if self.options.layout != Layout::Lld {
            bits &= !PERSONALITY_BITS;
        }
        Entry { encoding: Encoding(bits | flags.bits()), ..entry }
    }

    /// The entry without a personality that the table has no room for.
    fn without_personality(&mut self, entry: Entry, personality: NonZeroU32) -> Entry {
        let entry = Entry { personality: None, ..entry };
        if is_dwarf(entry.encoding, self.arch) {
            return entry;
        }
        let Entry { function, fde, .. } = entry;
        self.warnings.push(Warning::FourthPersonality { function, personality, fde });
        let inside = entry.encoding.flags() & Flags::NOT_FUNCTION_START;
        let encoding = Encoding::dwarf(self.arch, 0).with_flags(inside);
        self.settled(Entry { encoding, ..entry })
    }
}

/// Where an encoding has the number of its personality.
const PERSONALITY_BITS: u32 = 0x3000_0000;

/// Whether an encoding is in DWARF mode; by number, which costs less than the mode.
#[inline]
fn is_dwarf(encoding: Encoding, arch: Arch) -> bool {
    encoding.mode_number() == Encoding::dwarf(arch, 0).mode_number()
}
