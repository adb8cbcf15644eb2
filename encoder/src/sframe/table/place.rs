//! The start of an entry, as a function and an offset in it.

use alloc::vec::Vec;

use cfipack_format::{Address, Key};

use crate::sframe::table::entries::{Entries, Entry};
use crate::sframe::table::order::Start;
use cfipack_format::pool::{Pool, map, part_len};

/// A place in a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) function: Key,
    /// Bytes from the function's start.
    pub(crate) offset: u64,
}

impl Place {
    /// Returns the place of an entry. `start` is the entry's start, which counts from the function's key.
    pub(crate) fn new(function: u64, start: u64) -> Self {
        Self { function: Key(function), offset: start.wrapping_sub(function) }
    }

    /// The entry's start.
    pub(crate) fn start(self) -> u64 {
        self.function.0.wrapping_add(self.offset)
    }

    pub(crate) fn address(self, address_of: impl Fn(Key) -> Address) -> Address {
        Address(address_of(self.function).0.wrapping_add(self.offset))
    }
}

/// With fewer functions, a thread costs more than it saves.
const LEAST_OF_A_THREAD: usize = 1 << 11;

/// The entries that start inside a function.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The entries' numbers, ascending, and their functions' keys.
    continued: Vec<(usize, u64)>,
}

impl Places {
    /// Finds the places of finished entries.
    pub(crate) fn new(entries: &Entries<'_>) -> Self {
        if entries.have_addresses == Some(false) {
            let (mut continued, mut function, mut next) = (Vec::new(), 0, 0);
            for &number in &entries.continued {
                if number != next {
                    function = entries.list[number - 1].start;
                }
                next = number + 1;
                if entries.list[number].start != function {
                    continued.push((number, function));
                }
            }
            return Self { continued };
        }
        if entries.parts.is_empty() {
            return Self { continued: Vec::new() };
        }
        let starts = entries.list.iter().map(|entry| entry.start).enumerate();
        let continued = starts.filter_map(|(number, start)| Some((number, part_of(&entries.parts, start)?)));
        Self { continued: continued.collect() }
    }

    /// Keeps the places of some entries. `is_kept` says for each entry whether it is kept.
    pub(crate) fn retain(&mut self, is_kept: &[bool]) {
        let (mut at, mut dropped) = (0, 0);
        self.continued.retain_mut(|(number, _)| {
            dropped += is_kept[at..*number].iter().filter(|is_kept| !**is_kept).count();
            at = *number;
            let keep = is_kept[at];
            *number -= dropped;
            keep
        });
    }

    /// Returns the places of `entries`. The first entry has the number `first`.
    pub(crate) fn iter<'e>(&'e self, first: usize, entries: &'e [Entry]) -> impl Iterator<Item = Place> + 'e {
        let mut functions = self.functions(first);
        entries.iter().zip(first..).map(move |(entry, number)| functions.place(number, entry))
    }

    /// Moves entries to the addresses of their functions.
    pub(crate) fn move_all(
        &self,
        pool: &dyn Pool,
        entries: &mut [Entry],
        address_of: &(impl Fn(Key) -> Address + Sync),
    ) {
        let part_len = part_len(pool, entries.len(), LEAST_OF_A_THREAD);
        map(pool, entries.chunks_mut(part_len).enumerate().collect(), |(part, entries)| {
            let mut functions = self.functions(part * part_len);
            for (entry, number) in entries.iter_mut().zip(part * part_len..) {
                entry.start = functions.place(number, entry).address(address_of).0;
            }
        });
    }

    /// Writes the addresses of entries, computed from the addresses of their functions.
    pub(crate) fn addresses(
        &self,
        pool: &dyn Pool,
        entries: &[Entry],
        address_of: &(impl Fn(Key) -> Address + Sync),
        addresses: &mut [Start],
    ) {
        let part_len = part_len(pool, entries.len(), LEAST_OF_A_THREAD);
        let parts = addresses.chunks_mut(part_len).zip(entries.chunks(part_len)).enumerate().collect();
        map(pool, parts, |(part, (addresses, entries))| {
            let mut functions = self.functions(part * part_len);
            for ((address, entry), number) in addresses.iter_mut().zip(entries).zip(part * part_len..) {
                *address = functions.place(number, entry).address(address_of).0.to_ne_bytes();
            }
        });
    }

    /// Returns the functions of the entries from number `first` on.
    fn functions(&self, first: usize) -> FunctionsOfEntries<'_> {
        let skipped = self.continued.partition_point(|&(number, _)| number < first);
        let rest = &self.continued[skipped..];
        FunctionsOfEntries { rest, next: number_of_first(rest) }
    }
}

/// Finds the functions of entries, which must be asked for in order.
struct FunctionsOfEntries<'p> {
    rest: &'p [(usize, u64)],
    /// The number of the next entry that starts inside a function.
    next: usize,
}

impl FunctionsOfEntries<'_> {
    #[inline(always)]
    fn place(&mut self, number: usize, entry: &Entry) -> Place {
        let function = if number == self.next { self.take_next() } else { entry.start };
        Place::new(function, entry.start)
    }

    #[cold]
    fn take_next(&mut self) -> u64 {
        let part = self.rest.split_off_first();
        self.next = number_of_first(self.rest);
        part.map_or(0, |part| part.1)
    }
}

fn number_of_first(continued: &[(usize, u64)]) -> usize {
    continued.first().map_or(usize::MAX, |part| part.0)
}

/// Returns the function that an entry at `start` continues. `parts` are sorted.
pub(crate) fn part_of(parts: &[(u64, u64)], start: u64) -> Option<u64> {
    parts.binary_search_by_key(&start, |part| part.0).ok().map(|part| parts[part].1)
}
