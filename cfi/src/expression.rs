//! DWARF expressions that a row can represent (DWARF 5, section 2.5).

use cfipack_format::{Arch, Endian, Register};

use crate::cursor::Cursor;

const DEREF: u8 = 0x06;
const LIT0: u8 = 0x30;
const BREG0: u8 = 0x70;
const BREGX: u8 = 0x92;

/// An expression that [`simple`] recognises: `register + offset`, with or without a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BaseOffset {
    pub(crate) register: Register,
    pub(crate) offset: i64,
    pub(crate) deref: bool,
}

/// Recognises `breg offset [deref]`.
pub(crate) fn simple(expression: &[u8]) -> Option<BaseOffset> {
    // LEB128 has no byte order.
    let mut cursor = Cursor::new(expression, Endian::Little);
    let register = match cursor.u8()? {
        operation @ BREG0..=0x8f => u16::from(operation - BREG0),
        BREGX => u16::try_from(cursor.uleb()?).ok()?,
        _ => return None,
    };
    let offset = cursor.sleb()?;
    let deref = match cursor.rest() {
        [] => false,
        [DEREF] => true,
        _ => return None,
    };
    Some(BaseOffset { register: Register(register), offset, deref })
}

/// Returns the value of an expression that is a single constant (`DW_OP_lit0` to `DW_OP_consts`).
pub(crate) fn constant(expression: &[u8], endian: Endian) -> Option<u64> {
    let mut cursor = Cursor::new(expression, endian);
    let value = match cursor.u8()? {
        0x08 => cursor.u8()?.into(),
        0x09 => i64::from(cursor.u8()? as i8) as u64,
        0x0a => cursor.u16()?.into(),
        0x0b => i64::from(cursor.u16()? as i16) as u64,
        0x0c => cursor.u32()?.into(),
        0x0d => i64::from(cursor.u32()? as i32) as u64,
        0x0e | 0x0f => cursor.u64()?,
        0x10 => cursor.uleb()?,
        0x11 => cursor.sleb()? as u64,
        literal @ LIT0..=0x4f => (literal - LIT0).into(),
        _ => return None,
    };
    cursor.rest().is_empty().then_some(value)
}

/// The CFA in a PLT of x86-64. Each stub has 16 bytes and pushes a word.
///
/// The expression is `rsp + offset + ((rip & 15) >= threshold) * 8`. Linkers write it as `breg7 offset, breg16
/// 0, lit15, and, lit(threshold), ge, lit3, shl, plus`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StubCfa {
    /// The CFA's offset from rsp before the push, in bytes.
    pub offset: i64,
    /// The offset in the stub after the push, 1 to 15.
    pub threshold: u8,
}

impl StubCfa {
    /// The size of a stub in bytes. The expression repeats after this many bytes.
    pub const SIZE: u8 = 16;
    /// The size of the pushed word in bytes.
    pub const PUSHED: i64 = 8;

    /// Recognises the expression. Returns `None` on other architectures than x86-64, where registers 7 and 16
    /// are rsp and rip.
    pub fn recognise(arch: Arch, expression: &[u8]) -> Option<Self> {
        match arch {
            Arch::Amd64 => {}
            Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => {
                return None;
            }
        }
        let mut cursor = Cursor::new(expression, Endian::Little);
        if cursor.u8()? != BREG0 + 7 {
            return None;
        }
        let offset = cursor.sleb()?;
        // breg16 0, lit15, and, lit(threshold), ge, lit3, shl, plus
        match *cursor.rest() {
            [0x80, 0, 0x3f, 0x1a, literal @ 0x31..=0x3f, 0x2a, 0x33, 0x24, 0x22] => {
                Some(Self { offset, threshold: literal - 0x30 })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_what_ld_writes_for_a_lazy_plt() {
        // readelf --debug-dump=frames of ld 2.47's output:
        // DW_OP_breg7 (rsp): 8; DW_OP_breg16 (rip): 0; DW_OP_lit15; DW_OP_and; DW_OP_lit11; DW_OP_ge;
        // DW_OP_lit3; DW_OP_shl; DW_OP_plus
        let expression = [0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        let recognise = |expression| StubCfa::recognise(Arch::Amd64, expression);
        assert_eq!(recognise(&expression), Some(StubCfa { offset: 8, threshold: 11 }));
        assert_eq!(recognise(&expression[..10]), None);
        assert_eq!(StubCfa::recognise(Arch::Aarch64, &expression), None);
        assert_eq!(simple(&expression), None);
    }

    #[test]
    fn recognises_base_and_offset() {
        let rsp = Register(7);
        assert_eq!(simple(&[0x77, 0x28]), Some(BaseOffset { register: rsp, offset: 40, deref: false }));
        let signal_frame = [0x77, 0xa0, 0x01, 0x06];
        assert_eq!(simple(&signal_frame), Some(BaseOffset { register: rsp, offset: 160, deref: true }));
        // `*(rsp + 8) + 8`: a row cannot represent the sum after the load.
        assert_eq!(simple(&[0x77, 8, 0x06, 0x23, 8]), None);
    }
}
