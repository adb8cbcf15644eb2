//! Sorted entries, the equal neighbours merged into one.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::unwind_info::LsdaEntry;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, ImageOffset};

use super::encoding_ids::EncodingIds;
use super::entry::{Entry, is_dwarf};
use super::options::Layout;
use super::places::Places;

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Image offset of the range.
    pub(super) function: u32,
    /// Number of its encoding.
    pub(super) encoding: u32,
}

/// The input of the pages.
#[derive(Debug)]
pub(super) struct DedupedEntries {
    /// Sorted by function, each function once.
    pub(super) keys: Vec<Key>,
    /// Encoding by number.
    pub(super) encodings: Vec<Encoding>,
    /// The number of keys of each, by number.
    pub(super) counts: Vec<u32>,
    /// Sorted by function.
    pub(super) lsdas: Vec<LsdaEntry>,
    /// In the order of their numbers.
    pub(super) personalities: Vec<NonZeroU32>,
    /// The end of the last entry.
    pub(super) end: u32,
    /// True if there is a section at all: in [`Layout::Small`] and [`Layout::Lld`] only if any
    /// entry has unwind information, in the layouts of Apple's linkers if there is any entry.
    pub(super) is_written: bool,
    /// The distance by which functions that share a page may yet move apart, in bytes; 0 where they lie at their final places.
    pub(super) slack: u32,
}

impl DedupedEntries {
    /// The last offset of an entry in a compressed page, given what the format or a linker allows.
    pub(super) fn max_offset(&self, allowed: u32) -> u32 {
        allowed.saturating_sub(self.slack)
    }
}

/// The entry that counts of those that have one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OfOneAddress {
    /// The last one with unwind information.
    Last,
    /// The first one with unwind information that is of any length; if there is none, the first one with unwind
    /// information.
    First,
}

impl OfOneAddress {
    /// Returns whether an entry replaces the one before, which lies at the same address.
    fn replaces(self, before: &Placed, entry: &Placed) -> bool {
        let [was_known, is_known] = [before, entry].map(|entry| entry.encoding != Encoding::NONE);
        match self {
            Self::Last => is_known || !was_known,
            Self::First if was_known && is_known => before.length == 0 && entry.length > 0,
            Self::First => is_known && !was_known,
        }
    }
}

/// An entry with its place.
#[derive(Clone, Copy)]
struct Placed {
    /// Image offset of the range.
    function: u32,
    /// Image offset of its LSDA.
    lsda: Option<NonZeroU32>,
    length: u32,
    encoding: Encoding,
    personality: Option<NonZeroU32>,
}

/// Sorts and merges equal neighbours, functions and LSDAs at these places.
pub(super) fn dedup(
    entries: &[Entry],
    arch: Arch,
    layout: Layout,
    places: &impl Places,
    of_one_address: OfOneAddress,
) -> DedupedEntries {
    let mut folder = Deduplicator {
        arch,
        layout,
        encoding_ids: EncodingIds::new(),
        keys: Vec::with_capacity(entries.len()),
        lsdas: Vec::new(),
        personalities: Vec::new(),
        end: 0,
        is_written: false,
        previous: Placed { function: 0, lsda: None, length: 0, encoding: Encoding::NONE, personality: None },
    };
    let mut pending: Option<Placed> = None;
    in_order(entries, arch, places, |entry| {
        if let Some(previous) = pending.replace(entry) {
            if previous.function != entry.function {
                folder.push(previous);
            } else if !of_one_address.replaces(&previous, &entry) {
                pending = Some(previous);
            }
        }
    });
    if let Some(last) = pending {
        folder.is_written |= layout.is_apples();
        folder.push(last);
        let ends_at_start = layout == Layout::Lld && last.encoding == Encoding::NONE;
        let length = if ends_at_start { 0 } else { last.length };
        folder.end = last.function.saturating_add(length);
    }
    folder.done()
}

