//! AArch64 instructions: text, and what they do to the stack pointer and the frame pointer.
//!
//! Source: Arm Architecture Reference Manual for A-profile, DDI 0487, chapter C4 (encodings).

use cfipack_format::{Address, Register};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

use super::decoded::{Decoded, Text};
use super::effect::{Change, Effect, Flow};

const STACK: Register = Register(31);

/// The bits of x0 to x18 and x30, which a call may change (AAPCS64).
const CALL_CHANGES: u32 = 0x4007_ffff;

/// The instruction of these four bytes, little endian as on every AArch64; `pc` is its address.
pub fn decode(bytes: [u8; 4], pc: Address, is_relocated: bool) -> Decoded {
    let word = u32::from_le_bytes(bytes);
    let (flow, target) = flow(word, pc, is_relocated);
    let text = match InstDecoder::default().decode(&mut U8Reader::new(&bytes)) {
        Ok(instruction) => {
            let text = instruction.to_string();
            match target {
                // The disassembler's operand is relative; it is the last one.
                Some(target) => {
                    let end = text.rfind('$').unwrap_or(text.len());
                    Text::Branch(text[..end].trim_end().to_string(), (!is_relocated).then_some(target))
                }
                None => Text::Plain(text),
            }
        }
        Err(_) => Text::Plain(format!(".word {word:#010x}")),
    };
    let effect =
        if flow == Flow::Call { Effect { changes: Vec::new(), writes: CALL_CHANGES } } else { effect(word) };
    // `nop`, and zeros.
    let is_padding = word == 0xd503_201f || word == 0;
    Decoded { len: 4, text, flow, effect, is_padding }
}

/// Finds where execution continues, and the target of a direct branch or call.
fn flow(word: u32, pc: Address, is_relocated: bool) -> (Flow, Option<Address>) {
    let field = |low: u32, bits: u32| {
        let value = i64::from((word >> low) & ((1 << bits) - 1));
        pc.offset(((value << (64 - bits)) >> (64 - bits)) * 4)
    };
    let known = |target| (!is_relocated).then_some(target);
    if word & 0xfc00_0000 == 0x1400_0000 {
        let target = field(0, 26);
        return (Flow::Jump(known(target)), Some(target));
    }
    if word & 0xfc00_0000 == 0x9400_0000 {
        return (Flow::Call, Some(field(0, 26)));
    }
    // b.cond and bc.cond, cbz and cbnz.
    if word & 0xff00_0000 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
        let target = field(5, 19);
        return (Flow::Branch(known(target)), Some(target));
    }
    // tbz and tbnz.
    if word & 0x7e00_0000 == 0x3600_0000 {
        let target = field(5, 14);
        return (Flow::Branch(known(target)), Some(target));
    }
    // By a register: br, blr, ret, eret, and those that authenticate.
    if word & 0xfe00_0000 == 0xd600_0000 {
        return match (word >> 21) & 0b111 {
            0 => (Flow::Jump(None), None),
            1 => (Flow::Call, None),
            _ => (Flow::Return, None),
        };
    }
    // brk, hlt, udf.
    let is_stop =
        word & 0xffe0_001f == 0xd420_0000 || word & 0xffe0_001f == 0xd440_0000 || word & 0xffff_0000 == 0;
    (if is_stop { Flow::Stop } else { Flow::Next }, None)
}

