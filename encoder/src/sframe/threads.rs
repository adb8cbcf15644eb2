//! A section's functions taken on several threads.

use std::panic::resume_unwind;
use std::thread;
use std::vec::Vec;

use cfipack_format::SectionOffset;

use super::{Builder, LeftOut};
use crate::Reason;
use crate::cfi::Section;

/// More do not help: what they made is absorbed by one.
const MAX_THREADS: usize = 256;

impl<'a> Builder<'a> {
    /// Adds all functions of a section, on as many threads, which the [section](super::Section) is
    /// then written on as well. The result does not depend on their number.
    /// Otherwise like [`push_all`](Self::push_all).
    pub fn push_section(
        &mut self,
        section: &Section<'a>,
        threads: usize,
        mut left_out: impl FnMut(LeftOut),
    ) -> Result<u64, Reason> {
        let threads = threads.min(MAX_THREADS);
        if threads <= 1 {
            return Ok(self.push_all(section.functions(), left_out));
        }
        self.threads = self.threads.max(threads);
        let empty = &self.shard();
        // Where a part starts.
        let length = section.bytes.len() as u128;
        let cut = |part| SectionOffset((length * part as u128 / threads as u128) as usize);
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|part| {
                    let (from, to) = (cut(part), cut(part + 1));
                    let work = move || Shard::convert(empty.clone(), section, from, to);
                    thread::Builder::new().spawn_scoped(scope, work).ok()
                })
                .collect();
            self.expect(&section.functions());
            let mut count = 0;
            let mut at = SectionOffset(0);
            for (part, other) in [None].into_iter().chain(others).enumerate() {
                let shard = other.map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
                match shard {
                    Some(shard) if shard.start == at => {
                        self.absorb_hashed(shard.builder, shard.hashes)?;
                        shard.left_out.into_iter().for_each(&mut left_out);
                        (count, at) = (count + shard.count, shard.end);
                    }
                    // The first part; or the system had no thread to give, or the guess where the part starts was
                    // wrong.
                    _ => {
                        let mut functions = section.functions_between(at, cut(part + 1));
                        count += self.push_rest(&mut functions, &mut left_out);
                        at = functions.offset();
                    }
                }
            }
            Ok(count)
        })
    }
}

/// A part of a section, converted.
struct Shard<'a> {
    builder: Builder<'a>,
    hashes: Vec<u32>,
    left_out: Vec<LeftOut>,
    count: u64,
    start: SectionOffset,
    /// Where the next part starts.
    end: SectionOffset,
}

impl<'a> Shard<'a> {
    /// Converts the part between two cuts.
    fn convert(
        mut builder: Builder<'a>,
        section: &Section<'a>,
        from: SectionOffset,
        to: SectionOffset,
    ) -> Self {
        let start = section.likely_record_at_or_after(from);
        let mut functions = section.functions_between(start, to);
        let mut left_out = Vec::new();
        let count = builder.push_rest(&mut functions, |left| left_out.push(left));
        let hashes = builder.block_hashes();
        Self { builder, hashes, left_out, count, start, end: functions.offset() }
    }
}
