//! Decides which function a PC belongs to if functions overlap: the function that [`Section::find`] finds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use cfipack_decoder::sframe::{Function, Section};

/// PCs for which a function answers: all its PCs, or a part of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub from: u64,
    pub end: u64,
    pub section: u32,
    pub index: u32,
}

/// A piece of a function that has several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The place of the function's first piece.
    pub first: usize,
    /// True if no piece of the function follows.
    pub is_last: bool,
}

/// The number that stands for the section's start. A search compares signed distances from the section's start. XOR
/// with this number turns them into unsigned numbers with the same order.
const ORIGIN: u64 = 1 << 63;

impl Entry {
    /// Returns the PCs of a function, by their distance from the section's start.
    pub(crate) fn relative(section: &Section<'_>, number: usize, function: &Function<'_>) -> Self {
        let from = function.start().distance_from(section.address()) as u64 ^ ORIGIN;
        let end = from.saturating_add(u64::from(function.size()));
        Self { from, end, section: number as u32, index: function.index() as u32 }
    }

    fn function(&self) -> (u32, u32) {
        (self.section, self.index)
    }

    /// Turns PCs into addresses. A function that continues after the last address goes on at address 0.
    fn absolute(self, section: &Section<'_>) -> [Option<Self>; 2] {
        let address = |relative: u64| section.address().0.wrapping_add(relative ^ ORIGIN);
        let (from, end) = (address(self.from), address(self.end));
        let entry = |from, end| Some(Self { from, end, ..self }).filter(|entry| entry.from < entry.end);
        if from < end { [entry(from, end), None] } else { [entry(from, u64::MAX), entry(0, end)] }
    }
}

/// Appends the PCs of a section's functions, by address. No two of the appended entries share a PC.
pub(crate) fn append(section: &Section<'_>, mut found: Vec<Entry>, all: &mut Vec<Entry>) {
    decide_by_start(&mut found);
    let mut wrapped = Vec::new();
    found.retain_mut(|entry| {
        let [first, rest] = entry.absolute(section);
        wrapped.extend(rest);
        *entry = first.unwrap_or(*entry);
        first.is_some()
    });
    if all.is_empty() {
        *all = found;
    } else {
        all.append(&mut found);
    }
    all.append(&mut wrapped);
}

/// Gives each PC to the function with the last start at or before the PC. If several functions have this start, the PC
/// belongs to the last function among them that has the PC.
fn decide_by_start(found: &mut Vec<Entry>) {
    if !found.is_sorted_by(|a, b| a.from < b.from) {
        found.sort_by_cached_key(|entry| u64::from(!entry.index));
        found.sort_by_cached_key(|entry| entry.from);
    }
    let (mut start, mut next) = (u64::MAX, u64::MAX);
    for entry in found.iter_mut().rev() {
        if entry.from != start {
            (start, next) = (entry.from, start);
        }
        entry.end = entry.end.min(next);
    }
    let mut reached = 0;
    found.retain_mut(|entry| {
        entry.from = entry.from.max(reached);
        let has_pcs = entry.from < entry.end;
        reached = if has_pcs { entry.end } else { reached };
        has_pcs
    });
}

/// Gives each PC to a function. Returns the entries in order of address, and the pieces of functions that have several,
/// by place.
pub(crate) fn decide(mut found: Vec<Entry>) -> (Vec<Entry>, HashMap<usize, Piece>) {
    if !found.is_sorted_by_key(|entry| entry.from) {
        found.sort_by_cached_key(|entry| entry.from);
    }
    let is_disjoint = found.is_sorted_by(|a, b| a.end <= b.from);
    let goes_around = found.first().zip(found.last()).is_some_and(|(a, b)| a.from == 0 && b.end == u64::MAX);
    if is_disjoint && !goes_around {
        return (found, HashMap::new());
    }
    let entries = decided_by_order(&found);
    let pieces = pieces(&entries);
    (entries, pieces)
}

/// Gives each PC to the function of the first section that has the PC.
fn decided_by_order(found: &[Entry]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::with_capacity(found.len());
    let (mut open, mut pc) = (BinaryHeap::new(), 0);
    for (at, entry) in found.iter().enumerate() {
        pc = entry.from.max(pc);
        open.push(Reverse((entry.section, entry.index, entry.end)));
        let next = found.get(at + 1).map_or(u64::MAX, |next| next.from);
        while pc < next
            && let Some(&Reverse((section, index, end))) = open.peek()
        {
            if end <= pc {
                open.pop();
                continue;
            }
            let end = end.min(next);
            match entries.last_mut() {
                Some(last) if last.end == pc && last.function() == (section, index) => last.end = end,
                _ => entries.push(Entry { from: pc, end, section, index }),
            }
            pc = end;
        }
    }
    entries
}

/// Returns the pieces of the functions that have several, by place.
fn pieces(entries: &[Entry]) -> HashMap<usize, Piece> {
    let (mut places, mut pieces) = (HashMap::new(), HashMap::new());
    for (place, entry) in entries.iter().enumerate() {
        let (first, last) = places.entry(entry.function()).or_insert((place, place));
        if *first != place {
            pieces.insert(*last, Piece { first: *first, is_last: false });
            pieces.insert(place, Piece { first: *first, is_last: true });
            *last = place;
        }
    }
    pieces
}
