//! A section's functions taken on several threads.

use std::thread;
use std::vec::Vec;

use cfipack_format::SectionOffset;

use super::{Builder, LeftOut};
use crate::Reason;
use crate::cfi::Section;

impl<'a> Builder<'a> {
    /// Adds all functions of a section, on as many threads. The result does not depend on their number.
    /// Otherwise like [`push_all`](Self::push_all).
    pub fn push_section(
        &mut self,
        section: &Section<'a>,
        threads: usize,
        mut left_out: impl FnMut(LeftOut),
    ) -> Result<u64, Reason> {
        let length = section.bytes.len();
        // The first thread also joins what the others have done, so its part is the smaller by a third.
        let cut = |part: usize| {
            let thirds = (part * 3).saturating_sub(1) as u128;
            SectionOffset((length as u128 * thirds / (threads as u128 * 3 - 1)) as usize)
        };
        if threads <= 1 {
            return Ok(self.push_all(section.functions(), left_out));
        }
        self.expect(&section.functions());
        let (arch, options) = (self.arch, self.options);
        let shard = |part: usize| {
            let (mut shard, mut list) = (Builder::new(arch, options), Vec::new());
            // Only a walk finds where a record starts, so each thread walks for itself.
            let from = section.record_at_or_after(cut(part));
            let functions = section.functions_between(from, cut(part + 1));
            let count = shard.push_all(functions, |left| list.push(left));
            (shard, list, count)
        };
        thread::scope(|scope| {
            let shard = &shard;
            let others: Vec<_> = (1..threads).map(|part| scope.spawn(move || shard(part))).collect();
            let first = section.functions_between(SectionOffset(0), cut(1));
            let mut count = self.push_all(first, &mut left_out);
            for other in others {
                let (shard, list, more) =
                    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                self.absorb(shard)?;
                list.into_iter().for_each(&mut left_out);
                count += more;
            }
            Ok(count)
        })
    }
}
