//! A section's functions taken on several threads.

use alloc::boxed::Box;
use alloc::vec::Vec;

use cfipack_format::{Key, SectionOffset};

use crate::cfi::{Functions, Keys, Section};
use crate::sframe::{Builder, LeftOut, Pool, Task};

/// More do not help: what they produce is absorbed by one.
const MAX_THREADS: usize = 256;

impl<'a> Builder<'a> {
    /// Adds all functions of a relocated section, on the threads of a pool. The result does not depend on it.
    /// Otherwise like [`push_all`](Self::push_all).
    pub fn push_section(
        &mut self,
        section: &Section<'a>,
        pool: &dyn Pool,
        left_out: impl FnMut(LeftOut),
    ) -> u64 {
        self.push_parts(section, pool, |from, to| Functions::between(section, from, to), left_out)
    }

    /// As [`push_section`](Self::push_section), of a section that is not relocated: see
    /// [`Functions::keyed`](crate::cfi::Functions::keyed). With several threads `key_of` may be asked for one offset
    /// several times, and in any order.
    pub fn push_section_keyed(
        &mut self,
        section: &Section<'a>,
        pool: &dyn Pool,
        key_of: impl Fn(SectionOffset) -> Option<Key> + Sync,
        left_out: impl FnMut(LeftOut),
    ) -> u64 {
        let part = |from, to| Functions::keyed_between(section, from, to, &key_of);
        self.push_parts(section, pool, part, left_out)
    }

    /// `functions` gives those of the section between two offsets.
    fn push_parts<K: Keys>(
        &mut self,
        section: &Section<'a>,
        pool: &dyn Pool,
        functions: impl Fn(SectionOffset, SectionOffset) -> Functions<'a, K> + Sync,
        mut left_out: impl FnMut(LeftOut),
    ) -> u64 {
        let parts = pool.threads().clamp(1, MAX_THREADS);
        // Where a part starts.
        let length = section.bytes.len() as u128;
        let cut = |part| SectionOffset((length * part as u128 / parts as u128) as usize);
        let whole = functions(cut(0), cut(parts));
        if parts == 1 {
            return self.push_all(whole, left_out);
        }
        self.expect(&whole);
        let (empty, functions) = (&self.shard(), &functions);
        let mut first = None;
        let mut others: Vec<Option<Shard<'a>>> = (1..parts).map(|_| None).collect();
        let (builder, into) = (&mut *self, &mut first);
        // The first part needs no absorbing.
        let task: Task<'_> = Box::new(move || *into = Some(Part::push(builder, functions(cut(0), cut(1)))));
        let tasks = others.iter_mut().zip(1..).map(|(into, part)| -> Task<'_> {
            Box::new(move || {
                let start = crate::cfi::likely_record_at_or_after(section, cut(part));
                *into = start.map(|start| {
                    let mut builder = empty.clone();
                    let part = Part::push(&mut builder, functions(start, cut(part + 1)));
                    Shard { builder, start, part }
                });
            })
        });
        pool.run([task].into_iter().chain(tasks).collect());
        let (mut count, mut at) = (0, SectionOffset(0));
        let mut take = |part: Part| {
            part.left_out.into_iter().for_each(&mut left_out);
            count += part.count;
            part.end
        };
        if let Some(part) = first {
            at = take(part);
        }
        for (other, end) in others.into_iter().zip((2..).map(cut)) {
            let absorbed =
                other.filter(|shard| shard.start == at).and_then(|Shard { builder, part, .. }| {
                    self.absorb_on(pool, builder).ok()?;
                    Some(part)
                });
            // There was no guess where the part starts or a wrong one, there is no room for all of it, or the
            // pool did not run the task.
            at = take(absorbed.unwrap_or_else(|| Part::push(self, functions(at, end))));
        }
        count
    }
}

/// What came of the functions of a part of a section.
struct Part {
    count: u64,
    left_out: Vec<LeftOut>,
    /// Where the next part starts.
    end: SectionOffset,
}

/// A part of a section in a builder of its own.
struct Shard<'a> {
    builder: Builder<'a>,
    start: SectionOffset,
    part: Part,
}

