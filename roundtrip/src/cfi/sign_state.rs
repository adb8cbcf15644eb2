//! Rewrites `DW_CFA_AARCH64_set_ra_state`, which gimli 0.34 does not know.
//!
//! The instruction sets the state of the return address's signature: 0 is not signed, 1 is signed with the stack
//! pointer. It takes at least three bytes, and other instructions for the state fit into them. In an FDE,
//! `DW_CFA_restore_extended` goes back to the CIE's state, and `DW_CFA_AARCH64_negate_ra_state` makes the other state
//! of it. `DW_CFA_nop` fills the rest. An instruction with another state stays, and gimli refuses its function.

use gimli::{AArch64, EndianSlice, Endianity, LittleEndian, Reader as _, UnwindOffset, UnwindSection};

use super::about::About;
use super::cies::Cies;
use super::program::Head;
use super::record::{Record, record_at, records};
use super::source::{Cie, Reader, Visit};

/// The opcode of `DW_CFA_AARCH64_set_ra_state`.
pub(super) const SET_RA_STATE: u8 = 0x2b;
const NEGATE_RA_STATE: u8 = 0x2d;
const NOP: u8 = 0x00;
const RESTORE_EXTENDED: u8 = 0x06;
/// The pseudo register for the state.
const STATE: u8 = AArch64::RA_SIGN_STATE.0 as u8;

/// Bytes to write at an offset of the section.
pub(super) type Patch = (usize, Vec<u8>);

/// Finds the instructions, and the bytes to write over them.
pub(super) struct SignStates;

impl<'f> Visit<'f> for SignStates {
    type Output = Vec<Patch>;

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        section: S,
        about: About<'f>,
    ) -> Vec<Patch> {
        let (mut patches, mut cies) = (Vec::new(), Cies::new());
        for record in records(about.section) {
            let Some(body) = about.bytes.get(record.body..record.end) else { continue };
            if !body.contains(&SET_RA_STATE) {
                continue;
            }
            let cie = if record.is_cie {
                record.offset.into()
            } else {
                let fde = section.partial_fde_from_offset(&about.bases, record.offset.into());
                let Ok(fde) = fde else { continue };
                fde.cie_offset()
            };
            let state = cies.at(UnwindOffset::into(cie), || {
                CieState::read(&section.cie_from_offset(&about.bases, cie).ok()?, &about)
            });
            let Some(state) = state else { continue };
            if record.is_cie {
                patches.extend_from_slice(&state.patches);
            } else if let Some(instructions) = state.head.instructions(body) {
                patches.extend(state.patches_of_fde(&record, instructions));
            }
        }
        patches
    }
}

/// The state of the signature after the instructions of a CIE.
struct CieState {
    head: Head,
    is_signed: bool,
    /// The bytes to write over instructions of the CIE itself.
    patches: Vec<Patch>,
}

impl CieState {
    /// Reads a CIE. Returns `None` if another instruction than those for the state may change it.
    fn read<E: Endianity>(cie: &Cie<'_, E>, about: &About<'_>) -> Option<Self> {
        let record = record_at(about.section, cie.offset())??;
        let body = about.bytes.get(record.body..record.end)?;
        let instructions = instructions_of_cie(body)?;
        let mut state = Self { head: Head::of_fdes(cie, about)?, is_signed: false, patches: Vec::new() };
        for (at, instruction) in split(instructions) {
            match *instruction {
                [SET_RA_STATE, wanted @ (0 | 1), ..] => {
                    let is_wanted = state.is_signed == (wanted != 0);
                    let first = if is_wanted { NOP } else { NEGATE_RA_STATE };
                    state.is_signed = wanted != 0;
                    let at = record.end - instructions.len() + at;
                    state.patches.push(filled(at, &[first], instruction));
                }
                [NEGATE_RA_STATE] => state.is_signed = !state.is_signed,
                // Instructions that remember and restore states, and rules for the pseudo register.
                [0x0a | 0x0b] | [0x05..=0x09 | 0x10 | 0x11 | 0x14..=0x16, STATE, ..] => return None,
                [first, ..] if matches!(first, 0x80.. if first & 0x3f == STATE) => return None,
                _ => {}
            }
        }
        Some(state)
    }

    /// Returns the bytes to write over instructions of an FDE.
    fn patches_of_fde(&self, record: &Record, instructions: &[u8]) -> Vec<Patch> {
        let mut patches = Vec::new();
        for (at, instruction) in split(instructions) {
            if let [SET_RA_STATE, wanted @ (0 | 1), ..] = *instruction {
                let last = if (wanted != 0) == self.is_signed { NOP } else { NEGATE_RA_STATE };
                let at = record.end - instructions.len() + at;
                patches.push(filled(at, &[RESTORE_EXTENDED, STATE, last], instruction));
            }
        }
        patches
    }
}

/// Returns a patch that replaces an instruction by shorter ones.
fn filled(at: usize, bytes: &[u8], instruction: &[u8]) -> Patch {
    let mut bytes = bytes.to_vec();
    bytes.resize(instruction.len(), NOP);
    (at, bytes)
}

/// Returns the instructions of a CIE from its bytes after the CIE pointer.
fn instructions_of_cie(body: &[u8]) -> Option<&[u8]> {
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
fn split(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
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
        0x00 | 0x0a | 0x0b | NEGATE_RA_STATE | 0x40..=0x7f | 0xc0.. => (0, 0, false),
        0x02 => (1, 0, false),
        0x03 => (2, 0, false),
        0x04 => (4, 0, false),
        RESTORE_EXTENDED..=0x08 | 0x0d | 0x0e | 0x13 | 0x2e | 0x80..=0xbf => (0, 1, false),
        0x05 | 0x09 | 0x0c | 0x11 | 0x12 | 0x14 | 0x15 | SET_RA_STATE => (0, 2, false),
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
