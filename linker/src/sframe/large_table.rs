//! Divides the table of a large object among the threads of a pool.

use core::mem;
use core::ops::Range;

use super::from_table::push_functions;
use super::table::Table;
use super::{Contribution, Field, Live, Merger};
use crate::format::pool::{Pool, Serial, in_order};

/// The number of parts per thread.
const PARTS_PER_THREAD: usize = 16;

/// The least number of functions in a part.
const MIN_PART_LEN: usize = 1 << 9;

/// The merger that receives the functions, with their counts.
struct State<'m, 'a> {
    merger: &'m mut Merger<'a>,
    sum: Contribution,
}

/// A merger for consecutive parts, with their counts.
struct Shard<'a> {
    merger: Merger<'a>,
    sum: Contribution,
}

/// Adds the functions of a checked table whose functions share no rows. `live` makes a closure for each part.
pub(crate) fn push_table_on<'a, L: FnMut(Field) -> Option<Live>>(
    merger: &mut Merger<'a>,
    pool: &dyn Pool,
    table: &Table<'a>,
    has_cfi: bool,
    live: &(impl Fn() -> L + Sync),
    sum: &mut Contribution,
) {
    let checked = mem::take(&mut merger.scratch.checked);
    let functions = checked.functions();
    let part_len = functions.div_ceil(pool.threads().clamp(1, 256) * PARTS_PER_THREAD).max(MIN_PART_LEN);
    let mut empty = merger.shard();
    empty.scratch.clear();
    empty.scratch.signal_frames = merger.scratch.signal_frames.clone();
    let push = |merger: &mut Merger<'a>, parts: Range<usize>, sum: &mut Contribution| {
        let indices = parts.start * part_len..functions.min(parts.end * part_len);
        push_functions(merger, table, &checked, indices, has_cfi, &mut live(), sum);
    };
    let push_part = |part: usize, before: Option<Shard<'a>>| {
        let mut shard = before.unwrap_or_else(|| {
            let mut merger = empty.shard();
            merger.scratch = empty.scratch.clone();
            Shard { merger, sum: Contribution::default() }
        });
        push(&mut shard.merger, part..part + 1, &mut shard.sum);
        shard
    };
    let mut state = State { merger, sum: *sum };
    let parts = functions.div_ceil(part_len);
    in_order(pool, parts, &mut state, push_part, |state, parts, shard| {
        if let Some(Shard { mut merger, sum }) = shard {
            let (covered, rowless) =
                (mem::take(&mut merger.scratch.covered), mem::take(&mut merger.scratch.rowless));
            // All threads of the pool are at work, so this thread absorbs alone.
            if state.merger.absorb(merger, &Serial).is_ok() {
                state.merger.scratch.covered.append(covered);
                state.merger.scratch.rowless.extend(rowless);
                state.sum += sum;
                return;
            }
        }
        push(state.merger, parts, &mut state.sum);
    });
    *sum = state.sum;
    merger.scratch.checked = checked;
}
