//! A section's functions taken on several threads.

use std::thread;
use std::vec::Vec;

use cfipack_format::SectionOffset;

use super::{Builder, LeftOut};
use crate::Reason;
use crate::cfi::Section;

/// More do not help: each walks to its part, and what it made is absorbed by one.
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
        let length = section.bytes.len();
        let threads = threads.min(MAX_THREADS);
        // The first thread has no walk to do before its part, which is the larger by an eighth.
        let cut = |part: usize| {
            let eighths = if part == 0 { 0 } else { part * 8 + 1 };
            SectionOffset((length as u128 * eighths as u128 / (threads as u128 * 8 + 1)) as usize)
        };
        if threads <= 1 {
            return Ok(self.push_all(section.functions(), left_out));
        }
        self.threads = self.threads.max(threads);
        let empty = self.shard();
        let convert = |part: usize| {
            let (mut shard, mut list) = (empty.clone(), Vec::new());
            // Only a walk finds where a record starts, so each thread walks for itself.
            let from = section.record_at_or_after(cut(part));
            let functions = section.functions_between(from, cut(part + 1));
            let count = shard.push_all(functions, |left| list.push(left));
            (shard, list, count)
        };
        thread::scope(|scope| {
            let convert = &convert;
            let spawn = |part| thread::Builder::new().spawn_scoped(scope, move || convert(part));
            let others: Vec<_> = (1..threads).map(spawn).collect();
            self.expect(&section.functions());
            let first = section.functions_between(SectionOffset(0), cut(1));
            let mut count = self.push_all(first, &mut left_out);
            for (other, part) in others.into_iter().zip(1..) {
                let (shard, list, more) = match other {
                    Ok(other) => other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    // The system has no more threads to give.
                    Err(_) => convert(part),
                };
                self.absorb(shard)?;
                list.into_iter().for_each(&mut left_out);
                count += more;
            }
            Ok(count)
        })
    }
}
