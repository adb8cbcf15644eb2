//! Common functions on their way into a section.

use core::ops::Range;

use cfipack_format::Address;
use cfipack_format::sframe::FdeType;

use super::Builder;
use super::block::{GROUP, WideAttribute};
use super::builder::Entries;
use super::fre::BUFFER;
use super::memo::{Key, Remembered, without_trailing_zeros};
use crate::cfi::Code;

/// The function has to go the general way.
pub(super) struct NotCommon;

/// An entry whose FREs are in the buffer: their block is looked up for several entries at once.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// Where its block lies in the buffer.
    place: Range<usize>,
    hash: u32,
    attribute: Option<WideAttribute>,
    /// The entry's number.
    entry: u32,
}

/// The block of an entry that waits: no block has this number, since none is empty.
const WAITING: u32 = u32::MAX;

impl<'a> Builder<'a> {
    /// Adds a function if it is of the common kind or one like it was seen before; `key` is what its
    /// instructions are remembered by.
    #[inline(always)]
    pub(super) fn push_code(
        &mut self,
        cie: u8,
        start: Address,
        size: u32,
        code: &Code<'a>,
        key: Option<Key>,
    ) -> Result<(), NotCommon> {
        if size == 0 {
            return Err(NotCommon);
        }
        if let Some(key) = &key
            && let Some(found) = self.memo.find(key, code, size)
        {
            let block = self.block_of(found.entry);
            self.entries.push(start.0, size, block, found.num_fres);
            return Ok(());
        }
        let common = self.cies.common(cie).ok_or(NotCommon)?;
        let needed = key.map_or_else(|| without_trailing_zeros(code.instructions()), |key| key.needed);
        let ran = self.common.run(common, code, needed, size, &mut self.fres).ok_or(NotCommon)?;
        let blocks = &self.entries.blocks;
        if !blocks.has_room(BUFFER) {
            return Err(NotCommon);
        }
        let attribute = blocks.begin_block(&mut self.fres, common.info, FdeType::Default, 0);
        let place = self.fres.place(self.options.version);
        let hash = blocks.hash(self.fres.at(place.clone()));
        let entry = self.entries.list.len() as u32;
        let num_fres = self.fres.count();
        self.waiting.push(Waiting { place, hash, attribute, entry });
        self.entries.push(start.0, size, WAITING, num_fres);
        if let Some(key) = key {
            self.memo.remember(key, ran, size, Remembered { entry, num_fres });
        }
        self.fres.keep();
        if self.waiting.len() == GROUP || !self.fres.has_room() {
            self.settle();
        }
        Ok(())
    }

    /// Finds the blocks of the entries that wait for theirs.
    pub(super) fn settle(&mut self) {
        let Self { waiting, entries: Entries { list, blocks, .. }, fres, .. } = self;
        blocks.touch(waiting.iter().map(|waiting| waiting.hash));
        for Waiting { place, hash, attribute, entry } in waiting.drain(..) {
            list[entry as usize].block = blocks.add_block(hash, fres.at(place), attribute);
        }
        fres.clear();
    }

    /// The block of an entry, which may wait for it.
    #[inline(always)]
    fn block_of(&mut self, entry: u32) -> u32 {
        if self.entries.list[entry as usize].block == WAITING {
            self.settle();
        }
        self.entries.list[entry as usize].block
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use cfipack_format::{Address, Arch};

    use super::super::{Builder, LeftOut, Options};
    use crate::cfi::{Section, SectionKind};

    /// A generator of numbers (Marsaglia's xorshift64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 20) % bound
        }

