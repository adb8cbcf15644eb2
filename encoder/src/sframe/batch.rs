//! Common functions on their way into a section, a batch at a time.
//!
//! Each step is done for all functions of a batch before the next one: what a step waits for, memory
//! above all, it then awaits for all of them together.

use alloc::vec::Vec;

use cfipack_format::sframe::FdeType;
use cfipack_format::{Address, SectionOffset};

use super::Builder;
use super::block::{GROUP, WideAttribute};
use super::fre::{BUFFER, Block};
use super::memo::{Key, Memo, Remembered};
use crate::cfi::{Code, PlainFde};

/// A function of a batch.
#[derive(Clone, Copy, Debug)]
struct Taken<'a> {
    start: Address,
    size: u32,
    cie: u8,
    code: Code<'a>,
    /// Where its FDE starts.
    at: SectionOffset,
    key: Key,
    /// What the same instructions gave before.
    remembered: Option<Remembered>,
}

/// FREs that are in the buffer.
#[derive(Clone, Copy, Debug)]
struct Ran {
    block: Block,
    hash: u32,
    num_fres: u32,
    attribute: WideAttribute,
    /// The location that the instructions end at.
    end: u64,
}

/// Functions that are taken together.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    functions: Vec<Taken<'a>>,
    /// Of those that are not remembered, in order: what their instructions gave, or nothing where a
    /// function has to go the general way.
    ran: Vec<Option<Ran>>,
    memo: Memo,
}

impl<'a> Batch<'a> {
    /// For the functions of a section that has so many.
    pub(super) fn new(functions: usize) -> Self {
        let (taken, ran) = (Vec::with_capacity(GROUP), Vec::with_capacity(GROUP));
        Self { functions: taken, ran, memo: Memo::new(functions) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.functions.len() == GROUP
    }

    pub(super) fn len(&self) -> usize {
        self.functions.len()
    }

    /// Adds a function of the CIE with this number.
    #[inline(always)]
    pub(super) fn add(&mut self, cie: u8, fde: &PlainFde<'a>) {
        let PlainFde { start, size, at, code, .. } = *fde;
        let key = self.memo.key(cie, &code);
        self.functions.push(Taken { start, size, cie, code, at, key, remembered: None });
    }
}

impl<'a> Builder<'a> {
    /// Adds the functions of a batch, which is empty then. `general` adds one whose FDE starts at an
    /// offset the general way.
    #[inline]
    pub(super) fn push_batch(
        &mut self,
        batch: &mut Batch<'a>,
        mut general: impl FnMut(&mut Self, SectionOffset),
    ) {
        self.run_batch(batch);
        let blocks = &self.entries.blocks;
        blocks.touch(batch.ran.iter().flatten().map(|ran| ran.hash));
        let mut ran = batch.ran.iter();
        for function in &batch.functions {
            let Taken { start, size, code, at, key, remembered, .. } = function;
            let Remembered { block, num_fres } = match *remembered {
                Some(remembered) => remembered,
                None => {
                    let Some(Some(ran)) = ran.next() else {
                        general(self, *at);
                        continue;
                    };
                    let bytes = self.fres.with_behind(ran.block);
                    let blocks = &mut self.entries.blocks;
                    let block = blocks.add_block(ran.hash, bytes, ran.block.len, ran.attribute);
                    let gave = Remembered { block, num_fres: ran.num_fres };
                    // Without sharing each function has a block of its own.
                    if ran.end < u64::from(*size) && self.options.share {
                        batch.memo.remember(*key, code, ran.end, gave);
                    }
                    gave
                }
            };
            self.entries.push(start.0, *size, block, num_fres);
        }
        self.fres.clear();
        batch.functions.clear();
        batch.ran.clear();
    }

    /// Adds a function if it is of the common kind.
    #[inline]
    pub(super) fn push_common(&mut self, cie: u8, start: Address, code: &Code<'a>, size: u32) -> bool {
        let Some(ran) = self.run_common(cie, code, size) else { return false };
        let (bytes, len) = (self.fres.with_behind(ran.block), ran.block.len);
        let blocks = &mut self.entries.blocks;
        if !blocks.has_room(len) {
            return false;
        }
        let block = blocks.add_block(blocks.hash(bytes, len), bytes, len, ran.attribute);
        self.entries.push(start.0, size, block, ran.num_fres);
        true
    }

    /// Finds or makes the FREs of the functions of a batch.
    #[inline(always)]
    fn run_batch(&mut self, batch: &mut Batch<'a>) {
        let mut missing = [0; GROUP];
        let mut count = 0;
        for (number, function) in batch.functions.iter_mut().enumerate() {
            let Taken { size, code, key, .. } = function;
            function.remembered = batch.memo.find(*key, code, *size);
            missing[count % GROUP] = number;
            count += usize::from(function.remembered.is_none());
        }
        let has_room = self.entries.blocks.has_room(BUFFER);
        for &number in &missing[..count] {
            let Taken { size, cie, code, .. } = &batch.functions[number];
            let ran = if has_room { self.run_common(*cie, code, *size) } else { None };
            if ran.is_some() {
                self.fres.keep();
            }
            batch.ran.push(ran);
        }
        for ran in batch.ran.iter_mut().flatten() {
            ran.hash = self.entries.blocks.hash(self.fres.with_behind(ran.block), ran.block.len);
        }
    }

    /// Puts the FREs of a function into the buffer if it is of the common kind.
    #[inline(always)]
    fn run_common(&mut self, cie: u8, code: &Code<'a>, size: u32) -> Option<Ran> {
        if size == 0 {
            return None;
        }
        let common = self.cies.common(cie)?;
        let end = self.common.run(common, code, size, &mut self.fres)?;
        let attribute = self.entries.blocks.begin_block(&mut self.fres, common.info, FdeType::Default, 0);
        let block = self.fres.block(self.options.version);
        Some(Ran { block, hash: 0, num_fres: self.fres.count(), attribute, end })
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
                if let Err(unsupported) = general.push_rows(&function, function.size as u32) {
                    refused.push(LeftOut::Unsupported(unsupported));
                }
            }
            assert_eq!(left_out, refused, "seed {seed}");
            let bytes = |builder: Builder<'_>| builder.finish().into_bytes(Address(0), |start| start);
            assert_eq!(bytes(common), bytes(general), "seed {seed}");
        }
    }
}
