//! Sorts the entries, and merges equal neighbours.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use cfipack_format::compact_unwind::{Encoding, Flags};
use cfipack_format::unwind_info::LsdaEntry;
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, ImageOffset};

use super::encoding_ids::EncodingIds;
use super::entry::{Entry, is_dwarf};
use super::options::{Habits, Layout};
use super::places::Places;

/// An entry of the table after sorting and merging.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// The image offset of the code.
    pub(super) function: u32,
    /// The number of the encoding.
    pub(super) encoding: u32,
}

/// The sorted and merged entries. The pages are cut from these.
#[derive(Default, Debug)]
pub(super) struct DedupedEntries {
    /// The entries, ascending by function. In the layouts of Apple's linker since Xcode 15 an entry without information
    /// may have the next entry's function.
    pub(super) keys: Vec<Key>,
    /// The encodings by number.
    pub(super) encodings: Vec<Encoding>,
    /// For each encoding, by number: how many keys use it.
    pub(super) counts: Vec<u32>,
    /// The LSDA records, ascending by function.
    pub(super) lsdas: Vec<LsdaEntry>,
    /// The personalities in the order of their numbers.
    pub(super) personalities: Vec<NonZeroU32>,
    /// The image offset of the last entry's end.
    pub(super) end: u32,
    /// Whether the image gets a section. Layouts [`Small`](Layout::Small) and [`Lld`](Layout::Lld) write a section if
    /// some entry has unwind information. The layouts of Apple's linkers write a section if there is any entry.
    pub(super) is_written: bool,
    /// How far the functions of a page may still move apart, in bytes. It is 0 if all functions have their final
    /// addresses.
    pub(super) slack: u32,
}

impl DedupedEntries {
    /// Returns the last offset of an entry in a compressed page, if the format or a linker allows up to `allowed`.
    pub(super) fn max_offset(&self, allowed: u32) -> u32 {
        allowed.saturating_sub(self.slack)
    }
}

/// Which entry counts if several entries have the same address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SameAddress {
    /// The last entry with unwind information counts.
    Last,
    /// The first entry with unwind information and a length counts. If there is none, the first entry with unwind
    /// information counts.
    First,
}

impl SameAddress {
    /// Returns whether an entry replaces the entry before it at the same address.
    fn replaces(self, before: &Placed, entry: &Placed) -> bool {
        let [was_known, is_known] = [before, entry].map(|entry| entry.encoding != Encoding::NONE);
        match self {
            Self::Last => is_known || !was_known,
            Self::First if was_known && is_known => before.length == 0 && entry.length > 0,
            Self::First => is_known && !was_known,
        }
    }
}

/// An entry with its address.
#[derive(Clone, Copy)]
struct Placed {
    /// The image offset of the code.
    function: u32,
    /// The image offset of the LSDA.
    lsda: Option<NonZeroU32>,
    length: u32,
    encoding: Encoding,
    personality: Option<NonZeroU32>,
}

/// Sorts the entries by address, and merges equal neighbours. The `places` give the addresses of functions and LSDAs.
pub(super) fn dedup(
    entries: &[Entry],
    arch: Arch,
    layout: Layout,
    places: &impl Places,
    same_address: SameAddress,
) -> DedupedEntries {
    let mut folder = Deduplicator {
        arch,
        habits: layout.habits(),
        encoding_ids: EncodingIds::new(),
        table: DedupedEntries { keys: Vec::with_capacity(entries.len()), ..DedupedEntries::default() },
        previous: Placed { function: 0, lsda: None, length: 0, encoding: Encoding::NONE, personality: None },
    };
    let mut pending: Option<Placed> = None;
    in_order(entries, arch, places, |entry| {
        if let Some(previous) = pending.replace(entry) {
            if previous.function != entry.function || folder.keeps_before(&previous, &entry) {
                folder.push(previous);
            } else if !same_address.replaces(&previous, &entry) {
                pending = Some(previous);
            }
        }
    });
    if let Some(last) = pending {
        folder.table.is_written |= folder.habits.is_written_always;
        folder.push(last);
        let ends_at_start = folder.habits.ends_where_last_null_starts && last.encoding == Encoding::NONE;
        let length = if ends_at_start { 0 } else { last.length };
        folder.table.end = last.function.saturating_add(length);
    }
    let EncodingIds { encodings, counts, .. } = folder.encoding_ids;
    DedupedEntries { encodings, counts, ..folder.table }
}