        fn byte(&mut self, from: u8, to: u8) -> u8 {
            from + self.below(u64::from(to - from) + 1) as u8
        }
    }

    /// Instructions of which most are common, some at the edge of it, and few malformed.
    fn program(random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..random.below(40) {
            let (low, short) = (random.byte(0, 0x3f), random.byte(0, 0x7f));
            let any = if random.below(20) == 0 { random.byte(0, 255) } else { 0 };
            match random.below(40) {
                0..=11 => bytes.extend([0x40 | low, 0x0e, short]),
                12..=15 => bytes.push(0x40 | low),
                16 => bytes.extend([0x02, random.byte(0, 255)]),
                17 => bytes.extend([0x03, random.byte(0, 255), random.byte(0, 4)]),
                18 => bytes.extend([0x04, short, random.byte(0, 1), 0, 0]),
                19..=21 => bytes.extend([0x0e, 0x80 | short, random.byte(0, 0x7f)]),
                22 => bytes.extend([0x0e, 0x80 | short, 0x80 | short, 1]),
                23..=26 => bytes.extend([0x80 | random.byte(0, 17), random.byte(0, 20)]),
                27 => bytes.extend([0x80 | low, short]),
                28 => bytes.push(0xc0 | random.byte(0, 17)),
                29 => bytes.extend([0x0d, random.byte(6, 7)]),
                30 => bytes.extend([0x0c, random.byte(6, 7), short]),
                31 => bytes.extend([0x0c, random.byte(6, 8), 0x80 | short, random.byte(0, 0x7f)]),
                32..=33 => bytes.push(0x0a),
                34..=35 => bytes.push(0x0b),
                36 => bytes.extend([0x2e, short]),
                37 => bytes.extend([0x2e, 0x80 | short, short]),
                38 => bytes.push(0),
                _ => bytes.push(any),
            }
        }
        bytes
    }

    fn record(section: &mut Vec<u8>, body: &[u8]) {
        let padding = body.len().next_multiple_of(8) - body.len() + 4;
        section.extend(((body.len() + padding) as u32).to_le_bytes());
        section.extend(body);
        section.resize(section.len() + padding, 0);
    }

    /// An `.eh_frame` whose functions repeat each other at times.
    fn eh_frame(random: &mut Random) -> Vec<u8> {
        let mut section = Vec::new();
        // Version 1, "zR", factors 1 and -8, column 16; PC-relative; CFA rsp+8, rip at CFA-8.
        record(&mut section, b"\0\0\0\0\x01zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01");
        let mut programs = Vec::new();
        for number in 0..60u32 {
            if random.below(3) != 0 || programs.is_empty() {
                programs.push(program(random));
            }
            let chosen = random.below(programs.len() as u64) as usize;
            let at = section.len() as u32;
            let size = 1 << random.below(14) | random.below(100) as u32;
            let mut body = Vec::from((at + 4).to_le_bytes());
            body.extend((0x10_0000 + number * 0x1_0000 - (at + 8)).to_le_bytes());
            body.extend(size.to_le_bytes());
            body.push(0);
            body.extend(&programs[chosen]);
            record(&mut section, &body);
        }
        section.extend([0; 4]);
        section
    }

    #[test]
    fn common_functions_become_what_the_interpreter_makes_of_them() {
        for seed in 1..=400 {
            let bytes = eh_frame(&mut Random(seed << 32 | 0x9e37_79b9));
            let section = Section::new(SectionKind::EhFrame, &bytes, Address(0), Arch::Amd64);
            let mut common = Builder::new(Arch::Amd64, Options::default());
            let mut left_out = Vec::new();
            common.push_all(section.functions(), |left| left_out.push(left));
            let mut general = Builder::new(Arch::Amd64, Options::default());
            let mut refused = Vec::new();
            for function in section.functions().map(|function| function.unwrap()) {
                if let Err(unsupported) = general.push_rows(&function, function.size as u32, None) {
                    refused.push(LeftOut::Unsupported(unsupported));
                }
            }
            assert_eq!(left_out, refused, "seed {seed}");
            let bytes = |builder: Builder<'_>| builder.finish().into_bytes(Address(0), |start| start);
            assert_eq!(bytes(common), bytes(general), "seed {seed}");
        }
    }
}
