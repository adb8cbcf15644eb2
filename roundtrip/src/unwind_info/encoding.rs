//! Checks the rules for a single encoding, with the code of its function.

use cfipack_decoder::compact_unwind::row;
use cfipack_format::compact_unwind::{Encoding, Flags, Mode};
use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Cfa, Family, Row, Rule, Saved};

use super::Fault;

/// Returns the rules that an encoding breaks. `code` starts at the function's start.
pub(super) fn check(arch: Arch, code: &[u8], encoding: Encoding) -> impl Iterator<Item = Fault> + use<> {
    let of_mode = match (arch.family(), encoding.mode(arch)) {
        (Family::X86, Some(Mode::FramelessIndirect)) if !has_immediate(arch, code, encoding) => {
            Some(Fault::NoImmediate(encoding))
        }
        (Family::X86, Some(Mode::Frame)) if !is_below_frame_pointer(encoding) => {
            Some(Fault::FrameSlot(encoding))
        }
        (Family::Aarch64, Some(Mode::Frameless)) if !encoding.pairs().is_empty() => {
            Some(Fault::FramelessPairs(encoding))
        }
        (Family::Aarch64, Some(Mode::FramePauthLr)) if !is_signed_there(code, encoding) => {
            Some(Fault::NoSigning(encoding))
        }
        (Family::X86 | Family::Aarch64 | Family::S390x | Family::Riscv, _) => None,
    };
    let of_meaning = match row(encoding, arch, code) {
        Err(error) => Some(Fault::Encoding(error)),
        Ok(Some((row, saved))) if !has_room(arch, &row, &saved) => Some(Fault::FramelessSize(encoding)),
        Ok(_) => None,
    };
    let unused = (encoding.unused_bits(arch) != 0).then_some(Fault::UnusedBits(encoding));
    unused.into_iter().chain(of_mode).chain(of_meaning)
}

/// Returns whether the immediate belongs to a `sub $imm32, %rsp` (or `%esp`).
fn has_immediate(arch: Arch, code: &[u8], encoding: Encoding) -> bool {
    let at = usize::from(encoding.immediate_at());
    let opcode: &[u8] = if arch.pointer_size() == 4 { &[0x81, 0xec] } else { &[0x48, 0x81, 0xec] };
    code.get(..at).is_some_and(|before| before.ends_with(opcode)) && code.len() >= at + 4
}

/// Returns whether the code signs the return address where the encoding says (arm64). In an entry inside a function, the
/// distance does not lead into the entry's own code.
fn is_signed_there(code: &[u8], encoding: Encoding) -> bool {
    let word = code.get(encoding.signing_at().to_usize()..).and_then(<[u8]>::first_chunk);
    encoding.flags().contains(Flags::NOT_FUNCTION_START)
        || word.is_some_and(|word| SIGNING.contains(&u32::from_le_bytes(*word)))
}

/// `paciasp`, `pacibsp`, and `paciasppc`, `pacibsppc`, `pacnbiasppc` and `pacnbibsppc` (Arm ARM, C6.2).
const SIGNING: [u32; 6] = [0xd503_233f, 0xd503_237f, 0xdac1_a3fe, 0xdac1_a7fe, 0xdac1_83fe, 0xdac1_87fe];

/// Returns whether every saved register has a slot below the saved frame pointer (x86).
fn is_below_frame_pointer(encoding: Encoding) -> bool {
    let highest = encoding.frame_slots().iter().rposition(|&register| register != 0);
    highest.is_none_or(|slot| slot < usize::from(encoding.frame_offset()))
}

/// Returns whether the stack has room for the return address and the saved registers. This matters only for x86 without
/// a frame pointer.
fn has_room(arch: Arch, row: &Row, saved: &Saved) -> bool {
    let (Cfa::Register { register, offset: size }, Rule::Cfa(return_address)) = (row.cfa, row.return_address)
    else {
        return true;
    };
    let frame_pointer = match row.frame_pointer {
        Rule::Cfa(offset) => offset,
        _ => 0,
    };
    let saved = saved.as_slice().iter().map(|slot| i64::from(slot.1));
    let lowest = saved.fold(return_address.min(frame_pointer), i64::min);
    register != arch.stack_pointer() || lowest >= -size
}