/// Calls `visit` with every entry that has an address, ascending by address. Entries at the same address come in the
/// order in which they were pushed.
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
    // `None` sorts before all addresses, so it is enough to look at the first entry.
    if entries.first().and_then(address).is_some() && entries.is_sorted_by_key(address) {
        let with_address = entries.iter().filter_map(|entry| Some((entry, address(entry)?)));
        return with_address.for_each(|(entry, at)| visit(place(entry, at)));
    }
    let mut order = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        if let Some(at) = address(entry) {
            order.push(u64::from(at.0) << 32 | number.to_u64());
        }
    }
    order.sort_unstable();
    for place_and_number in order {
        let (at, number) = (ImageOffset((place_and_number >> 32) as u32), place_and_number as u32);
        visit(place(&entries[number.to_usize()], at));
    }
}

struct Deduplicator {
    arch: Arch,
    habits: Habits,
    encoding_ids: EncodingIds,
    /// The result, without the encodings.
    table: DedupedEntries,
    /// The last entry that was pushed.
    previous: Placed,
}

impl Deduplicator {
    fn push(&mut self, entry: Placed) {
        let is_repeated = !self.table.keys.is_empty()
            && entry.encoding == self.previous.encoding
            && entry.personality == self.previous.personality
            && entry.lsda.is_none()
            && self.previous.lsda.is_none()
            && self.may_merge(entry.encoding);
        self.previous = entry;
        if is_repeated {
            return;
        }
        self.table.is_written |= entry.encoding != Encoding::NONE;
        let encoding = self.numbered(entry);
        let encoding = if !is_dwarf(encoding, self.arch) {
            self.encoding_ids.number(encoding)
        } else if self.habits.gives_each_dwarf_a_slot {
            self.encoding_ids.own_number(encoding)
        } else {
            self.encoding_ids.dwarf_number(encoding)
        };
        self.table.keys.push(Key { function: entry.function, encoding });
        if let Some(lsda) = entry.lsda {
            let [function, lsda] = [entry.function, lsda.get()].map(ImageOffset);
            self.table.lsdas.push(LsdaEntry { function, lsda });
        }
    }

    /// Returns whether the layout keeps an entry although the next entry has the same address: an empty entry without
    /// information, for example of a symbol that marks the end of the code before it (OCaml's `code_end`).
    fn keeps_before(&self, entry: &Placed, next: &Placed) -> bool {
        self.habits.is_ld_prime
            && (entry.encoding, entry.length) == (Encoding::NONE, 0)
            && next.encoding != Encoding::NONE
    }

    /// Returns whether neighbours with this encoding may be merged. They may not if the encoding refers to the
    /// function's own code.
    fn may_merge(&self, encoding: Encoding) -> bool {
        !encoding.depends_on_start(self.arch)
            && (self.habits.merges_dwarf || !is_dwarf(encoding, self.arch))
            && (self.habits.merges_nulls || encoding != Encoding::NONE)
    }

    /// Returns the encoding with the number of its personality. Numbers are given by first use.
    ///
    /// The number is ORed into the encoding, as ld64.lld does. Only layout [`Lld`](Layout::Lld) can have another
    /// number there already, and then the result has to be the same as lld's.
    fn numbered(&mut self, entry: Placed) -> Encoding {
        let Some(personality) = entry.personality else { return entry.encoding };
        let known = &mut self.table.personalities;
        let index = known.iter().position(|&known| known == personality).unwrap_or_else(|| {
            known.push(personality);
            known.len() - 1
        });
        Encoding(entry.encoding.0 | (index as u32 + 1) << 28)
    }
}
