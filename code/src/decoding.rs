//! Decodes code, instruction after instruction.

use cfipack_format::{Arch, Family};

use crate::aarch64;
use crate::instruction::{ALWAYS, Decoded, Flow, Instruction, OTHER, Op, Special};
use crate::instructions::Code;
use crate::x86::X86Decoder;

/// Returns the registers that known effects change, and the registers that they read, as bits. [`OTHER`] stands for
/// memory and signatures.
fn effects(arch: Arch, ops: &[Op], flow: Flow) -> (u64, u64) {
    let own = if let Flow::Call(_) = flow { (OTHER, ALWAYS) } else { (0, 0) };
    ops.iter().fold(own, |(bits, reads), op| (bits | op.written(), reads | op.read(arch)))
}

/// Decodes the instructions of a function in memory order.
pub(crate) struct Decoding<'c> {
    code: Code<'c>,
    /// The offsets, ascending, where an instruction starts even if the instruction before it would be longer.
    cuts: &'c [u32],
    x86: Option<X86Decoder<'c>>,
    offset: usize,
    /// True after an instruction of AArch64 that does not fall through, and barriers.
    is_blocked: bool,
}

impl<'c> Decoding<'c> {
    /// Begins at the instruction at an offset.
    pub fn new(code: Code<'c>, cuts: &'c [u32], offset: usize) -> Self {
        let mut decoding = Self { code, cuts, x86: None, offset, is_blocked: false };
        if code.arch.family() == Family::X86 && offset < code.bytes.len() {
            let mut x86 = X86Decoder::new(code.arch, code.bytes, code.start);
            x86.seek(offset);
            decoding.x86 = Some(x86);
        }
        decoding
    }

    /// Decodes the next instruction, and appends its known effects to `ops`. Whether a barrier of AArch64 is padding depends
    /// on the instructions before it, so a decoding from the middle of a function may not find that.
    #[inline(always)]
    pub fn next(&mut self, ops: &mut Vec<Op>) -> Option<Instruction> {
        let (Code { arch, start, bytes, .. }, offset) = (self.code, self.offset);
        let rest = bytes.get(offset..).filter(|rest| !rest.is_empty())?;
        let first = ops.len();
        let decoded = match (&mut self.x86, arch.family(), rest.first_chunk()) {
            (Some(x86), ..) => {
                let decoded = x86.decode(offset, |len| self.code.is_relocated(offset, len), ops);
                let cut_at = self.cuts.get(self.cuts.partition_point(|cut| *cut as usize <= offset));
                match cut_at.map(|cut| *cut as usize - offset) {
                    Some(len) if len < usize::from(decoded.len) => {
                        ops.truncate(first);
                        x86.seek(offset + len);
                        cut(&rest[..len])
                    }
                    _ => decoded,
                }
            }
            (None, Family::Aarch64, Some(word)) => {
                let is_relocated = self.code.is_relocated(offset, 4);
                let pc = start.offset(offset as i64);
                let mut decoded = aarch64::decode(*word, (arch, pc), is_relocated, ops);
                self.is_blocked &= aarch64::is_barrier(*word);
                decoded.is_padding |= self.is_blocked;
                self.is_blocked |= !decoded.flow.falls_through() && !matches!(decoded.flow, Flow::Call(_));
                decoded
            }
            (None, Family::S390x, _) => unknown(s390x_len(rest[0]).min(rest.len())),
            (None, Family::Aarch64 | Family::Riscv | Family::X86, _) => unknown(rest.len()),
        };
        let count = ops.len() - first;
        let (affected, reads) = effects(arch, &ops[first..], decoded.flow);
        self.offset += usize::from(decoded.len.max(1));
        // A function has fewer than 2^32 ops, because callers limit its size.
        Some(Instruction {
            offset: offset as u32,
            len: decoded.len,
            flow: decoded.flow,
            is_padding: decoded.is_padding,
            is_unknown: decoded.is_unknown,
            sets_flags: decoded.sets_flags,
            special: decoded.special,
            ops: (first as u32, count as u8),
            writes: decoded.writes,
            affects: decoded.writes & !OTHER | affected,
            reads,
        })
    }
}

/// Returns an instruction's length from its two highest bits. Source: z/Architecture Principles of Operation,
/// "Instruction Formats".
fn s390x_len(first: u8) -> usize {
    match first >> 6 {
        0 => 2,
        1 | 2 => 4,
        _ => 6,
    }
}

/// Returns whether these bytes are the prefix `lock`. A branch over the prefix runs the same instruction without it.
pub(crate) fn is_lock(bytes: &[u8]) -> bool {
    bytes == [0xf0]
}

/// Makes an instruction of bytes before the target of a branch. Execution does not get through them, except through
/// the prefix `lock`.
fn cut(bytes: &[u8]) -> Decoded {
    let is_lock = is_lock(bytes);
    Decoded {
        flow: if is_lock { Flow::Next } else { Flow::Stop },
        is_unknown: !is_lock,
        sets_flags: false,
        special: if is_lock { Special::No } else { Special::Cut },
        writes: 0,
        ..unknown(bytes.len())
    }
}

/// Makes an instruction of which nothing but the length is known.
fn unknown(len: usize) -> Decoded {
    Decoded {
        len: len as u8,
        flow: Flow::Next,
        is_padding: false,
        is_unknown: true,
        sets_flags: true,
        special: Special::No,
        writes: u64::MAX,
    }
}
