//! The chunks of a section. Threads convert them in any order, and a single thread at a time merges them in the
//! section's order.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use cfipack_format::SectionOffset;

use crate::cfi::{Functions, Keys, Section, likely_record_at_or_after};
use crate::sframe::builder::Builder;
use crate::sframe::push_all::OmittedFunction;
use cfipack_format::pool::{Pool, Serial, in_order};

/// The number of chunks for each thread.
const CHUNKS_OF_A_THREAD: usize = 16;

/// A section, divided into chunks.
pub(crate) struct Chunks<'s, 'a, F> {
    pub(crate) section: &'s Section<'a>,
    /// Returns the functions of the section between two offsets.
    pub(crate) functions: F,
    /// The starts of the chunks, and the end of the last chunk.
    cuts: Vec<SectionOffset>,
}

/// The progress of merging chunks.
#[derive(Default)]
pub(crate) struct Progress {
    /// The start of the next chunk's functions.
    at: SectionOffset,
    pub(crate) count: u64,
    pub(crate) omitted: Vec<OmittedFunction>,
}

/// The results of a chunk's functions.
struct Part {
    count: u64,
    omitted: Vec<OmittedFunction>,
    /// The offset of the next chunk.
    end: SectionOffset,
}

/// A builder with the functions of a chunk, or of several neighbouring chunks.
pub(crate) struct Shard<'a> {
    builder: Box<Builder<'a>>,
    start: SectionOffset,
    part: Part,
}

impl Part {
    fn push<'a, K: Keys>(builder: &mut Builder<'a>, mut functions: Functions<'a, K>) -> Self {
        let mut omitted = Vec::new();
        let count = builder.push_rest(&mut functions, |function| omitted.push(function));
        Self { count, omitted, end: functions.offset() }
    }

    /// Adds the results of the chunk after this chunk.
    fn extend(&mut self, next: Self) {
        self.count += next.count;
        self.omitted.extend(next.omitted);
        self.end = next.end;
    }
}

impl<'s, 'a, K: Keys, F> Chunks<'s, 'a, F>
where
    F: Fn(SectionOffset, SectionOffset) -> Functions<'a, K> + Sync,
{
    /// Divides a section for `threads` threads. The chunks are so small that all threads end at about the same
    /// time.
    pub(crate) fn new(section: &'s Section<'a>, threads: usize, functions: F) -> Self {
        let len = section.bytes.len();
        let chunk = len.div_ceil(threads * CHUNKS_OF_A_THREAD).max(1);
        let cuts = (0..len).step_by(chunk).chain([len]).map(SectionOffset).collect();
        Self { section, functions, cuts }
    }

    /// The number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Merges the next chunks into a builder. Absorbs `shard` if it starts where the chunk before ends and
    /// there is room for all of it. Otherwise pushes the functions of the chunks one after the other.
    pub(crate) fn merge(
        &self,
        builder: &mut Builder<'a>,
        progress: &mut Progress,
        chunks: Range<usize>,
        shard: Option<Shard<'a>>,
    ) {
        let at = progress.at;
        let part = if let Some(Shard { builder: shard, start, part }) = shard
            && start == at
            // The pool's threads are all at work.
            && builder.absorb(*shard, &Serial).is_ok()
        {
            part
        } else {
            Part::push(builder, (self.functions)(at, self.cuts[chunks.end]))
        };
        progress.at = part.end;
        progress.count += part.count;
        progress.omitted.extend(part.omitted);
    }

    /// Converts a chunk into a new shard, or continues the shard of the chunk before. Returns `None` if there
    /// is no likely start of a record near the start of the chunk.
    pub(crate) fn convert(
        &self,
        empty: &Builder<'a>,
        chunk: usize,
        before: Option<Shard<'a>>,
    ) -> Option<Shard<'a>> {
        if let Some(mut shard) = before {
            let functions = (self.functions)(shard.part.end, self.cuts[chunk + 1]);
            shard.part.extend(Part::push(&mut shard.builder, functions));
            return Some(shard);
        }
        let start = likely_record_at_or_after(self.section, self.cuts[chunk])?;
        let mut builder = Box::new(empty.clone());
        let part = Part::push(&mut builder, (self.functions)(start, self.cuts[chunk + 1]));
        Some(Shard { builder, start, part })
    }

    /// Converts the chunks on the threads of a pool, and merges them at the same time.
    pub(crate) fn convert_all(&self, builder: &mut Builder<'a>, pool: &dyn Pool) -> Progress {
        let empty = builder.shard();
        let mut state = (builder, Progress::default());
        in_order(
            pool,
            self.len(),
            &mut state,
            |chunk, before: Option<Option<_>>| self.convert(&empty, chunk, before.flatten()),
            |(builder, progress), chunks, shard| self.merge(builder, progress, chunks, shard.flatten()),
        );
        state.1
    }
}
