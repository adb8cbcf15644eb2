//! Separates functions that share PCs, so that each PC belongs to one function or to none.
//!
//! A reader searches the index by start addresses: it finds the last function that starts at or before a PC. If
//! several functions contain a PC, the PC therefore belongs to the function that starts last. A function with
//! another function inside it is cut into the part before, the parts between and the part after. The inner
//! function may be omitted from the table; then no row answers for its PCs.
//!
//! Functions with the same start and the same rows count as a single function. If their rows differ, it is
//! unknown which function the code belongs to, because linkers leave FDEs of functions that they discarded.
//! None of these functions is then in the table.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::widen::ToU64;
use cfipack_format::{Arch, Key};

use crate::sframe::options::{Layout, Options};
use crate::sframe::table::apart::Sorted;
use crate::sframe::table::entries::{Entries, Entry, Omitted};
use crate::sframe::table::read_back::{Head, read_back};
use crate::sframe::table::rebuilt::Rebuilt;
use crate::{Reason, Unsupported};
use cfipack_format::pool::Pool;

/// Separates functions that share PCs. Returns the functions that it omits.
///
/// With `addresses`, layout `Gnu` keeps gas's entries. This function then cuts only functions around a hole:
/// around PCs for which no row may answer.
pub(crate) fn separate(
    entries: &mut Entries<'_>,
    arch: Arch,
    options: Options,
    addresses: bool,
    pool: &dyn Pool,
) -> Vec<Unsupported> {
    if !entries.continued.is_empty() {
        let starts = entries.list.iter().map(|entry| entry.start).zip(entries.function_starts());
        entries.parts = starts.filter(|(start, function)| start != function).collect();
        entries.parts.sort_unstable();
    }
    let sorted = Sorted::new(&entries.list, pool);
    if sorted.are_apart(&entries.omitted) {
        // The sorted index is then written as it is.
        let sorted = sorted.into_copy().filter(|_| options.layout.sorts_entries());
        for (entry, sorted) in entries.list.iter_mut().zip(sorted.into_iter().flatten()) {
            *entry = sorted;
        }
        entries.continued.clear();
        return Vec::new();
    }
    drop(sorted);
    let all = match options.layout {
        Layout::Small => true,
        Layout::Gnu => !addresses,
    };
    let plan = Plan::new(entries, arch, all);
    if plan.fates.iter().all(|fate| *fate == Fate::Kept) {
        return Vec::new();
    }
    plan.carry_out(entries, arch, options)
}

/// The decision about an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate {
    Kept,
    /// The entry is removed because another entry with the same start has the same rows.
    Dropped,
    /// The function is ambiguous.
    Omitted,
    /// The entry answers for these [pieces](Plan::pieces) only.
    Cut(Range<usize>),
}

/// The decisions about all entries.
struct Plan {
    /// One fate for each entry.
    fates: Vec<Fate>,
    pieces: Vec<Range<u64>>,
    /// Functions that are omitted.
    ambiguous: Vec<Omitted>,
}

/// A function and the numbers of its entries. An omitted function has no entries.
#[derive(Clone, Debug)]
struct Span {
    start: u64,
    end: u64,
    entries: Range<usize>,
}

/// The functions with the same start.
struct Group<'s> {
    start: u64,
    /// The end of the longest function, which is the first in `spans`.
    end: u64,
    spans: &'s [Span],
}

/// PCs that belong to a group.
#[derive(Clone, Debug)]
struct Piece {
    group: usize,
    pcs: Range<u64>,
}

impl Group<'_> {
    /// Returns whether a hole starts inside the group. `hole_starts` are sorted.
    fn is_around(&self, hole_starts: &[u64]) -> bool {
        let next = hole_starts.partition_point(|&start| start <= self.start);
        hole_starts.get(next).is_some_and(|&start| start < self.end)
    }
}

