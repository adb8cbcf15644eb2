//! A section's functions taken on several threads.

use std::thread;
use std::vec::Vec;

use cfipack_format::SectionOffset;

use super::{Builder, LeftOut};
use crate::Reason;
use crate::cfi::Section;

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
            let others: Vec<_> = (1..threads).map(|part| scope.spawn(move || convert(part))).collect();
            self.expect(&section.functions());
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
