//! Rewrites the instructions that other readers know and gimli 0.34 does not: two [that DWARF does not define](in_dwarf),
//! `DW_CFA_AARCH64_set_ra_state` and `DW_CFA_AARCH64_negate_ra_state_with_pc`.
//!
//! The third sets the state of the return address's signature: 0 is not signed, 1 is signed with the stack
//! pointer. It takes at least three bytes, and other instructions for the state fit into them. In an FDE,
//! `DW_CFA_restore_extended` goes back to the CIE's state, and `DW_CFA_AARCH64_negate_ra_state` makes the other state
//! of it. `DW_CFA_nop` fills the rest. An instruction with another state stays, and gimli refuses its function.
//!
//! The fourth changes the state like `DW_CFA_AARCH64_negate_ra_state`, and the signature has the address of the
//! instruction before. It is rewritten if the function has no other instruction for the state, and only one address
//! for its signature.

use cfipack_format::{Arch, Endian};
use gimli::{AArch64, Endianity, UnwindOffset, UnwindSection};

use super::about::{About, Signing};
use super::cies::Cies;
use super::program::Head;
use super::raw::{
    ADVANCE_LOC8, NEGATE_RA_STATE, NEGATE_RA_STATE_WITH_PC, NEGATIVE_OFFSET, NOP, Patch, RESTORE_EXTENDED,
    SET_RA_STATE, filled, in_dwarf, instructions_of_cie, register, split,
};
use super::record::{Record, record_at, records};
use super::source::{Cie, Reader, Visit};

/// The pseudo register for the state.
const STATE: u8 = AArch64::RA_SIGN_STATE.0 as u8;

/// Finds the instructions, and the bytes to write over them.
pub(super) struct Unknown;

impl<'f> Visit<'f> for Unknown {
    type Output = (Vec<Patch>, Vec<Signing>);

    fn visit<E: Endianity + 'f, S: UnwindSection<Reader<'f, E>> + 'f>(
        self,
        section: S,
        about: About<'f>,
    ) -> Self::Output {
        let (mut patches, mut signings, mut cies) = (Vec::new(), Vec::new(), Cies::new());
        for record in records(about.section) {
            let Some(body) = about.bytes.get(record.body..record.end) else { continue };
            let with_pc = about.section.arch.is_aarch64() && body.contains(&NEGATE_RA_STATE_WITH_PC);
            if !with_pc
                && !body.iter().any(|byte| matches!(*byte, ADVANCE_LOC8 | SET_RA_STATE | NEGATIVE_OFFSET))
            {
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
                if with_pc && let Some((offset, found)) = state.signing_of_fde(&record, instructions) {
                    signings.push(Signing { fde: record.offset, offset });
                    patches.extend(found);
                }
            }
        }
        (patches, signings)
    }
}

/// A CIE, and the state of the signature after its instructions.
struct CieState {
    head: Head,
    arch: Arch,
    is_signed: bool,
    /// The factor of advances, in bytes.
    code_alignment: u64,
    /// The bytes to write over instructions of the CIE itself.
    patches: Vec<Patch>,
}

impl CieState {
    /// Reads a CIE. Returns `None` if another instruction than those for the state may change it.
    fn read<E: Endianity>(cie: &Cie<'_, E>, about: &About<'_>) -> Option<Self> {
        let record = record_at(about.section, cie.offset())??;
        let body = about.bytes.get(record.body..record.end)?;
        let instructions = instructions_of_cie(body)?;
        let (head, arch) = (Head::of_fdes(cie, about)?, about.section.arch);
        let code_alignment = cie.code_alignment_factor();
        let mut state = Self { head, arch, is_signed: false, code_alignment, patches: Vec::new() };
        for (at, instruction) in split(instructions) {
            let at = record.end - instructions.len() + at;
            match *instruction {
                [ADVANCE_LOC8 | NEGATIVE_OFFSET, ..] => {
                    let known = in_dwarf(instruction, arch.endian());
                    state.patches.extend(known.map(|known| filled(at, &known, instruction)));
                }
                _ if !arch.is_aarch64() => {}
                [SET_RA_STATE, wanted @ (0 | 1), ..] => {
                    let is_wanted = state.is_signed == (wanted != 0);
                    let first = if is_wanted { NOP } else { NEGATE_RA_STATE };
                    state.is_signed = wanted != 0;
                    state.patches.push(filled(at, &[first], instruction));
                }
                [NEGATE_RA_STATE] => state.is_signed = !state.is_signed,
                // Instructions that remember and restore states, and rules for the pseudo register.
                [0x0a | 0x0b | NEGATE_RA_STATE_WITH_PC] => return None,
                _ if register(instruction) == Some(STATE.into()) => return None,
                _ => {}
            }
        }
        Some(state)
    }

    /// Returns the bytes to write over instructions of an FDE.
    fn patches_of_fde(&self, record: &Record, instructions: &[u8]) -> Vec<Patch> {
        let mut patches = Vec::new();
        for (at, instruction) in split(instructions) {
            let known = match *instruction {
                [SET_RA_STATE, wanted @ (0 | 1), ..] if self.arch.is_aarch64() => {
                    let last = if (wanted != 0) == self.is_signed { NOP } else { NEGATE_RA_STATE };
                    Some(vec![RESTORE_EXTENDED, STATE, last])
                }
                _ => in_dwarf(instruction, self.arch.endian()),
            };
            let at = record.end - instructions.len() + at;
            patches.extend(known.map(|known| filled(at, &known, instruction)));
        }
        patches
    }

    /// Returns the offset from the function's start of the only instruction that signs with its address, and the bytes
    /// to write over the instructions of an FDE for it.
    fn signing_of_fde(&self, record: &Record, instructions: &[u8]) -> Option<(u64, Vec<Patch>)> {
        let (mut patches, mut remembered) = (Vec::new(), Vec::new());
        let (mut location, mut signed_at, mut is_signed, mut end) = (0_u64, None, self.is_signed, 0);
        for (at, instruction) in split(instructions) {
            end = at + instruction.len();
            match *instruction {
                [first @ 0x40..=0x7f] => {
                    location =
                        location.checked_add(self.code_alignment.checked_mul((first & 0x3f).into())?)?;
                }
                [0x02..=0x04 | ADVANCE_LOC8, ref delta @ ..] => {
                    let delta = self.number(delta);
                    location = location.checked_add(self.code_alignment.checked_mul(delta)?)?;
                }
                [0x0a] => remembered.push(is_signed),
                [0x0b] => is_signed = remembered.pop()?,
                [NEGATE_RA_STATE_WITH_PC] => {
                    is_signed = !is_signed;
                    if is_signed && *signed_at.get_or_insert(location) != location {
                        return None;
                    }
                    let at = record.end - instructions.len() + at;
                    patches.push(filled(at, &[NEGATE_RA_STATE], instruction));
                }
                [SET_RA_STATE | NEGATE_RA_STATE, ..] => return None,
                _ if register(instruction) == Some(STATE.into()) => return None,
                _ => {}
            }
        }
        let offset = signed_at?.checked_sub(4).filter(|_| end == instructions.len())?;
        Some((offset, patches))
    }

    /// Reads the operand of an advance.
    fn number(&self, bytes: &[u8]) -> u64 {
        let join = |number, &byte: &u8| number << 8 | u64::from(byte);
        match self.arch.endian() {
            Endian::Little => bytes.iter().rfold(0, join),
            Endian::Big => bytes.iter().fold(0, join),
        }
    }
}
