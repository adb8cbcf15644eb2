//! Collects entries and makes a section of them.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::compact_unwind::{DWARF_OFFSET_MAX, Encoding, Flags};
use cfipack_format::{Arch, Reason, UnsupportedFormat};

use super::entry::{Entry, is_dwarf};
use super::error::Warning;
use super::options::Options;
use super::personality::Personalities;
use super::section::Section;

/// Collects the entries of an `__unwind_info` section. Push entries with [`push`](Self::push), then call
/// [`finish`](Self::finish).
///
/// To use several threads, give each thread a [`shard`](Self::shard) and [`absorb`](Self::absorb) the shards in a
/// fixed order. The bytes do not depend on the number of threads.
#[derive(Clone, Debug)]
pub struct Builder {
    arch: Arch,
    options: Options,
    entries: Vec<Entry>,
    personalities: Personalities,
    warnings: Vec<Warning>,
}

impl Builder {
    /// Makes a builder for code of `arch`: x86-64, i386, arm64 or arm64_32.
    ///
    /// # Errors
    /// This function returns an error for any other architecture, because the format has no encodings for it.
    pub fn new(arch: Arch, options: Options) -> Result<Self, UnsupportedFormat> {
        if !arch.has_compact_unwind() {
            return Err(UnsupportedFormat::Arch { arch, format: "__unwind_info" });
        }
        let (entries, personalities, warnings) = (Vec::new(), Personalities::new(), Vec::new());
        Ok(Self { arch, options, entries, personalities, warnings })
    }

    /// Reserves memory for this number of further entries.
    pub fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    /// Adds an entry. You may push entries in any order, but the order of addresses is the fastest.
    ///
    /// The keys of the entry are passed to the closures of [`Section::place`] later. If two entries have the same
    /// address, the later entry counts, unless only the earlier entry has unwind information.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        let entry = self.normalized(entry);
        if let Some(personality) = entry.personality {
            self.personalities.count(personality, is_dwarf(entry.encoding, self.arch));
        }
        self.entries.push(entry);
    }

    /// Makes an empty builder with the same architecture and options.
    pub fn shard(&self) -> Self {
        let (entries, personalities, warnings) = (Vec::new(), Personalities::new(), Vec::new());
        Self { arch: self.arch, options: self.options, entries, personalities, warnings }
    }

    /// Adds all entries of another builder, as if they had been pushed here.
    ///
    /// # Errors
    /// This function returns an error, and adds nothing, if the shard has another architecture or other options.
    pub fn absorb(&mut self, shard: Self) -> Result<(), Reason> {
        if shard.arch != self.arch {
            return Err(Reason::Architecture);
        }
        if shard.options != self.options {
            return Err(Reason::Options);
        }
        self.entries.extend(shard.entries);
        self.personalities.absorb(shard.personalities);
        self.warnings.extend(shard.warnings);
        Ok(())
    }

    /// Chooses the personalities of the table, and returns the section. Addresses are not needed yet.
    pub fn finish(mut self) -> Section {
        let named = core::mem::take(&mut self.personalities).most_used();
        if named.more {
            let mut entries = core::mem::take(&mut self.entries);
            for entry in &mut entries {
                if let Some(personality) = entry.personality
                    && !named.numbers.contains(&personality)
                {
                    *entry = self.without_personality(*entry, personality);
                }
            }
            self.entries = entries;
        }
        let Self { arch, options, entries, warnings, .. } = self;
        Section::new(arch, options, entries, named.numbers, warnings)
    }

    /// Returns the entry with the encoding that the table will have, without the number of the personality.
    #[inline]
    fn normalized(&mut self, mut entry: Entry) -> Entry {
        if entry.encoding.mode_number() == 0 {
            return Entry::new(entry.function, entry.length, Encoding::NONE);
        }
        let mut flags = if entry.lsda.is_some() { Flags::HAS_LSDA } else { Flags::empty() };
        let mut bits = entry.encoding.0 & !Flags::HAS_LSDA.bits();
        let dwarf = is_dwarf(entry.encoding, self.arch);
        if dwarf {
            if let Some(fde) = entry.fde {
                bits = bits & !DWARF_OFFSET_MAX | Encoding::dwarf(self.arch, fde.get()).dwarf_offset();
                if fde.get() > DWARF_OFFSET_MAX {
                    self.warnings.push(Warning::FdeOutOfReach { function: entry.function, fde });
                }
            }
            if self.options.omits_dwarf_lsda() {
                entry.lsda = None;
            }
            if entry.lsda.is_none() || !self.options.layout.habits().flags_dwarf_lsda {
                flags = Flags::empty();
            }
            if !self.options.layout.habits().names_dwarf_personality {
                entry.personality = None;
            }
        }
        if dwarf || !self.options.layout.habits().keeps_personality_number {
            bits = Encoding(bits).with_personality(0).0;
        }
        Entry { encoding: Encoding(bits | flags.bits()), ..entry }
    }

    /// Returns the entry without its personality, because the table has no room for it.
    fn without_personality(&mut self, entry: Entry, personality: NonZeroU32) -> Entry {
        let entry = Entry { personality: None, ..entry };
        if is_dwarf(entry.encoding, self.arch) {
            return entry;
        }
        let Entry { function, fde, .. } = entry;
        self.warnings.push(Warning::FourthPersonality { function, personality, fde });
        let inside = entry.encoding.flags() & Flags::NOT_FUNCTION_START;
        let encoding = Encoding::dwarf(self.arch, 0).with_flags(inside);
        self.normalized(Entry { encoding, ..entry })
    }
}

#[cfg(test)]
mod tests {
    use super::{Arch, Builder, Options, Reason};
    use crate::unwind_info::Layout;

    #[test]
    fn shards_of_another_kind_are_refused() {
        let options = Options::new();
        let mut builder = Builder::new(Arch::Amd64, options).unwrap();
        assert_eq!(builder.absorb(builder.shard()), Ok(()));
        let other = Builder::new(Arch::Aarch64, options).unwrap();
        assert_eq!(builder.absorb(other), Err(Reason::Architecture));
        let other = Builder::new(Arch::Amd64, options.with_layout(Layout::Lld)).unwrap();
        assert_eq!(builder.absorb(other), Err(Reason::Options));
    }
}
