//! The chunks of a section. Threads convert them in any order, and the builder absorbs them in the section's order.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cfipack_format::SectionOffset;

use crate::cfi::{Functions, Keys, Section, likely_record_at_or_after};
use crate::sframe::builder::Builder;
use crate::sframe::push_all::OmittedFunction;
use cfipack_format::pool::{Pool, map, part_len};

/// In a smaller chunk, more functions would repeat functions of other chunks.
const LEAST_CHUNK: usize = 1 << 12;

/// A section, divided into chunks.
pub(crate) struct Chunks<'s, 'a, F> {
    pub(crate) section: &'s Section<'a>,
    /// Returns the functions of the section between two offsets.
    pub(crate) functions: F,
    /// The starts of the chunks, and the end of the last chunk.
    pub(crate) cuts: Vec<SectionOffset>,
}

/// The functions of a chunk, or of several neighbouring chunks.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) count: u64,
    pub(crate) omitted: Vec<OmittedFunction>,
    /// The offset of the next chunk.
    end: SectionOffset,
}

/// A builder with the functions of a chunk.
pub(crate) struct Shard<'a> {
    builder: Box<Builder<'a>>,
    start: SectionOffset,
    part: Part,
}

impl Part {
    /// Adds the functions after this part.
    fn push<'a, K: Keys>(&mut self, builder: &mut Builder<'a>, mut functions: Functions<'a, K>) {
        self.count += builder.push_rest(&mut functions, |function| self.omitted.push(function));
        self.end = functions.offset();
    }
}

impl<'s, 'a, K: Keys, F> Chunks<'s, 'a, F>
where
    F: Fn(SectionOffset, SectionOffset) -> Functions<'a, K> + Sync,
{
    /// Divides a section for the threads of a pool.
    pub(crate) fn new(section: &'s Section<'a>, pool: &dyn Pool, functions: F) -> Self {
        Self::of(section, part_len(pool, section.bytes.len(), LEAST_CHUNK), functions)
    }

    /// Divides a section into chunks of some bytes.
    pub(crate) fn of(section: &'s Section<'a>, chunk: usize, functions: F) -> Self {
        let len = section.bytes.len();
        let cuts = (0..len).step_by(chunk).chain([len]).map(SectionOffset).collect();
        Self { section, functions, cuts }
    }

    /// Converts a chunk into a shard. Returns `None` if there is no likely start of a record near the start of
    /// the chunk.
    fn convert(&self, empty: &Builder<'a>, from: SectionOffset, to: SectionOffset) -> Option<Shard<'a>> {
        let start = likely_record_at_or_after(self.section, from)?;
        let (mut builder, mut part) = (Box::new(empty.shard()), Part::default());
        let functions = (self.functions)(start, to);
        builder.reserve_for_write(functions.records_left(), None);
        part.push(&mut builder, functions);
        builder.shrink_to_fit();
        Some(Shard { builder, start, part })
    }

    /// Converts the chunks on the threads of a pool, and adds them to a builder. A chunk that does not start
    /// where the chunk before ends is converted again, and so is a chunk without room for all of it.
    pub(crate) fn convert_all(&self, builder: &mut Builder<'a>, pool: &dyn Pool) -> Part {
        let (empty, mut all) = (builder.shard(), Part::default());
        let chunks = self.cuts.windows(2).collect();
        let shards = map(pool, chunks, |cuts: &[SectionOffset]| self.convert(&empty, cuts[0], cuts[1]));
        for (shard, &end) in shards.into_iter().zip(&self.cuts[1..]) {
            if let Some(Shard { builder: shard, start, part }) = shard
                && start == all.end
                && builder.absorb(*shard, pool).is_ok()
            {
                all.count += part.count;
                all.omitted.extend(part.omitted);
                all.end = part.end;
            } else {
                all.push(builder, (self.functions)(all.end, end));
            }
        }
        all
    }
}
