//! Adds many objects on the threads of a pool. Each thread fills mergers of its own, which the merger then absorbs in
//! order.
//!
//! Neighbouring small objects are a single task. A [`Large`] object is divided into several tasks: first its tables are
//! checked, then parts of its functions are added, and last the functions of its CFI that no table has.

use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::from_cfi::{note_signal_frames, push_cfi, push_records};
use super::from_table::{Checked, for_each_table, push_functions};
use super::table::Table;
use super::{Contribution, Field, Live, Merger, Note, Object, Prefer};
use crate::cfi::{Section, SectionKind, record_at_or_after};
use crate::format::pool::{Pool, map, part_len};
use crate::format::{Address, SectionOffset};

/// With fewer bytes, a task costs more than it saves.
const LEAST_OF_A_TASK: usize = 1 << 14;

/// A merger for a part of the objects.
struct Shard<'a> {
    merger: Merger<'a>,
    notes: Vec<(usize, Note)>,
    sum: Contribution,
}

/// A large object, which several tasks add.
struct Large<'a> {
    number: usize,
    /// The tables, and the results of checking them.
    tables: Vec<(Table<'a>, Checked)>,
    /// The starts of parts of the CFI and its end, if the object has no table.
    cuts: Vec<SectionOffset>,
    /// The state in which all tasks start, and in which the last one goes on.
    checked: Shard<'a>,
}

/// The work of a task.
enum Work<'t, 'a> {
    Objects(Range<usize>),
    Functions(&'t Large<'a>, &'t (Table<'a>, Checked), Range<usize>),
    Records(&'t Large<'a>, Range<SectionOffset>),
}

/// Consecutive objects, and the number of tasks that add them.
struct Unit {
    objects: Range<usize>,
    tasks: usize,
}

/// The objects, with what all tasks need.
struct Objects<'o, 'a, F> {
    pool: &'o dyn Pool,
    all: &'o [Object<'a>],
    empty: Merger<'a>,
    live: &'o F,
    /// The number of bytes for a task.
    enough: usize,
}

/// Adds the functions of objects. `live` makes a closure for each part of an object.
pub(crate) fn push_on<'a, L: FnMut(Field) -> Option<Live>>(
    merger: &mut Merger<'a>,
    pool: &dyn Pool,
    objects: &[Object<'a>],
    live: &(impl Fn(usize) -> L + Sync),
    mut report: impl FnMut(usize, Note),
) -> Contribution {
    let bytes = objects.iter().map(Object::len).sum();
    let enough = part_len(pool, bytes, LEAST_OF_A_TASK);
    let objects = Objects { pool, all: objects, empty: merger.shard(), live, enough };
    let (units, shards) = objects.push();
    let (mut shards, mut sum) = (shards.into_iter(), Contribution::default());
    for Unit { objects: numbers, tasks } in units {
        let mut notes = Vec::new();
        let mut unit_sum = Contribution::default();
        let mergers = shards.by_ref().take(tasks).map(|shard| {
            notes.extend(shard.notes);
            unit_sum += shard.sum;
            shard.merger.builder
        });
        if merger.builder.absorb_all(mergers.collect(), pool).is_err() {
            // Without room for all of them, each function gets the room that is left.
            (notes, unit_sum) = (Vec::new(), Contribution::default());
            for number in numbers {
                let note = |note| notes.push((number, note));
                unit_sum += merger.push_object(&objects.all[number], live(number), note);
            }
        }
        sum += unit_sum;
        notes.into_iter().for_each(|(number, note)| report(number, note));
    }
    sum
}

