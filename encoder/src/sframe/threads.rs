//! A section's functions taken on several threads.

use std::sync::mpsc;
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
        let threads = threads.min(MAX_THREADS);
        if threads <= 1 {
            return Ok(self.push_all(section.functions(), left_out));
        }
        self.threads = self.threads.max(threads);
        self.expect(&section.functions());
        let parts = Parts { section: *section, threads };
        let empty = self.shard();
        let convert = |part, done: &mut dyn FnMut(Shard<'a>)| {
            let mut at = parts.start(part);
            for end in parts.ends(part) {
                let (mut builder, mut left_out) = (empty.clone(), Vec::new());
                let mut functions = section.functions_between(at, end);
                let count = builder.push_rest(&mut functions, |left| left_out.push(left));
                at = functions.offset();
                done(Shard { builder, left_out, count });
            }
        };
        thread::scope(|scope| {
            let convert = &convert;
            let others: Vec<_> = (1..threads)
                .map(|part| {
                    let (sender, receiver) = mpsc::channel();
                    let work = move || convert(part, &mut |shard| drop(sender.send(shard)));
                    thread::Builder::new().spawn_scoped(scope, work).map(|_| receiver)
                })
                .collect();
            let mut count =
                self.push_all(section.functions_between(SectionOffset(0), parts.first_end()), &mut left_out);
            for (other, part) in others.into_iter().zip(1..) {
                let mut result = Ok(());
                let mut absorb = |shard: Shard<'a>| {
                    if result.is_ok() {
                        result = self.absorb(shard.builder);
                        shard.left_out.into_iter().for_each(&mut left_out);
                        count += shard.count;
                    }
                };
                match other {
                    Ok(receiver) => receiver.into_iter().for_each(absorb),
                    // The system has no more threads to give.
                    Err(_) => convert(part, &mut absorb),
                }
                result?;
            }
            Ok(count)
        })
    }
}

/// A piece of a section, converted.
struct Shard<'a> {
    builder: Builder<'a>,
    left_out: Vec<LeftOut>,
    count: u64,
}

/// How a section is cut. The first thread absorbs what the others have done, so its part is a little
/// smaller; and lest all of that comes at the end, their parts have two pieces, a large one and a small one.
struct Parts<'a> {
    section: Section<'a>,
    threads: usize,
}

impl Parts<'_> {
    /// The offset at a number of hundredths of a thread's share of the bytes.
    fn cut(&self, hundredths: usize) -> SectionOffset {
        let length = self.section.bytes.len() as u128;
        SectionOffset((length * hundredths as u128 / (self.threads as u128 * 100)) as usize)
    }

    /// Where the first thread's part ends.
    fn first_end(&self) -> SectionOffset {
        self.cut(95)
    }

    /// Where another part starts. Only a walk finds where a record starts, so each thread walks for itself.
    fn start(&self, part: usize) -> SectionOffset {
        self.section.record_at_or_after(self.cut(part * 100 - 5))
    }

    /// Where its pieces end.
    fn ends(&self, part: usize) -> [SectionOffset; 2] {
        let end = if part + 1 == self.threads { part * 100 + 100 } else { part * 100 + 95 };
        [self.cut(part * 100 + 75), self.cut(end)]
    }
}
