//! Finds the instructions of a section, and takes them apart.

use std::ops::Range;

use cfipack_format::Arch;

/// The places in a section that gas wrote: version 1, augmentations with `z` or without, pointers of four or eight
/// bytes.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The instructions of each FDE, and the padding after them.
    pub of_fdes: Vec<Range<usize>>,
    /// The instructions of each CIE, and the padding after them.
    pub of_cies: Vec<Range<usize>>,
    /// The place of the code alignment factor in each CIE. It is one byte long.
    pub code_alignments: Vec<usize>,
    /// The place of the data alignment factor in each CIE. It is one byte long.
    pub data_alignments: Vec<usize>,
}

impl Places {
    /// Finds the places. Returns `None` for a section of a form that gas does not write.
    pub fn find(bytes: &[u8], arch: Arch) -> Option<Self> {
        let mut places = Self::default();
        let mut at = 0;
        let mut pointer = 0;
        while at < bytes.len() {
            let length = arch.endian().u32(*bytes.get(at..)?.first_chunk()?) as usize;
            let (body, end) = (at + 8, at + 4 + length);
            let id = arch.endian().u32(*bytes.get(at + 4..)?.first_chunk()?);
            if length == 0 {
                at += 4;
                continue;
            }
            if id == 0 {
                let letters = bytes.get(body + 1..end)?.split(|&byte| byte == 0).next()?;
                let factors = body + 1 + letters.len() + 1;
                places.code_alignments.push(factors);
                places.data_alignments.push(factors + 1);
                let data = factors + 3;
                // R is the last letter with data in these CIEs. Its data is the last byte.
                let after = data + 1 + usize::from(bytes[data]);
                if letters.first() != Some(&b'z') || bytes[factors] >= 0x80 || bytes[factors + 1] >= 0x80 {
                    return None;
                }
                pointer = match bytes[after - 1] & 0x0f {
                    0x00 | 0x04 | 0x0c => 8,
                    0x03 | 0x0b => 4,
                    _ => return None,
                };
                places.of_cies.push(after..end);
            } else {
                let data = body + 2 * pointer;
                places.of_fdes.push(data + 1 + usize::from(*bytes.get(data)?)..end);
            }
            at = end;
        }
        Some(places)
    }
}

/// Returns the length of a LEB128 number.
fn leb128(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| byte & 0x80 == 0).expect("the end of a number") + 1
}

/// Takes instructions apart (DWARF 5, section 7.24), without padding at their end.
pub fn instructions(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    while let [opcode, operands @ ..] = bytes {
        let number = |at: usize| leb128(&operands[at..]);
        let block = |at: usize| number(at) + usize::from(operands[at]);
        let length = match opcode {
            0x80..=0xbf | 0x07 | 0x08 | 0x06 | 0x0d | 0x0e | 0x13 | 0x2e => number(0),
            0x02 => 1,
            0x03 => 2,
            0x04 => 4,
            0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 => number(0) + number(number(0)),
            0x0f => block(0),
            0x10 | 0x16 => number(0) + block(number(0)),
            0x00 | 0x0a | 0x0b | 0x2c | 0x2d | 0x40..=0x7f | 0xc0.. => 0,
            opcode => panic!("opcode {opcode:#x}"),
        };
        found.push(bytes[..1 + length].to_vec());
        bytes = &operands[length..];
    }
    while found.last().is_some_and(|last| last == &[0]) {
        found.pop();
    }
    found
}