impl<'a, L: FnMut(Field) -> Option<Live>, F: Fn(usize) -> L + Sync> Objects<'_, 'a, F> {
    /// Adds all objects to shards. Returns which shards have which objects.
    fn push(&self) -> (Vec<Unit>, Vec<Shard<'a>>) {
        let large = (0..self.all.len()).filter(|&number| self.all[number].len() > self.enough);
        let large: Vec<_> =
            map(self.pool, large.collect(), |number| self.divide(number)).into_iter().flatten().collect();
        let (units, work) = self.work(&large);
        let mut shards = map(self.pool, work, |work| self.run(work));
        let (mut ends, mut rest) = (Vec::new(), &mut shards[..]);
        let mut large = large.into_iter().peekable();
        for Unit { objects, tasks } in &units {
            let of_unit = rest.split_off_mut(..*tasks).unwrap_or_default();
            if let Some(large) = large.next_if(|large| large.number == objects.start)
                && let Some((last, others)) = of_unit.split_last_mut()
            {
                ends.push((large, others, last));
            }
        }
        map(self.pool, ends, |(large, others, last)| self.end(large, others, last));
        (units, shards)
    }

    fn shard(&self) -> Shard<'a> {
        Shard { merger: self.empty.shard(), notes: Vec::new(), sum: Contribution::default() }
    }

    /// Checks the tables of a large object, or finds parts of its CFI. Returns `None` if the object cannot be divided.
    fn divide(&self, number: usize) -> Option<Large<'a>> {
        let object = &self.all[number];
        let has_table = object.sframe.is_some_and(|bytes| !bytes.is_empty());
        let prefer = self.empty.options.prefer;
        let mut large = Large { number, tables: Vec::new(), cuts: Vec::new(), checked: self.shard() };
        large.checked.merger.builder.shrink_to_fit();
        if !has_table {
            let bytes = object.eh_frame.filter(|_| prefer != Prefer::TableOnly)?;
            let section = Section::new(SectionKind::EhFrame, bytes, Address(0), self.empty.arch);
            let mut at = SectionOffset(0);
            while at.0 < bytes.len() {
                large.cuts.push(at);
                at = record_at_or_after(&section, at, SectionOffset(at.0 + self.enough));
            }
            large.cuts.push(at);
            return Some(large);
        }
        if prefer == Prefer::Cfi && object.eh_frame.is_some() {
            // The CFI decides which functions of the table are needed.
            return None;
        }
        let (mut live, mut has_shared_rows) = ((self.live)(number), false);
        let Shard { merger, notes, sum } = &mut large.checked;
        for_each_table(merger, object, &mut |note| notes.push((number, note)), sum, |merger, table, _, _| {
            note_signal_frames(merger, object, table.version(), &mut live);
            has_shared_rows |= merger.scratch.has_shared_rows();
            large.tables.push((*table, mem::take(&mut merger.scratch.checked)));
        });
        let has_functions = large.tables.iter().any(|(_, checked)| checked.functions() != 0);
        (has_functions && !has_shared_rows).then_some(large)
    }

    /// Divides the work into tasks. Objects that are not large belong to the task in whose share of the bytes their middle
    /// lies.
    fn work<'t>(&self, large: &'t [Large<'a>]) -> (Vec<Unit>, Vec<Work<'t, 'a>>) {
        let (mut units, mut work) = (Vec::new(), Vec::new());
        let (mut first, mut bytes, mut share, mut large) = (0, 0, 0, large.iter().peekable());
        for (number, object) in self.all.iter().enumerate() {
            let large = large.next_if(|large| large.number == number);
            let own_share = (bytes + object.len() / 2) / self.enough;
            if (large.is_some() || own_share != share) && first < number {
                // Ends the group before this object.
                units.push(Unit { objects: first..number, tasks: 1 });
                work.push(Work::Objects(first..number));
                first = number;
            }
            share = own_share;
            let Some(large) = large else {
                bytes += object.len();
                continue;
            };
            let before = work.len();
            self.work_of(large, &mut work);
            units.push(Unit { objects: number..number + 1, tasks: work.len() - before });
            first = number + 1;
        }
        if first < self.all.len() {
            units.push(Unit { objects: first..self.all.len(), tasks: 1 });
            work.push(Work::Objects(first..self.all.len()));
        }
        (units, work)
    }

    /// Divides the work for a large object.
    fn work_of<'t>(&self, large: &'t Large<'a>, work: &mut Vec<Work<'t, 'a>>) {
        work.extend(large.cuts.windows(2).map(|cuts| Work::Records(large, cuts[0]..cuts[1])));
        let parts = self.all[large.number].len().div_ceil(self.enough);
        for table in &large.tables {
            let functions = table.1.functions();
            let part_len = functions.div_ceil(parts).max(1);
            let firsts = (0..functions).step_by(part_len);
            work.extend(
                firsts.map(|first| Work::Functions(large, table, first..functions.min(first + part_len))),
            );
        }
    }

    fn run(&self, work: Work<'_, 'a>) -> Shard<'a> {
        let mut shard = self.shard();
        let Shard { merger, notes, sum } = &mut shard;
        match work {
            Work::Objects(numbers) => {
                merger.reserve(&self.all[numbers.clone()]);
                for number in numbers {
                    let note = |note| notes.push((number, note));
                    *sum += merger.push_object(&self.all[number], (self.live)(number), note);
                }
            }
            Work::Functions(large, (table, checked), indices) => {
                let rows_are_lent = table.version() == merger.options.table.version;
                merger.builder.reserve_for_write(indices.len(), rows_are_lent.then_some(0));
                merger.scratch.clear();
                merger.scratch.signal_frames = large.checked.merger.scratch.signal_frames.clone();
                let has_cfi = self.all[large.number].eh_frame.is_some_and(|bytes| !bytes.is_empty());
                let live = &mut (self.live)(large.number);
                push_functions(merger, table, checked, indices, has_cfi, live, sum);
            }
            Work::Records(large, range) => {
                let Large { number, .. } = *large;
                let note = &mut |note| notes.push((number, note));
                push_records(merger, &self.all[number], range, &mut (self.live)(number), note, sum);
            }
        }
        merger.builder.shrink_to_fit();
        shard
    }

    /// Ends a large object, in the last of its shards.
    fn end(&self, large: Large<'a>, others: &mut [Shard<'a>], last: &mut Shard<'a>) {
        let Large { number, checked, .. } = large;
        let mut scratch = checked.merger.scratch;
        scratch.covered.clear();
        for Shard { merger, .. } in others.iter_mut().chain([&mut *last]) {
            scratch.covered.append(mem::take(&mut merger.scratch.covered));
            scratch.rowless.append(&mut merger.scratch.rowless);
        }
        let Shard { merger, notes, sum } = last;
        merger.scratch = scratch;
        notes.extend(checked.notes);
        *sum += checked.sum;
        let object = &self.all[number];
        let note = &mut |note| notes.push((number, note));
        if object.sframe.is_some_and(|bytes| !bytes.is_empty()) && merger.options.prefer == Prefer::Table {
            push_cfi(merger, object, &mut (self.live)(number), note, sum);
        }
        merger.omit_rowless(note, sum);
    }
}
