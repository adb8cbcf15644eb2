//! The bytes of call frame instructions, and other bytes for instructions that gimli 0.34 refuses.

use std::collections::HashSet;

use cfipack_format::Endian;
use gimli::{EndianSlice, LittleEndian, Reader as _};

pub(super) const NOP: u8 = 0x00;
pub(super) const RESTORE_EXTENDED: u8 = 0x06;
/// `DW_CFA_MIPS_advance_loc8`.
pub(super) const ADVANCE_LOC8: u8 = 0x1d;
/// `DW_CFA_GNU_negative_offset_extended`.
pub(super) const NEGATIVE_OFFSET: u8 = 0x2f;
/// `DW_CFA_AARCH64_set_ra_state`.
pub(super) const SET_RA_STATE: u8 = 0x2b;
/// `DW_CFA_AARCH64_negate_ra_state_with_pc`.
pub(super) const NEGATE_RA_STATE_WITH_PC: u8 = 0x2c;
/// `DW_CFA_AARCH64_negate_ra_state`.
pub(super) const NEGATE_RA_STATE: u8 = 0x2d;

/// Bytes to write at an offset of the section.
pub(super) type Patch = (usize, Vec<u8>);

/// Returns patches that remove each `DW_CFA_restore` of a register without a rule from a CIE, whose bytes after the CIE
/// pointer are at an offset of the section.
pub(super) fn restores_of_cie(body: &[u8], offset: usize) -> Vec<Patch> {
    let (mut patches, mut ruled) = (Vec::new(), HashSet::new());
    let Some(instructions) = instructions_of_cie(body) else { return patches };
    for (at, instruction) in split(instructions) {
        let named = register(instruction);
        match instruction[0] {
            NOP | 0x0c..=0x0f | 0x12 | 0x13 => {}
            RESTORE_EXTENDED | 0xc0.. if !ruled.contains(&named) => {
                patches.push(filled(offset + body.len() - instructions.len() + at, &[], instruction));
            }
            0x05 | 0x07..=0x09 | 0x10 | 0x11 | 0x14..=0x16 | 0x80..=0xbf => _ = ruled.insert(named),
            // The instruction may be about any register.
            _ => break,
        }
    }
    patches
}

/// Returns the register that an instruction other than one for the CFA gives a rule, or restores.
pub(super) fn register(instruction: &[u8]) -> Option<u64> {
    match *instruction {
        [first @ 0x80..=0xff, ..] => Some((first & 0x3f).into()),
        [0x05..=0x09 | 0x10 | 0x11 | 0x14..=0x16, ref operands @ ..] => {
            EndianSlice::new(operands, LittleEndian).read_uleb128().ok()
        }
        _ => None,
    }
}

/// Returns a patch that replaces an instruction by shorter ones.
pub(super) fn filled(at: usize, bytes: &[u8], instruction: &[u8]) -> Patch {
    let mut bytes = bytes.to_vec();
    bytes.resize(instruction.len(), NOP);
    (at, bytes)
}

/// Returns the bytes of an instruction of DWARF that means the same as one that DWARF does not define, and is not longer.
pub(super) fn in_dwarf(instruction: &[u8], endian: Endian) -> Option<Vec<u8>> {
    match *instruction {
        [ADVANCE_LOC8, ref delta @ ..] => {
            let (zeros, delta) = match endian {
                Endian::Little => (delta.get(4..)?, &delta[..4]),
                Endian::Big => (&delta[..4], delta.get(4..)?),
            };
            // `DW_CFA_advance_loc4`
            (zeros == [0; 4]).then(|| [&[0x04], delta].concat())
        }
        [NEGATIVE_OFFSET, ref operands @ ..] => {
            let mut rest = EndianSlice::new(operands, LittleEndian);
            rest.skip_leb128().ok()?;
            let (register, offset) = operands.split_at(operands.len() - rest.len());
            let (negated, bits) = (i128::from(rest.read_uleb128().ok()?).wrapping_neg(), 7 * offset.len());
            // `DW_CFA_offset_extended_sf`, whose operand has the same number of bytes.
            let mut sf = [&[0x11], register].concat();
            sf.extend((0..bits).step_by(7).map(|shift| (negated >> shift) as u8 & 0x7f | 0x80));
            *sf.last_mut()? &= 0x7f;
            (negated >> (bits - 1) == -1 || negated == 0).then_some(sf)
        }
        _ => None,
    }
}

/// Returns the instructions of a CIE from its bytes after the CIE pointer.
pub(super) fn instructions_of_cie(body: &[u8]) -> Option<&[u8]> {
    let mut rest = EndianSlice::new(body, LittleEndian);
    let version = rest.read_u8().ok()?;
    let augmentation = rest.read_null_terminated_slice().ok()?;
    if version == 4 {
        rest.skip(2).ok()?;
    }
    rest.skip_leb128().ok()?;
    rest.skip_leb128().ok()?;
    if version == 1 {
        rest.skip(1).ok()?;
    } else {
        rest.skip_leb128().ok()?;
    }
    if augmentation.first() == Some(&b'z') {
        let length = rest.read_uleb128().ok()?;
        rest.skip(usize::try_from(length).ok()?).ok()?;
    }
    Some(rest.slice())
}

/// Splits bytes into instructions with their offsets, up to an instruction of unknown length. `DW_CFA_set_loc` counts
/// as unknown: compilers do not write it.
pub(super) fn split(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let found = (at, rest.get(..instruction_len(rest).ok()?)?);
        at += found.1.len();
        Some(found)
    })
}

/// Returns the length of the first instruction (DWARF 5, section 7.24).
fn instruction_len(bytes: &[u8]) -> gimli::Result<usize> {
    let mut rest = EndianSlice::new(bytes, LittleEndian);
    let (fixed, numbers, has_block) = match rest.read_u8()? {
        0x00 | 0x0a | 0x0b | NEGATE_RA_STATE_WITH_PC | NEGATE_RA_STATE | 0x40..=0x7f | 0xc0.. => {
            (0, 0, false)
        }
        0x02 => (1, 0, false),
        0x03 => (2, 0, false),
        0x04 => (4, 0, false),
        ADVANCE_LOC8 => (8, 0, false),
        RESTORE_EXTENDED..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e | 0x80..=0xbf => (0, 1, false),
        0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | SET_RA_STATE | NEGATIVE_OFFSET => (0, 2, false),
        0x0f => (0, 0, true),
        0x10 | 0x16 => (0, 1, true),
        other => return Err(gimli::Error::UnknownCallFrameInstruction(gimli::DwCfa(other))),
    };
    rest.skip(fixed)?;
    for _ in 0..numbers {
        rest.skip_leb128()?;
    }
    if has_block {
        let length = rest.read_uleb128()?;
        rest.skip(usize::try_from(length).map_err(|_| gimli::Error::UnsupportedOffset)?)?;
    }
    Ok(bytes.len() - rest.len())
}