impl Part {
    fn push<'a, K: Keys>(builder: &mut Builder<'a>, mut functions: Functions<'a, K>) -> Self {
        let mut left_out = Vec::new();
        let count = builder.push_rest(&mut functions, |left| left_out.push(left));
        Self { count, left_out, end: functions.offset() }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use std::vec::Vec;

    use cfipack_format::{Address, Arch, Key, SectionOffset};

    #[cfg(target_pointer_width = "64")]
    use crate::Reason;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame;
    use crate::sframe::{Builder, LeftOut};
    use crate::sframe::{Options, Threads};

    /// Appends an FDE of the function with this number, with a multiple of 4 bytes and 3.
    fn fde(bytes: &mut Vec<u8>, number: u32, instructions: &[u8]) {
        eh_frame::fde(bytes, 0, 0x10_0000 + 0x100 * number, 0x100, instructions);
    }

    /// In the middle of the section lies an FDE whose instructions look like records: where the second
    /// part starts is guessed wrong.
    #[test]
    fn a_wrong_guess_changes_nothing() {
        let mut bytes = eh_frame::CIE.to_vec();
        let plain = |bytes: &mut Vec<u8>, numbers: std::ops::Range<u32>| {
            numbers.for_each(|number| fde(bytes, number, &[0x41 + number as u8 % 8, 0x0e, 0x10]));
        };
        plain(&mut bytes, 0..20);
        // Records at the places that they say, between three bytes and nothing.
        let mut inner = bytes.clone();
        inner.extend([0; 17 + 3]);
        let from = inner.len();
        plain(&mut inner, 100..130);
        let inner = [&[0; 3], &inner[from..]].concat();
        fde(&mut bytes, 20, &inner);
        plain(&mut bytes, 21..41);
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let middle = SectionOffset(bytes.len() / 2);
        let guess = crate::cfi::likely_record_at_or_after(&section, middle).unwrap();
        assert_ne!(guess, crate::cfi::record_at_or_after(&section, middle));
        let convert = |threads| {
            let (mut builder, mut left_out) =
                (Builder::new(Arch::Amd64, Options::default()).unwrap(), Vec::new());
            let count =
                builder.push_section(&section, &Threads(threads), |left: LeftOut| left_out.push(left));
            let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
            (table, left_out, count)
        };
        let expected = convert(1);
        assert_eq!(
            (expected.1.len(), expected.2),
            (1, 41),
            "the FDE in the middle alone has bad instructions"
        );
        for threads in 2..6 {
            assert_eq!(convert(threads), expected, "{threads} threads");
        }
    }

    /// Where there is no room for a part's blocks, its functions are left out one by one.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_table_that_is_full() {
        let (mut few, mut many) = (eh_frame::CIE.to_vec(), eh_frame::CIE.to_vec());
        (0..8).for_each(|number| fde(&mut few, number, &[0x41 + number as u8, 0x0e, 0x10]));
        // In the middle all have rows of those.
        let rows = |number| if (100..150).contains(&number) { 8 } else { 9 };
        (8..200)
            .for_each(|number| fde(&mut many, number, &[0x41 + (number % rows(number)) as u8, 0x0e, 0x10]));
        let [few, many] =
            [&few, &many].map(|bytes| Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64));
        let convert = |threads| {
            let (mut builder, mut left_out) =
                (Builder::new(Arch::Amd64, Options::default()).unwrap(), Vec::new());
            builder.push_all(crate::cfi::Functions::new(&few), |left| panic!("{left:?}"));
            let blocks = builder.entries.blocks.len_in_bytes();
            builder.entries.blocks.end += u32::MAX as usize - blocks;
            let count = builder.push_section(&many, &Threads(threads), |left| left_out.push(left));
            builder.entries.blocks.end -= u32::MAX as usize - blocks;
            let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
            (table, left_out, count)
        };
        let expected = convert(1);
        let full = (8..200).filter(|&number| number % rows(number) == 8).count();
        assert_eq!((expected.1.len(), expected.2), (full, 192));
        let is_full =
            |left: &LeftOut| matches!(left, LeftOut::Unsupported(why) if why.reason == Reason::SectionSize);
        assert!(expected.1.iter().all(is_full), "{:?}", expected.1);
        for threads in 2..8 {
            assert_eq!(convert(threads), expected, "{threads} threads");
        }
    }
}