/// Calls `visit` with every entry that has an address, in the order of addresses, then of pushing.
fn in_order(entries: &[Entry], arch: Arch, places: &impl Places, mut visit: impl FnMut(Placed)) {
    let place = |entry: &Entry, at: ImageOffset| {
        let Entry { length, mut encoding, mut personality, mut lsda, .. } = *entry;
        if is_dwarf(encoding, arch) {
            let flags = encoding.flags();
            encoding = places.dwarf(entry.function, encoding);
            if encoding.mode_number() == 0 {
                (encoding, personality, lsda) = (Encoding::NONE, None, None);
            } else {
                encoding = encoding.with_flags(flags);
            }
        }
        let lsda_at = lsda.and_then(|lsda| NonZeroU32::new(places.lsda(lsda)?.0));
        if lsda_at.is_none() && lsda.is_some() {
            encoding.0 &= !Flags::HAS_LSDA.bits();
        }
        Placed { function: at.0, lsda: lsda_at, length, encoding, personality }
    };
    let address = |entry: &Entry| places.function(entry.function);
    // None is below all addresses.
    if entries.first().and_then(address).is_some() && entries.is_sorted_by_key(address) {
        let with_address = entries.iter().filter_map(|entry| Some((entry, address(entry)?)));
        return with_address.for_each(|(entry, at)| visit(place(entry, at)));
    }
    let with_number = |(number, entry): (usize, &Entry)| {
        let at = address(entry)?;
        Some(u64::from(at.0) << 32 | number.to_u64())
    };
    let mut order: Vec<u64> = entries.iter().enumerate().filter_map(with_number).collect();
    order.sort_unstable();
    for place_and_number in order {
        let (at, number) = (ImageOffset((place_and_number >> 32) as u32), place_and_number as u32);
        visit(place(&entries[number.to_usize()], at));
    }
}

struct Deduplicator {
    arch: Arch,
    layout: Layout,
    encoding_ids: EncodingIds,
    keys: Vec<Key>,
    lsdas: Vec<LsdaEntry>,
    personalities: Vec<NonZeroU32>,
    end: u32,
    is_written: bool,
    /// The entry before.
    previous: Placed,
}

impl Deduplicator {
    fn push(&mut self, entry: Placed) {
        let is_repeated = !self.keys.is_empty()
            && entry.encoding == self.previous.encoding
            && entry.personality == self.previous.personality
            && entry.lsda.is_none()
            && self.previous.lsda.is_none()
            && self.may_merge(entry.encoding);
        self.previous = entry;
        if is_repeated {
            return;
        }
        self.is_written |= entry.encoding != Encoding::NONE;
        let encoding = self.numbered(entry);
        let encoding = match (is_dwarf(encoding, self.arch), self.layout) {
            (false, _) => self.encoding_ids.number(encoding),
            (true, Layout::Ld64 | Layout::Ld64V253) => self.encoding_ids.own_number(encoding),
            (true, Layout::Small | Layout::Lld | Layout::LdPrime) => self.encoding_ids.dwarf_number(encoding),
        };
        self.keys.push(Key { function: entry.function, encoding });
        if let Some(lsda) = entry.lsda {
            let [function, lsda] = [entry.function, lsda.get()].map(ImageOffset);
            self.lsdas.push(LsdaEntry { function, lsda });
        }
    }

    /// Returns whether neighbours with this encoding are one entry: not where the encoding leads to the
    /// entry's own code, and in the layouts of Apple's linkers not in DWARF mode.
    fn may_merge(&self, encoding: Encoding) -> bool {
        match encoding.mode(self.arch) {
            Some(Mode::FramelessIndirect) => false,
            _ => !self.layout.is_apples() || !is_dwarf(encoding, self.arch),
        }
    }

    /// The encoding with the number of its personality: numbers go by first use. ORed, as ld64.lld does:
    /// only in [`Layout::Lld`] can there be another number already, and the table must then be lld's.
    fn numbered(&mut self, entry: Placed) -> Encoding {
        let Some(personality) = entry.personality else { return entry.encoding };
        let known = self.personalities.iter().position(|&known| known == personality);
        let index = known.unwrap_or_else(|| {
            self.personalities.push(personality);
            self.personalities.len() - 1
        });
        Encoding(entry.encoding.0 | (index as u32 + 1) << 28)
    }

    fn done(self) -> DedupedEntries {
        DedupedEntries {
            keys: self.keys,
            encodings: self.encoding_ids.encodings,
            counts: self.encoding_ids.counts,
            lsdas: self.lsdas,
            personalities: self.personalities,
            end: self.end,
            is_written: self.is_written,
            slack: 0,
        }
    }
}
