//! Adds a section's functions on several threads.

use core::fmt;

use cfipack_format::{Key, SectionOffset};

use crate::cfi::{Addresses, Functions, Keys, Section};
use crate::sframe::builder::Builder;
use crate::sframe::parallel::chunks::Chunks;
use crate::sframe::push_all::sealed::Sealed;
use crate::sframe::push_all::{OmittedFunction, Source};
use cfipack_format::pool::Pool;

/// All functions of a section, to be converted on the threads of a pool. Pass it to [`Builder::push_all`]. The
/// result does not depend on the pool.
#[derive(Clone, Copy)]
pub struct Parallel<'s, 'a, K = Addresses> {
    section: &'s Section<'a>,
    pool: &'s dyn Pool,
    keys: K,
}

impl<'s, 'a> Parallel<'s, 'a> {
    /// Takes the functions of a relocated section.
    pub const fn new(section: &'s Section<'a>, pool: &'s dyn Pool) -> Self {
        Self { section, pool, keys: Addresses }
    }
}

impl<'s, 'a, F: Fn(SectionOffset) -> Option<Key> + Sync> Parallel<'s, 'a, F> {
    /// Takes the functions of a section that is not relocated, as [`Functions::keyed`] does. With several
    /// threads, `key_of` may be called several times for the same offset, and in any order.
    pub const fn keyed(section: &'s Section<'a>, pool: &'s dyn Pool, key_of: F) -> Self {
        Self { section, pool, keys: key_of }
    }
}

impl<K> fmt::Debug for Parallel<'_, '_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, pool, .. } = self;
        f.debug_struct("Parallel").field("section", section).field("threads", &pool.threads()).finish()
    }
}

impl<K> Sealed for Parallel<'_, '_, K> {}

impl<'a> Source<'a> for Parallel<'_, 'a> {
    fn push_into(self, builder: &mut Builder<'a>, omitted: impl FnMut(OmittedFunction)) -> u64 {
        let Self { section, pool, .. } = self;
        builder.push_parts(section, pool, |from, to| Functions::between(section, from, to), omitted)
    }
}

impl<'a, F: Fn(SectionOffset) -> Option<Key> + Sync> Source<'a> for Parallel<'_, 'a, F> {
    fn push_into(self, builder: &mut Builder<'a>, omitted: impl FnMut(OmittedFunction)) -> u64 {
        let Self { section, pool, keys } = self;
        let part = |from, to| Functions::keyed_between(section, from, to, &keys);
        builder.push_parts(section, pool, part, omitted)
    }
}

impl<'a> Builder<'a> {
    /// Adds all functions of a section. `functions` returns the functions between two offsets.
    fn push_parts<K: Keys>(
        &mut self,
        section: &Section<'a>,
        pool: &dyn Pool,
        functions: impl Fn(SectionOffset, SectionOffset) -> Functions<'a, K> + Sync,
        omitted: impl FnMut(OmittedFunction),
    ) -> u64 {
        if pool.threads() < 2 {
            return self.push_all(functions(SectionOffset(0), SectionOffset(section.bytes.len())), omitted);
        }
        let all = Chunks::new(section, pool, functions).convert_all(self, pool);
        all.omitted.into_iter().for_each(omitted);
        all.count
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
    use crate::sframe::Options;
    use crate::sframe::parallel::chunks::Chunks;
    use crate::sframe::{Builder, Finish, OmittedFunction, Parallel};
    use cfipack_format::pool::{Pool, Serial, Task, Threads};

    /// Appends an FDE of function `number`. For an aligned record, `instructions` must have 4n + 3 bytes.
    fn fde(bytes: &mut Vec<u8>, number: u32, instructions: &[u8]) {
        eh_frame::fde(bytes, 0, 0x10_0000 + 0x100 * number, 0x100, instructions);
    }

    /// The instructions of an FDE in the middle of the section look like records. The start of a chunk may
    /// therefore be guessed wrong.
    #[test]
    fn a_wrong_guess_changes_nothing() {
        let mut bytes = eh_frame::CIE.to_vec();
        let plain = |bytes: &mut Vec<u8>, numbers: std::ops::Range<u32>| {
            numbers.for_each(|number| fde(bytes, number, &[0x41 + number as u8 % 8, 0x0e, 0x10]));
        };
        plain(&mut bytes, 0..20);
        // Records as they would be at their place inside the FDE, after three bytes.
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
        assert_ne!(guess, crate::cfi::record_at_or_after(&section, SectionOffset(0), middle));
        let convert = |threads| {
            let (mut builder, mut omitted) =
                (Builder::new(Arch::Amd64, Options::default()).unwrap(), Vec::new());
            let count = builder
                .push_all(Parallel::new(&section, &Threads(threads)), |left: OmittedFunction| {
                    omitted.push(left)
                });
            let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
            (table, omitted, count)
        };
        let expected = convert(1);
        assert_eq!(
            (expected.1.len(), expected.2),
            (1, 41),
            "the FDE in the middle alone has bad instructions"
        );
        let in_chunks = |chunk| {
            let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
            let functions = |from, to| crate::cfi::Functions::between(&section, from, to);
            let all = Chunks::of(&section, chunk, functions).convert_all(&mut builder, &Threads(2));
            let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
            (table, all.omitted, all.count)
        };
        for parts in 2..40 {
            assert_eq!(in_chunks(bytes.len().div_ceil(parts)), expected, "{parts} chunks");
        }
        assert_eq!(convert(2), expected);
    }

    /// A pool of one thread. It runs the last `tasks` tasks, the last task first, and drops all others.
    struct Backwards {
        threads: usize,
        tasks: usize,
    }

    impl Pool for Backwards {
        fn threads(&self) -> usize {
            self.threads
        }

        fn run<'t>(&self, tasks: Vec<Task<'t>>) {
            tasks.into_iter().rev().take(self.tasks).for_each(|task| task());
        }
    }