fn effect(word: u32) -> Effect {
    let register = |low: u32| Register((word >> low & 31) as u16);
    let (destination, base) = (register(0), register(5));
    let of = |changes| Effect { changes, writes: 0 };
    // add and sub, immediate, 64 bits, without flags: 31 is the stack pointer.
    if word & 0xbf80_0000 == 0x9100_0000 {
        let immediate = i64::from(word >> 10 & 0xfff) << if word & 1 << 22 != 0 { 12 } else { 0 };
        let add = if word & 1 << 30 != 0 { -immediate } else { immediate };
        return of(vec![Change::Set { register: destination, base, add }]);
    }
    // mov between registers; 31 is zero.
    if word & 0xffe0_ffe0 == 0xaa00_03e0 {
        let source = register(16);
        return match (destination, source) {
            (STACK, _) => Effect::default(),
            (_, STACK) => Effect { changes: Vec::new(), writes: 1 << destination.0 },
            _ => of(vec![Change::Set { register: destination, base: source, add: 0 }]),
        };
    }
    // add and sub of an extended register; and, orr and eor with an immediate; addvl and addpl: these may write the
    // stack pointer.
    let is_other_stack = word & 0xbfe0_0000 == 0x8b20_0000
        || (word & 0x9f80_0000 == 0x9200_0000 && word & 0x6000_0000 != 0x6000_0000)
        || word & 0xffa0_f800 == 0x0420_5000;
    if is_other_stack {
        return Effect { changes: Vec::new(), writes: 1 << destination.0 };
    }
    if word & 0x3a00_0000 == 0x2800_0000 {
        return of(pair(word));
    }
    if word & 0x3b00_0000 == 0x3900_0000 || word & 0x3b20_0000 == 0x3800_0000 {
        return of(single(word));
    }
    // ld1 to ld4, st1 to st4 and their relatives with an index after the access.
    if word & 0xbfa0_0000 == 0x0c80_0000 || word & 0xbf80_0000 == 0x0d80_0000 {
        return match register(16) {
            STACK => of(vec![Change::Set { register: base, base, add: structures(word) }]),
            _ => Effect { changes: Vec::new(), writes: 1 << base.0 },
        };
    }
    Effect::default()
}

/// Bytes that an access to SIMD structures transfers, whole registers or one element of each.
fn structures(word: u32) -> i64 {
    let (is_whole, is_long) = (word & 1 << 24 == 0, word & 1 << 30 != 0);
    if is_whole {
        let registers = match word >> 12 & 15 {
            0b0000 | 0b0010 => 4,
            0b0100 | 0b0110 => 3,
            0b1000 | 0b1010 => 2,
            _ => 1,
        };
        return registers * if is_long { 16 } else { 8 };
    }
    let elements = 1 + i64::from(word >> 12 & 2 | word >> 21 & 1);
    let size = word >> 10 & 3;
    elements
        * match word >> 14 & 3 {
            0 => 1,
            1 => 2,
            2 => 4 << (size & 1),
            _ => 1 << size,
        }
}

/// ldp and stp with their relatives: with an index before or after the access, or an offset.
fn pair(word: u32) -> Vec<Change> {
    let base = Register((word >> 5 & 31) as u16);
    let (size, is_vector, is_load) = (word >> 30, word & 1 << 26 != 0, word & 1 << 22 != 0);
    let scale = match (is_vector, size, is_load) {
        (true, size, _) => 4 << size.min(2),
        (false, 0, _) | (false, 1, true) => 4,
        (false, 1, false) => 16,
        _ => 8,
    };
    let immediate = i64::from(((word << 10) as i32) >> 25) * scale;
    let is_whole = !is_vector && size == 2;
    let registers = [word & 31, word >> 10 & 31].map(|number| Register(number as u16));
    let loaded = registers
        .into_iter()
        .zip([0, scale])
        .filter(|(register, _)| is_load && is_whole && *register != STACK);
    indexed(word >> 23 & 3, base, immediate, loaded, [1, 3])
}

/// ldr and str with an unsigned or a signed offset, or an index before or after the access.
fn single(word: u32) -> Vec<Change> {
    let base = Register((word >> 5 & 31) as u16);
    let register = Register((word & 31) as u16);
    let is_whole_load = word & 0xffc0_0000 == 0xf840_0000 || word & 0xffc0_0000 == 0xf940_0000;
    let loaded = (is_whole_load && register != STACK).then_some((register, 0)).into_iter();
    if word & 1 << 24 != 0 {
        return indexed(2, base, i64::from(word >> 10 & 0xfff) * 8, loaded, [1, 3]);
    }
    let immediate = i64::from(((word << 11) as i32) >> 23);
    indexed(word >> 10 & 3, base, immediate, loaded, [1, 3])
}

/// The loads of an access and the change of its base; `[after, before]` are the modes that change it.
fn indexed(
    mode: u32,
    base: Register,
    immediate: i64,
    loaded: impl Iterator<Item = (Register, i64)>,
    [after, before]: [u32; 2],
) -> Vec<Change> {
    let start = if mode == after { 0 } else { immediate };
    let load = |(register, offset): (Register, i64)| Change::Load { register, base, offset: start + offset };
    let mut changes: Vec<_> = loaded.filter(|(register, _)| *register != base).map(load).collect();
    if mode == after || mode == before {
        changes.push(Change::Set { register: base, base, add: immediate });
    }
    changes
}
