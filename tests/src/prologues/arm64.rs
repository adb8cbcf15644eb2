//! Makes functions of arm64.

use cfipack_cfi::write::leb128;
use cfipack_testkit::random::Random;

use super::Writer;

const NOP: [u8; 4] = 0xd503_201f_u32.to_le_bytes();
const BL: [u8; 4] = 0x9400_0001_u32.to_le_bytes();
const B: [u8; 4] = 0x1400_0001_u32.to_le_bytes();

impl Writer {
    pub(super) fn arm64(&mut self, random: &mut Random) {
        let mut size = 16 * random.below(200);
        let framed = random.chance(70);
        let firsts = [19, 21, 23, 25, 27, 72, 74, 76, 78];
        let pairs: Vec<u8> = firsts.into_iter().filter(|_| framed && random.chance(50)).collect();
        if framed {
            size += 16 + 16 * pairs.len() as u64;
        } else if random.chance(10) {
            size += 8 * random.pick(&[1, 20_001]);
            self.obstacles.push("stack-size");
        }
        if random.chance(5) {
            self.code.extend(BL);
            if size != 0 {
                self.obstacles.push("call-outside-body");
            }
        }
        if size != 0 {
            self.code.extend(NOP);
            self.cfa_offset(size);
        }
        if framed {
            (0..=pairs.len()).for_each(|_| self.code.extend(NOP));
            self.advance();
            self.cfi.extend([0x0c, 29, 16]);
            self.offset(30, 8);
            self.offset(29, 16);
            let hole = random.chance(10);
            let mut place = if hole { 24 } else { 16 };
            let swapped = random.chance(5);
            for first in &pairs {
                let (one, other) = if swapped { (first + 1, *first) } else { (*first, first + 1) };
                self.offset(one, place + 8);
                self.offset(other, place + 16);
                place += 16;
            }
            if (hole || swapped) && !pairs.is_empty() {
                self.obstacles.push("saved-place");
            }
        }
        self.arm64_body(random);
        for _ in 0..random.below(4) {
            self.cfi.push(0x0a);
            if size != 0 && random.chance(20) {
                let left = if framed { size } else { 8 * random.below(size / 8) };
                self.arm64_merged_epilogue(random, left);
                continue;
            }
            if framed {
                self.code.extend(NOP);
                self.advance();
                self.cfi.extend([0x0c, 31]);
                leb128::unsigned(&mut self.cfi, size);
            }
            self.code.extend(NOP);
            self.advance();
            self.cfi.extend([0x0e, 0]);
            if framed {
                self.cfi.extend([0xc0 | 29, 0xc0 | 30]);
            }
            self.code.extend(0xd65f_03c0_u32.to_le_bytes());
            self.advance();
            self.cfi.push(0x0b);
            self.arm64_body(random);
        }
    }

    /// Writes an epilogue whose end LLVM has merged with another one: a row with a stack of `left` bytes, up to a
    /// branch into the other epilogue, then the body's row again.
    fn arm64_merged_epilogue(&mut self, random: &mut Random, left: u64) {
        self.advance();
        self.cfi.extend([0x0c, 31]);
        leb128::unsigned(&mut self.cfi, left);
        if random.chance(10) {
            self.code.extend(BL);
            self.obstacles.push("call-outside-body");
        }
        (0..random.below(3)).for_each(|_| self.code.extend(NOP));
        self.code.extend(B);
        self.advance();
        self.cfi.push(0x0b);
        self.arm64_body(random);
    }

    fn arm64_body(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(8) {
            self.code.extend(random.pick(&[NOP, BL]));
        }
        self.code.extend(BL);
    }
}
