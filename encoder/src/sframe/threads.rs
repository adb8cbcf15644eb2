//! A section's functions taken on several threads.

use std::panic::resume_unwind;
use std::thread;
use std::vec::Vec;

use cfipack_format::SectionOffset;

use super::{Builder, LeftOut};
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
    ) -> u64 {
        let threads = threads.min(MAX_THREADS);
        if threads <= 1 {
            return self.push_all(crate::cfi::Functions::new(section), left_out);
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
            self.expect(&crate::cfi::Functions::new(section));
            let mut count = 0;
            let mut at = SectionOffset(0);
            for (part, other) in [None].into_iter().chain(others).enumerate() {
                let shard = other.and_then(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
                if let Some(shard) = shard
                    && shard.start == at
                    && self.absorb(shard.builder).is_ok()
                {
                    shard.left_out.into_iter().for_each(&mut left_out);
                    (count, at) = (count + shard.count, shard.end);
                    continue;
                }
                // The first part; or the system had no thread to give, there was no guess where the part starts or a
                // wrong one, or there is no room for all of it.
                let mut functions = crate::cfi::Functions::between(section, at, cut(part + 1));
                count += self.push_rest(&mut functions, &mut left_out);
                at = functions.offset();
            }
            count
        })
    }
}

/// A part of a section, converted.
struct Shard<'a> {
    builder: Builder<'a>,
    left_out: Vec<LeftOut>,
    count: u64,
    start: SectionOffset,
    /// Where the next part starts.
    end: SectionOffset,
}

impl<'a> Shard<'a> {
    /// Converts the part between two cuts, if it can be guessed where it starts.
    fn convert(
        mut builder: Builder<'a>,
        section: &Section<'a>,
        from: SectionOffset,
        to: SectionOffset,
    ) -> Option<Self> {
        let start = crate::cfi::likely_record_at_or_after(section, from)?;
        let mut functions = crate::cfi::Functions::between(section, start, to);
        let mut left_out = Vec::new();
        let count = builder.push_rest(&mut functions, |left| left_out.push(left));
        Some(Self { builder, left_out, count, start, end: functions.offset() })
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use cfipack_format::{Address, Arch, SectionOffset};

    use super::{Builder, LeftOut};
    #[cfg(target_pointer_width = "64")]
    use crate::Reason;
    use crate::cfi::{Section, SectionKind};
    use crate::eh_frame;
    use crate::sframe::Options;

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
            let count = builder.push_section(&section, threads, |left: LeftOut| left_out.push(left));
            let table = builder.finish().into_bytes(Address(0), |start| start).unwrap();
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
            let count = builder.push_section(&many, threads, |left| left_out.push(left));
            builder.entries.blocks.end -= u32::MAX as usize - blocks;
            let table = builder.finish().into_bytes(Address(0), |start| start).unwrap();
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
