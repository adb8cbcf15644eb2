//! Encodes the body of a function: x86-64 and i386.

use cfipack_format::compact_unwind::{Encoding, callee_saved, encode_order};
use cfipack_format::widen::{ToU64, ToUsize};
use cfipack_format::{Arch, Cfa, Register, Rule};

use super::body::Body;
use super::step::frame_record_size;
use crate::Reason;

/// The bytes of `sub esp, imm32` (`81 EC`) before its immediate. For `sub rsp, imm32`, a REX prefix comes before
/// them.
const SUB: [u8; 2] = [0x81, 0xec];
const REX_W: u8 = 0x48;

/// Returns the size of a word in bytes.
fn word(arch: Arch) -> i64 {
    arch.pointer_size().into()
}

/// Returns a number of bytes in words, if it is a whole number of words.
fn words(arch: Arch, bytes: i64) -> Option<i64> {
    let size = arch.pointer_size();
    (bytes & (word(arch) - 1) == 0).then_some(bytes >> size.trailing_zeros())
}

/// Returns the encoding of a body. Pass in `code` the function's code, if it is known.
pub(super) fn encode(arch: Arch, body: &Body, code: Option<&[u8]>) -> Result<Encoding, Reason> {
    let registers = callee_saved(arch).ok_or(Reason::Architecture)?;
    let Cfa::Register { register, offset } = body.row.cfa else { return Err(Reason::CfaMissing) };
    if let Some(register) = body.saved.unrepresentable() {
        return Err(Reason::SavedRegister(register));
    }
    if body.row.return_address != Rule::Cfa(-word(arch)) {
        return Err(Reason::ReturnAddressRule);
    }
    if register == arch.frame_pointer() {
        frame(arch, body, registers)
    } else {
        frameless(arch, body, registers, offset, code)
    }
}

fn frame(arch: Arch, body: &Body, registers: [Register; 6]) -> Result<Encoding, Reason> {
    if body.row.frame_pointer != Rule::Cfa(-frame_record_size(arch)) {
        return Err(Reason::FrameRecord);
    }
    // For each register, how many words below the frame pointer it is saved.
    let mut below = [None; 5];
    for ((index, below), register) in below.iter_mut().enumerate().zip(registers) {
        let Some(offset) = body.saved.offset_at(index) else { continue };
        match words(arch, -frame_record_size(arch) - offset).map(u8::try_from) {
            Some(Ok(words @ 1..)) => *below = Some(words),
            _ => return Err(Reason::SavedPlace(register)),
        }
    }
    let lowest = below.iter().flatten().max().copied().unwrap_or(0);
    let mut slots = [0; 5];
    for ((number, words), register) in (1..).zip(below).zip(registers) {
        let Some(words) = words else { continue };
        match slots.get_mut(usize::from(lowest - words)) {
            Some(slot @ 0) => *slot = number,
            _ => return Err(Reason::SavedPlace(register)),
        }
    }
    Ok(Encoding::frame(lowest, slots))
}

fn frameless(
    arch: Arch,
    body: &Body,
    registers: [Register; 6],
    size: i64,
    code: Option<&[u8]>,
) -> Result<Encoding, Reason> {
    let (order, count) = order(arch, body, registers)?;
    let permutation = encode_order(&order[6 - count..]).ok_or(Reason::StackSize(size))?;
    // The registers lie inside the stack, below the return address.
    let count = count as u8;
    let words = words(arch, size).filter(|words| *words > count.into()).ok_or(Reason::StackSize(size))?;
    match u8::try_from(words) {
        Ok(words) => Ok(Encoding::frameless(words, count, permutation)),
        Err(_) => {
            let (at, adjust) =
                immediate(arch, body.cfa_since, size, code).ok_or(Reason::StackSizeInCode(size))?;
            Ok(Encoding::frameless_indirect(at, adjust, count, permutation))
        }
    }
}

/// Returns the numbers of the saved registers, ascending by address, at the end of an array, and their count. They
/// must lie directly below the return address, without a hole.
fn order(arch: Arch, body: &Body, registers: [Register; 6]) -> Result<([u8; 6], usize), Reason> {
    let frame_pointer = match body.row.frame_pointer {
        Rule::SameValue => None,
        Rule::Cfa(offset) => Some(offset),
        _ => return Err(Reason::FramePointerRule),
    };
    let count = body.saved.count() + usize::from(frame_pointer.is_some());
    // Each register takes a byte. The register just below the return address takes the highest of the six
    // bytes. An array would be slower.
    let mut order = 0u64;
    if count == 0 {
        return Ok(([0; 6], 0));
    }
    for (index, register) in registers.into_iter().enumerate() {
        let offset = if index == 5 { frame_pointer } else { body.saved.offset_at(index) };
        let Some(offset) = offset else { continue };
        // The return address is the first word below the CFA.
        let words = offset.checked_neg().and_then(|bytes| words(arch, bytes));
        let shift = match words.and_then(|words| usize::try_from(words - 2).ok()) {
            Some(place) if place < count => 40 - 8 * place,
            _ => return Err(Reason::SavedPlace(register)),
        };
        if order >> shift & 0xff != 0 {
            return Err(Reason::SavedPlace(register));
        }
        order |= (index.to_u64() + 1) << shift;
    }
    let [order @ .., _, _] = order.to_le_bytes();
    Ok((order, count))
}

/// Finds the immediate of the `sub` that ends at `end`. Returns its offset, and how many further words the stack has.
fn immediate(arch: Arch, end: u32, size: i64, code: Option<&[u8]>) -> Option<(u8, u8)> {
    let head = code?.get(..end.to_usize())?;
    let (head, immediate) = head.split_last_chunk()?;
    let at = u8::try_from(head.len()).ok()?;
    let opcode = match arch.pointer_size() {
        8 => head.strip_suffix(&SUB)?.ends_with(&[REX_W]),
        _ => head.ends_with(&SUB),
    };
    let rest = words(arch, size - i64::from(u32::from_le_bytes(*immediate)))?;
    let adjust = u8::try_from(rest).ok().filter(|adjust| *adjust <= 7)?;
    opcode.then_some((at, adjust))
}
