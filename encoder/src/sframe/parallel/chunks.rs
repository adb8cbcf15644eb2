//! The chunks of a section, which threads convert in any order and one of them at a time merges in theirs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cfipack_format::SectionOffset;

use crate::cfi::{Functions, Keys, Section, likely_record_at_or_after};
use crate::sframe::builder::Builder;
use crate::sframe::push_all::OmittedFunction;
use cfipack_format::pool::Pool;

/// The parts of a section: chunks, and how their functions are found.
pub(crate) struct Chunks<'s, 'a, F> {
    pub(crate) section: &'s Section<'a>,
    /// The functions of the section between two offsets.
    pub(crate) functions: F,
    /// The starts of the chunks, and the end of the last one.
    cuts: Vec<SectionOffset>,
}

/// The progress of merging chunks.
pub(crate) struct Progress<'a> {
    /// Chunks that were converted, from the first that is not merged on; none where it could only be guessed wrong
    /// where the chunk starts.
    shards: Vec<Option<Option<Shard<'a>>>>,
    /// The number of chunks that are merged.
    merged: usize,
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

/// A chunk in a builder of its own.
struct Shard<'a> {
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
}

impl<'s, 'a, K: Keys, F> Chunks<'s, 'a, F>
where
    F: Fn(SectionOffset, SectionOffset) -> Functions<'a, K> + Sync,
{
    /// Divides a section for this many threads. Chunks become smaller, so that merging overlaps with the conversion of
    /// later ones and all threads end at about the same time. They are few: what one remembers, the next does not.
    pub(crate) fn new(section: &'s Section<'a>, threads: usize, functions: F) -> Self {
        let len = section.bytes.len();
        let least = (len / threads / 4).max(1);
        let (mut at, mut cuts) = (0, Vec::from([SectionOffset(0)]));
        while at < len {
            at += ((len - at) / threads).max(least).min(len - at);
            cuts.push(SectionOffset(at));
        }
        Self { section, functions, cuts }
    }

    fn len(&self) -> usize {
        self.cuts.len() - 1
    }

    /// Merges the next chunk into a builder: by absorbing its shard, if there is one, it starts where the chunk before
    /// ends and there is room for all of it; else function by function.
    fn merge(&self, builder: &mut Builder<'a>, pool: &dyn Pool, next: Next<'a>) -> Part {
        let Next { chunk, at, shard } = next;
        let absorbed =
            shard.filter(|shard| shard.start == at).and_then(|Shard { builder: shard, part, .. }| {
                builder.absorb(*shard, pool).ok()?;
                Some(part)
            });
        absorbed.unwrap_or_else(|| Part::push(builder, (self.functions)(at, self.cuts[chunk + 1])))
    }

    /// Converts a chunk by itself; none where it could only be guessed wrong where it starts.
    fn convert(&self, empty: &Builder<'a>, chunk: usize) -> Option<Shard<'a>> {
        let start = likely_record_at_or_after(self.section, self.cuts[chunk])?;
        let mut builder = Box::new(empty.clone());
        let part = Part::push(&mut builder, (self.functions)(start, self.cuts[chunk + 1]));
        Some(Shard { builder, start, part })
    }

    /// Converts the chunks on the threads of a pool, and merges them as far as that goes at the same time.
    #[cfg(feature = "std")]
    pub(crate) fn convert_all(&self, builder: &mut Builder<'a>, pool: &dyn Pool) -> Progress<'a> {
        use std::sync::{Mutex, PoisonError};

        let empty = builder.shard();
        let shared =
            Mutex::new(Shared { builder: Some(builder), started: 0, progress: Progress::new(self.len()) });
        let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
        let work = || {
            // The lock is not held while there is work.
            let next_step = || lock().next_step();
            while let Some(step) = next_step() {
                match step {
                    Step::Merge(builder, next) => {
                        // The pool's threads are all at work.
                        let part = self.merge(builder, &cfipack_format::pool::Serial, next);
                        let mut shared = lock();
                        shared.progress.take(part);
                        shared.builder = Some(builder);
                    }
                    Step::Convert(chunk) => {
                        let shard = self.convert(&empty, chunk);
                        lock().progress.shards[chunk] = Some(shard);
                    }
                }
            }
        };
        let tasks = pool.threads().min(self.len());
        pool.run((0..tasks).map(|_| -> cfipack_format::pool::Task<'_> { Box::new(work) }).collect());
        shared.into_inner().unwrap_or_else(PoisonError::into_inner).progress
    }

    /// Converts the chunks on the threads of a pool. Merging them at the same time needs a lock.
    #[cfg(any(test, not(feature = "std")))]
    pub(crate) fn convert_apart(&self, builder: &mut Builder<'a>, pool: &dyn Pool) -> Progress<'a> {
        let (empty, mut progress) = (builder.shard(), Progress::new(self.len()));
        let shards = progress.shards.iter_mut().enumerate().collect();
        crate::sframe::parts::for_each(pool, shards, |(chunk, shard)| {
            *shard = Some(self.convert(&empty, chunk));
        });
        progress
    }

    /// Merges the chunks that are left: all without a lock, and those that a pool has not run the tasks for.
    pub(crate) fn merge_rest(&self, builder: &mut Builder<'a>, pool: &dyn Pool, progress: &mut Progress<'a>) {
        while progress.merged < self.len() {
            let next = progress.next_merge().unwrap_or(Next {
                chunk: progress.merged,
                at: progress.at,
                shard: None,
            });
            progress.take(self.merge(builder, pool, next));
        }
    }
}

/// A chunk that is the next to merge.
struct Next<'a> {
    chunk: usize,
    at: SectionOffset,
    shard: Option<Shard<'a>>,
}

impl<'a> Progress<'a> {
    fn new(chunks: usize) -> Self {
        let shards = (0..chunks).map(|_| None).collect();
        Self { shards, merged: 0, at: SectionOffset(0), count: 0, omitted: Vec::new() }
    }

    /// The next chunk to merge, if it is converted.
    fn next_merge(&mut self) -> Option<Next<'a>> {
        let shard = self.shards.get_mut(self.merged)?.take()?;
        Some(Next { chunk: self.merged, at: self.at, shard })
    }

    /// Counts the next chunk as merged.
    fn take(&mut self, part: Part) {
        self.merged += 1;
        self.count += part.count;
        self.at = part.end;
        self.omitted.extend(part.omitted);
    }
}

/// The state that tasks share. None ever waits for another: what cannot be done yet is done by the task that makes it possible.
#[cfg(feature = "std")]
struct Shared<'b, 'a> {
    /// None while a task merges.
    builder: Option<&'b mut Builder<'a>>,
    /// Chunks that tasks have taken.
    started: usize,
    progress: Progress<'a>,
}

/// The next step of a task.
#[cfg(feature = "std")]
enum Step<'b, 'a> {
    Merge(&'b mut Builder<'a>, Next<'a>),
    Convert(usize),
}

#[cfg(feature = "std")]
impl<'b, 'a> Shared<'b, 'a> {
    fn next_step(&mut self) -> Option<Step<'b, 'a>> {
        let Self { builder, started, progress } = self;
        let next_chunk = (*started < progress.shards.len()).then_some(*started);
        if builder.is_some() {
            let next = progress.next_merge().or_else(|| {
                // All before it are merged: it needs no shard.
                let chunk = next_chunk.filter(|&chunk| chunk == progress.merged)?;
                *started += 1;
                Some(Next { chunk, at: progress.at, shard: None })
            });
            if let Some(next) = next {
                return builder.take().map(|builder| Step::Merge(builder, next));
            }
        }
        next_chunk.map(|chunk| {
            *started += 1;
            Step::Convert(chunk)
        })
    }
}