    /// Tasks never run at the same time, or do not run at all. No task waits for another task, and no function
    /// is lost.
    #[test]
    fn any_pool_gives_the_same() {
        let mut bytes = eh_frame::CIE.to_vec();
        for number in 0..500 {
            fde(&mut bytes, number, &[0x41 + (number * number % 11) as u8, 0x0e, 0x10]);
        }
        let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
        let convert = |pool: &dyn Pool| {
            let mut builder = Builder::new(Arch::Amd64, Options::default()).unwrap();
            let count = builder.push_all(Parallel::new(&section, pool), |omitted| panic!("{omitted:?}"));
            (builder.finish_with(Finish::on(pool)).into_bytes(Address(0), Key::address).unwrap(), count)
        };
        let expected = convert(&Serial);
        assert_eq!(expected.1, 500);
        for threads in [2, 3, 7, 1000] {
            assert_eq!(convert(&Threads(threads)), expected, "{threads} threads");
            for tasks in [0, 1, usize::MAX] {
                let found = convert(&Backwards { threads, tasks });
                assert_eq!(found, expected, "{tasks} tasks of {threads} threads");
            }
        }
    }

    /// If there is no room for the blocks of a part, its functions are omitted one after the other.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_table_that_is_full() {
        let (mut few, mut many) = (eh_frame::CIE.to_vec(), eh_frame::CIE.to_vec());
        (0..8).for_each(|number| fde(&mut few, number, &[0x41 + number as u8, 0x0e, 0x10]));
        // In the middle, all functions have rows of `few`.
        let rows = |number| if (100..150).contains(&number) { 8 } else { 9 };
        (8..200)
            .for_each(|number| fde(&mut many, number, &[0x41 + (number % rows(number)) as u8, 0x0e, 0x10]));
        let [few, many] =
            [&few, &many].map(|bytes| Section::new(SectionKind::EhFrame, bytes, Address(0), Arch::Amd64));
        let convert = |threads| {
            let (mut builder, mut omitted) =
                (Builder::new(Arch::Amd64, Options::default()).unwrap(), Vec::new());
            builder.push_all(crate::cfi::Functions::new(&few), |left| panic!("{left:?}"));
            let blocks = builder.draft.entries.blocks.len_in_bytes();
            builder.draft.entries.blocks.end += u32::MAX as usize - blocks;
            let count = builder.push_all(Parallel::new(&many, &Threads(threads)), |left| omitted.push(left));
            builder.draft.entries.blocks.end -= u32::MAX as usize - blocks;
            let table = builder.finish().into_bytes(Address(0), Key::address).unwrap();
            (table, omitted, count)
        };
        let expected = convert(1);
        let full = (8..200).filter(|&number| number % rows(number) == 8).count();
        assert_eq!((expected.1.len(), expected.2), (full, 192));
        let is_full = |left: &OmittedFunction| matches!(left, OmittedFunction::Unsupported(why) if why.reason == Reason::SectionSize);
        assert!(expected.1.iter().all(is_full), "{:?}", expected.1);
        for threads in 2..8 {
            assert_eq!(convert(threads), expected, "{threads} threads");
        }
    }
}
