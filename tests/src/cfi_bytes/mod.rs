//! Random call frame information as bytes: every opcode that gimli knows, every pointer encoding, 32- and 64-bit
//! lengths, several CIEs of several versions, padding, FDEs out of order and terminators between.
//!
//! It is well-formed (gimli reads all of it), and most of it can be said in a table.

mod instructions;

use std::ops::Range;

use cfipack_format::{Arch, Endian};

use crate::random::Random;

/// A generated section.
#[derive(Clone, Debug)]
pub struct CfiBytes {
    /// `.debug_frame` rather than `.eh_frame`.
    pub debug_frame: bool,
    /// The architecture.
    pub arch: Arch,
    /// The section's bytes.
    pub bytes: Vec<u8>,
    /// Where the section lies.
    pub address: u64,
    /// The base of text-relative pointers.
    pub text: u64,
    /// The base of data-relative pointers.
    pub data: u64,
    /// The functions' addresses, in the section's order. They do not overlap.
    pub functions: Vec<Range<u64>>,
}

/// What an FDE must know of its CIE.
#[derive(Clone, Copy, Debug)]
struct Cie {
    offset: usize,
    /// Of the pointers in its FDEs, and of the operand of `DW_CFA_set_loc`.
    encoding: u8,
    augmented: bool,
    with_lsda: bool,
    code_alignment: u64,
    data_alignment: i64,
}

struct Writer<'r> {
    random: &'r mut Random,
    /// Records of the one shape that compilers write, whatever their instructions.
    common: bool,
    /// `DW_CFA_set_loc` among the instructions.
    set_loc: bool,
    cfi: CfiBytes,
}

const ABSPTR: u8 = 0x00;
const PCREL_SDATA4: u8 = 0x1b;
/// Formats (low bits) that bases (high bits) combine with.
const FORMATS: [u8; 9] = [0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0x0a, 0x0b, 0x0c];
const BASES: [u8; 4] = [0x00, 0x10, 0x20, 0x30];

impl CfiBytes {
    /// A section for `count` functions.
    pub fn random(random: &mut Random, arch: Arch, count: usize) -> Self {
        Self::generate(random, arch, count, false, true)
    }

    /// The same with records in the one shape that compilers write, which every reader takes: an `.eh_frame` of
    /// 32-bit lengths, version 1, augmentation `zR` or `zRS`, 4-byte PC-relative pointers. The instructions are as
    /// wild, `DW_CFA_set_loc` among them or not.
    pub fn random_instructions(random: &mut Random, arch: Arch, count: usize, set_loc: bool) -> Self {
        Self::generate(random, arch, count, true, set_loc)
    }

    fn generate(random: &mut Random, arch: Arch, count: usize, common: bool, set_loc: bool) -> Self {
        let mut starts = Vec::new();
        let mut at: u64 = random.pick(&[0x1000, 0x40_0000]);
        for _ in 0..count {
            let size = random.pick(&[0, 1, 4, 16, 64, 200, 255, 256, 257, 1000, 65535, 65536, 70_000]);
            starts.push(at..at + size);
            at += size + random.pick(&[0, 0, 1, 16]);
        }
        if random.chance(30) {
            for i in (1..starts.len()).rev() {
                starts.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let cfi = Self {
            debug_frame: !common && random.chance(25),
            arch,
            bytes: Vec::new(),
            address: at.next_multiple_of(8) + random.pick(&[0, 0x10_0000]),
            text: 0x800,
            data: at.next_multiple_of(4096) + 0x20_0000,
            functions: starts.clone(),
        };
        let mut writer = Writer { random, common, set_loc, cfi };
        writer.section(&starts);
        writer.cfi
    }
}

impl Writer<'_> {
    fn section(&mut self, functions: &[Range<u64>]) {
        let mut cies = vec![self.cie(true)];
        for function in functions {
            if !self.common && !self.cfi.debug_frame && self.random.chance(3) {
                // A terminator; no FDE behind it refers to a CIE before it.
                self.cfi.bytes.extend([0; 4]);
                cies = vec![self.cie(true)];
            }
            if self.random.chance(20) {
                cies.push(self.cie(self.common));
            }
            let preferred = self.random.pick(&cies);
            if !self.fde(preferred, function) {
                assert!(self.fde(cies[0], function), "the first CIE of a part fits every function");
            }
        }
        if !self.cfi.debug_frame && self.random.chance(50) {
            self.cfi.bytes.extend([0; 4]);
        }
    }

    fn endian(&self) -> Endian {
        self.cfi.arch.endian()
    }

    fn put(&mut self, bytes: impl AsRef<[u8]>) {
        self.cfi.bytes.extend_from_slice(bytes.as_ref());
    }

    fn u16(&mut self, value: u16) {
        self.put(self.endian().put_u16(value));
    }

    fn u32(&mut self, value: u32) {
        self.put(self.endian().put_u32(value));
    }

    fn u64(&mut self, value: u64) {
        self.put(self.endian().put_u64(value));
    }

    fn uleb(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put([value as u8 | 0x80]);
            value >>= 7;
        }
        self.put([value as u8]);
    }

    fn sleb(&mut self, mut value: i64) {
        while !(-64..64).contains(&value) {
            self.put([value as u8 | 0x80]);
            value >>= 7;
        }
        self.put([value as u8 & 0x7f]);
    }