/// Returns all functions that have code, sorted by start. Among functions with the same start, the longest is
/// first.
fn spans(entries: &Entries<'_>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::with_capacity(entries.list.len() + entries.omitted.len());
    let mut continued = entries.continued.iter().peekable();
    for (number, entry) in entries.list.iter().enumerate() {
        if continued.next_if_eq(&&number).is_some()
            && let Some(last) = spans.last_mut()
        {
            (last.end, last.entries.end) = (entry.end(), number + 1);
        } else {
            spans.push(Span { start: entry.start, end: entry.end(), entries: number..number + 1 });
        }
    }
    spans.extend(entries.omitted.iter().map(|omitted| Span {
        start: omitted.start,
        end: omitted.end(),
        entries: 0..0,
    }));
    spans.retain(|span| span.start < span.end);
    spans.sort_by_cached_key(|span| !span.end);
    spans.sort_by_cached_key(|span| span.start);
    spans
}

/// Finds the group that each PC belongs to: the group that starts last of all groups that contain the PC. The
/// pieces are in the order of addresses.
fn owners(groups: &[Group<'_>]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(groups.len());
    let (mut open, mut pc) = (Vec::<usize>::new(), 0);
    for (number, group) in
        groups.iter().enumerate().map(|(number, group)| (number, Some(group))).chain([(0, None)])
    {
        let next = group.map_or(u64::MAX, |group| group.start);
        while pc < next
            && let Some(&top) = open.last()
        {
            let end = groups[top].end.min(next);
            if pc < end {
                pieces.push(Piece { group: top, pcs: pc..end });
                pc = end;
            } else {
                open.pop();
            }
        }
        open.push(number);
        pc = next;
    }
    pieces
}

impl Plan {
    /// Decides about every entry. With `all`, functions that share PCs are separated. Otherwise only
    /// functions around a hole and functions of several entries are cut.
    fn new(entries: &Entries<'_>, arch: Arch, all: bool) -> Self {
        let spans = spans(entries);
        let groups: Vec<_> = spans
            .chunk_by(|a, b| a.start == b.start)
            .map(|spans| Group { start: spans[0].start, end: spans[0].end, spans })
            .collect();
        let mut pieces = owners(&groups);
        // The sort is stable: the pieces of a group stay in the order of addresses.
        pieces.sort_by_cached_key(|piece| piece.group.to_u64());
        let of_groups: Vec<_> = pieces.chunk_by(|a, b| a.group == b.group).collect();
        let groups_and_pieces = groups.iter().zip(&of_groups);
        let are_holes: Vec<_> = groups_and_pieces
            .map(|(group, pieces)| {
                let reach = pieces.last().map_or(group.start, |piece| piece.pcs.end);
                group.spans.iter().any(|span| span.entries.is_empty())
                    || !have_the_same_rows(entries, arch, group, reach)
            })
            .collect();
        let mut hole_starts: Vec<_> =
            pieces.iter().filter(|piece| are_holes[piece.group]).map(|piece| piece.pcs.start).collect();
        hole_starts.sort_unstable();
        let mut plan = Self {
            fates: vec![Fate::Kept; entries.list.len()],
            pieces: pieces.iter().map(|piece| piece.pcs.clone()).collect(),
            ambiguous: Vec::new(),
        };
        let mut first = 0;
        for ((group, of_group), is_hole) in groups.iter().zip(of_groups).zip(are_holes) {
            let its_pieces = first..first + of_group.len();
            first = its_pieces.end;
            let is_whole = of_group[0].pcs == (group.start..group.end);
            if is_hole {
                plan.omit(group, &entries.refused);
            } else if all
                || group.is_around(&hole_starts)
                // A later entry of a function may start after an inner function in the entry before.
                || group.spans.iter().any(|span| span.entries.len() > 1)
            {
                let fate = if is_whole { Fate::Kept } else { Fate::Cut(its_pieces) };
                plan.set(&group.spans[..1], &fate);
                plan.set(&group.spans[1..], &Fate::Dropped);
            }
        }
        plan
    }

    fn set(&mut self, spans: &[Span], fate: &Fate) {
        for entry in spans.iter().flat_map(|span| span.entries.clone()) {
            self.fates[entry] = fate.clone();
        }
    }

    /// Omits a group. Functions of the group that were refused have been reported already, so only the other
    /// functions become ambiguous.
    fn omit(&mut self, group: &Group<'_>, refused: &[usize]) {
        self.set(group.spans, &Fate::Omitted);
        for span in group.spans {
            if !span.entries.is_empty() && refused.binary_search(&span.entries.start).is_err() {
                self.ambiguous.push(Omitted { start: span.start, size: span.end - span.start });
            }
        }
    }

    fn carry_out(self, entries: &mut Entries<'_>, arch: Arch, options: Options) -> Vec<Unsupported> {
        let ambiguous = self.ambiguous.iter();
        let mut omitted: Vec<_> =
            ambiguous.map(|function| Unsupported::function(Key(function.start), Reason::Ambiguous)).collect();
        let mut rebuilt = Rebuilt::new(&entries.blocks, arch, options);
        let functions = entries.function_starts();
        let mut parts = Vec::new();
        for ((entry, fate), function) in entries.list.iter().zip(self.fates).zip(functions) {
            let before = rebuilt.entries().len();
            let added = match fate {
                Fate::Kept => rebuilt.keep(*entry),
                Fate::Dropped | Fate::Omitted => Ok(()),
                Fate::Cut(pieces) => rebuilt.cut(*entry, overlapping(&self.pieces[pieces], entry)),
            };
            if let Err(reason) = added {
                omitted.push(Unsupported::function(Key(entry.start), reason));
            }
            let starts = rebuilt.entries()[before..].iter().map(|entry| entry.start);
            parts.extend(starts.filter(|start| *start != function).map(|start| (start, function)));
        }
        parts.sort_unstable();
        let mut rebuilt = rebuilt.finish();
        rebuilt.omitted = core::mem::take(&mut entries.omitted);
        rebuilt.omitted.extend(self.ambiguous);
        (rebuilt.unread, rebuilt.have_addresses) = (entries.unread, entries.have_addresses);
        rebuilt.parts = parts;
        *entries = rebuilt;
        omitted
    }
}

/// Returns the pieces that contain PCs of `entry`. `pieces` are sorted.
fn overlapping<'p>(pieces: &'p [Range<u64>], entry: &Entry) -> &'p [Range<u64>] {
    let first = pieces.partition_point(|pcs| pcs.end <= entry.start);
    let pieces = &pieces[first..];
    &pieces[..pieces.partition_point(|pcs| pcs.start < entry.end())]
}

/// Returns whether all functions of a group have the same rows for the PCs up to `reach`.
fn have_the_same_rows(entries: &Entries<'_>, arch: Arch, group: &Group<'_>, reach: u64) -> bool {
    let Some((first, others)) = group.spans.split_first() else { return true };
    others.iter().all(|other| {
        other.end >= reach && rows_of(entries, arch, first, reach).eq(rows_of(entries, arch, other, reach))
    })
}

/// Returns the rows of a function up to `reach`, without rows that repeat the row before.
fn rows_of<'e>(
    entries: &'e Entries<'e>,
    arch: Arch,
    function: &Span,
    reach: u64,
) -> impl Iterator<Item = (u64, Head, crate::sframe::rows::fre::Fre)> + use<'e> {
    let mut last = None;
    let rows = entries.list[function.entries.clone()].iter().flat_map(move |entry| {
        let (head, rows) = read_back(&entries.blocks, entry.block, arch.endian());
        let head = head.without_starts();
        rows.map(move |(start, fre)| (entry.start.saturating_add(start.into()), head, fre))
    });
    rows.take_while(move |row| row.0 < reach).filter(move |&(_, head, fre)| {
        let is_new = last != Some((head, fre));
        last = Some((head, fre));
        is_new
    })
}
