//! The start of an entry: in which function, and how far from that one's start.

use alloc::vec::Vec;

use cfipack_format::{Address, Key};

use crate::sframe::parts::for_each;
use crate::sframe::table::entries::{Entries, Entry};
use cfipack_format::pool::Pool;

/// A place in a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) function: Key,
    /// Bytes from its start.
    pub(crate) offset: u64,
}

impl Place {
    /// The place that an entry's start, which counts from the function's key, stands for.
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

/// For fewer functions it is not worth while to start a thread.
const LEAST_OF_A_THREAD: usize = 1 << 14;

/// The entries that do not start where their function does.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The numbers, ascending, and their functions' keys.
    continued: Vec<(usize, u64)>,
}

impl Places {
    /// Finds the places of finished entries.
    pub(crate) fn of(entries: &Entries) -> Self {
        if entries.have_addresses == Some(false) {
            let functions = entries.list.iter().zip(entries.function_starts()).enumerate();
            let continued = functions.filter(|(_, (entry, function))| entry.start != *function);
            return Self { continued: continued.map(|(number, (_, function))| (number, function)).collect() };
        }
        if entries.parts.is_empty() {
            return Self { continued: Vec::new() };
        }
        let starts = entries.list.iter().map(|entry| entry.start).enumerate();
        let continued = starts.filter_map(|(number, start)| Some((number, part_of(&entries.parts, start)?)));
        Self { continued: continued.collect() }
    }

    /// Keeps the places of some entries only, of which `is_kept` has the numbers.
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

    /// The places of entries, of which the first has this number.
    pub(crate) fn iter<'e>(&'e self, first: usize, entries: &'e [Entry]) -> impl Iterator<Item = Place> + 'e {
        let skipped = self.continued.partition_point(|&(number, _)| number < first);
        let mut continued = self.continued[skipped..].iter().peekable();
        entries.iter().zip(first..).map(move |(entry, number)| {
            let function = continued.next_if(|part| part.0 == number);
            Place::new(function.map_or(entry.start, |part| part.1), entry.start)
        })
    }

    /// Entries with the addresses that their functions have.
    pub(crate) fn move_all(
        &self,
        pool: &dyn Pool,
        entries: &mut [Entry],
        address_of: &(impl Fn(Key) -> Address + Sync),
    ) {
        let part_len = entries.len().div_ceil(pool.threads().max(1)).max(LEAST_OF_A_THREAD);
        for_each(pool, entries.chunks_mut(part_len).enumerate().collect(), |(part, entries)| {
            let first = part * part_len;
            let skipped = self.continued.partition_point(|&(number, _)| number < first);
            let mut continued = self.continued[skipped..].iter().peekable();
            for (entry, number) in entries.iter_mut().zip(first..) {
                let function = continued.next_if(|part| part.0 == number);
                let place = Place::new(function.map_or(entry.start, |part| part.1), entry.start);
                entry.start = place.address(address_of).0;
            }
        });
    }
}

/// The function that an entry at this start goes on with, of parts in order.
pub(crate) fn part_of(parts: &[(u64, u64)], start: u64) -> Option<u64> {
    parts.binary_search_by_key(&start, |part| part.0).ok().map(|part| parts[part].1)
}