    /// A record: its length, what `body` writes, padding up to the length.
    fn record<T>(&mut self, body: impl FnOnce(&mut Self, bool) -> Option<T>) -> Option<T> {
        let start = self.cfi.bytes.len();
        let long = !self.common && self.random.chance(10);
        if long {
            self.u32(0xffff_ffff);
            self.u64(0);
        } else {
            self.u32(0);
        }
        let content = self.cfi.bytes.len();
        let Some(result) = body(self, long) else {
            self.cfi.bytes.truncate(start);
            return None;
        };
        let padding = self.random.pick(&[0, 3, 8]);
        let end = (self.cfi.bytes.len() + padding).next_multiple_of(4);
        self.cfi.bytes.resize(end, 0); // DW_CFA_nop
        let length = (end - content) as u64;
        let endian = self.endian();
        if long {
            self.cfi.bytes[content - 8..content].copy_from_slice(&endian.put_u64(length));
        } else {
            self.cfi.bytes[content - 4..content].copy_from_slice(&endian.put_u32(length as u32));
        }
        Some(result)
    }

    /// `plain`: with an encoding that holds every function of a small image.
    fn cie(&mut self, plain: bool) -> Cie {
        let offset = self.cfi.bytes.len();
        let debug_frame = self.cfi.debug_frame;
        let written = self.record(|w, long| {
            match (debug_frame, long) {
                (false, _) => w.u32(0), // 4 bytes even behind a 64-bit length
                (true, false) => w.u32(u32::MAX),
                (true, true) => w.u64(u64::MAX),
            }
            let version = match (debug_frame, w.common) {
                (true, _) => w.random.pick(&[1, 3, 4]),
                (false, false) => w.random.pick(&[1, 1, 3]),
                (false, true) => 1,
            };
            w.put([version]);
            let augmented = !debug_frame && (plain || w.random.chance(80));
            let with_lsda = augmented && !w.common && w.random.chance(30);
            let with_personality = augmented && !w.common && w.random.chance(30);
            let signal_frame = augmented && w.random.chance(10);
            let mut augmentation = String::new();
            for (letter, present) in [
                ('z', augmented),
                ('P', with_personality),
                ('L', with_lsda),
                ('R', augmented),
                ('S', signal_frame),
            ] {
                augmentation.extend(present.then_some(letter));
            }
            w.put(&augmentation);
            w.put([0]);
            if version == 4 {
                w.put([8, 0]); // address size, segment selector size
            }
            let code_alignment = w.random.pick(&[1, 1, 2, 4]);
            let data_alignment = w.random.pick(&[-8, -8, -8, -4, 8, -1]);
            w.uleb(code_alignment);
            w.sleb(data_alignment);
            let return_address = w.cfi.arch.return_address().0;
            w.put([return_address as u8]); // a byte in version 1, one byte of ULEB128 in the others
            let encoding = match (augmented, plain) {
                (false, _) => ABSPTR,
                (true, true) => PCREL_SDATA4,
                (true, false) => w.random.pick(&BASES) | w.random.pick(&FORMATS),
            };
            if augmented {
                let mut data = Vec::new();
                if with_personality {
                    data.extend([0x03, 1, 2, 3, 4]); // udata4
                }
                if with_lsda {
                    data.push(PCREL_SDATA4);
                }
                data.push(encoding);
                w.uleb(data.len() as u64);
                w.put(data);
            }
            let cie = Cie { offset, encoding, augmented, with_lsda, code_alignment, data_alignment };
            w.initial_instructions(&cie);
            Some(cie)
        });
        written.expect("a CIE can always be written")
    }

    /// Whether the CIE's pointer encoding can hold the function; if not, nothing is written.
    fn fde(&mut self, cie: Cie, function: &Range<u64>) -> bool {
        let debug_frame = self.cfi.debug_frame;
        let written = self.record(|w, long| {
            let here = w.cfi.bytes.len();
            match (debug_frame, long) {
                (false, _) => w.u32((here - cie.offset) as u32),
                (true, false) => w.u32(cie.offset as u32),
                (true, true) => w.u64(cie.offset as u64),
            }
            w.pointer(cie.encoding, function.start)?;
            w.pointer(cie.encoding & 0x0f, function.end - function.start)?;
            if cie.augmented {
                // An LSDA pointer of 0; else data that nobody asked for.
                let length =
                    if cie.with_lsda { 4 } else { if w.common { 0 } else { w.random.pick(&[0, 0, 0, 3]) } };
                w.uleb(length);
                w.put(&[0; 4][..length as usize]);
            }
            w.function_instructions(&cie, function);
            Some(())
        });
        written.is_some()
    }

    /// A pointer; `None` if it does not fit its encoding.
    fn pointer(&mut self, encoding: u8, value: u64) -> Option<()> {
        let base = match encoding & 0x70 {
            0x10 => self.cfi.address + self.cfi.bytes.len() as u64,
            0x20 => self.cfi.text,
            0x30 => self.cfi.data,
            _ => 0,
        };
        let distance = value.wrapping_sub(base);
        let signed = distance as i64;
        match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.u64(distance),
            0x01 => self.uleb(distance),
            0x09 => self.sleb(signed),
            0x02 => self.u16(distance.try_into().ok()?),
            0x03 => self.u32(distance.try_into().ok()?),
            0x0a => self.u16(i16::try_from(signed).ok()? as u16),
            _ => self.u32(i32::try_from(signed).ok()? as u32),
        }
        Some(())
    }
}
