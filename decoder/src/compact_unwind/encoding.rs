//! Decodes an encoding into a row.

use cfipack_format::compact_unwind::{Encoding, Mode, PAIRS, callee_saved, decode_order};
use cfipack_format::{Arch, Cfa, FunctionOffset, Register, Row, Rule, Saved};

cfipack_format::errors! {
    /// The reason why an encoding has no meaning.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    #[non_exhaustive]
    pub enum EncodingError {
        /// The architecture has no mode with this number.
        #[error("encoding {encoding}: mode {}", encoding.mode_number())]
        Mode(encoding: Encoding),
        /// x86, frame mode: a slot names register 6 or 7, or a register that another slot names too.
        #[error(
            "encoding {encoding}: register number {} in slot {slot}",
            encoding.frame_slots().get(usize::from(slot)).unwrap_or(&0)
        )]
        Slot {
            /// The encoding.
            encoding: Encoding,
            /// The number of the slot, from 0 at the lowest address.
            slot: u8,
        },
        /// x86, frameless: this count and permutation encode no order of registers.
        #[error("encoding {encoding}: permutation {} of {} registers", encoding.permutation(), encoding.count())]
        Permutation(encoding: Encoding),
        /// x86, indirect: the code is too short for the `imm32` that holds the stack's size.
        #[error(
            "encoding {encoding}: stack size in code bytes up to {} of {given}",
            usize::from(encoding.immediate_at()) + 4
        )]
        Code {
            /// The encoding.
            encoding: Encoding,
            /// The number of bytes of code.
            given: usize,
        },
    }
}

/// Decodes an encoding into the row for the body of a function, and the saved registers other than the frame
/// pointer. An encoding does not describe the prologue and the epilogue.
///
/// Returns `None` if the encoding has no unwind information, and if it refers to the function's FDE.
/// [`Encoding::mode`] distinguishes the two.
///
/// `code` is the code from the start of the entry. Only x86's indirect mode reads it, at most the first 259
/// bytes. Flags and personality do not matter. This function does not check whether the encoding is plausible:
/// if the stack is too small for the saved registers, their offsets lie below the stack.
///
/// In arm64's frameless mode, register pairs lie from the CFA down, as in llvm-mc 23, the only tool that
/// still writes them. LLVM's libunwind reads them 8 bytes higher, and ld64 wrote them 8 bytes lower.
///
/// # Errors
/// The encoding has an unknown mode, register or permutation, or `code` is too short.
pub fn row(encoding: Encoding, arch: Arch, code: &[u8]) -> Result<Option<(Row, Saved)>, EncodingError> {
    let mode = encoding.mode(arch).ok_or(EncodingError::Mode(encoding))?;
    let unwound = match (mode, callee_saved(arch)) {
        (Mode::None | Mode::Dwarf, _) => return Ok(None),
        (Mode::Frame, Some(registers)) => x86_frame(encoding, arch, registers)?,
        (Mode::Frameless, Some(registers)) => {
            let size = i64::from(encoding.stack_words()) * word(arch);
            x86_frameless(encoding, arch, registers, size)?
        }
        (Mode::FramelessIndirect, Some(registers)) => {
            let at = usize::from(encoding.immediate_at());
            let Some(immediate) = code.get(at..).and_then(|code| code.first_chunk()) else {
                return Err(EncodingError::Code { encoding, given: code.len() });
            };
            let adjust = i64::from(encoding.adjust()) * word(arch);
            let size = i64::from(u32::from_le_bytes(*immediate)) + adjust;
            x86_frameless(encoding, arch, registers, size)?
        }
        (Mode::Frame, None) => arm64_frame(encoding, arch),
        (Mode::FramePauthLr, _) => {
            let (row, saved) = arm64_frame(encoding, arch);
            (Row { signed: true, ..row }, saved)
        }
        (Mode::Frameless | Mode::FramelessIndirect, None) => arm64_frameless(encoding, arch),
    };
    Ok(Some(unwound))
}

/// Returns the size of a word of x86 in bytes.
fn word(arch: Arch) -> i64 {
    i64::from(arch.pointer_size())
}

/// Returns a row with the CFA `offset` bytes above a register.
fn row_from(register: Register, offset: i64, return_address: Rule, frame_pointer: Rule) -> Row {
    let cfa = Cfa::Register { register, offset };
    Row { start: FunctionOffset(0), cfa, return_address, frame_pointer, signed: false }
}

fn x86_frame(
    encoding: Encoding,
    arch: Arch,
    registers: [Register; 6],
) -> Result<(Row, Saved), EncodingError> {
    let word = word(arch);
    let mut saved = Saved::new();
    for (slot, number) in (0..).zip(encoding.frame_slots()) {
        if number == 0 {
            continue;
        }
        let register = match registers[..5].get(usize::from(number) - 1) {
            Some(&register) if saved.offset_of(register).is_none() => register,
            _ => return Err(EncodingError::Slot { encoding, slot }),
        };
        // The frame pointer is two words below the CFA.
        let words = i64::from(encoding.frame_offset()) + 2 - i64::from(slot);
        saved.push(register, (-words * word) as i32);
    }
    let row = row_from(arch.frame_pointer(), 2 * word, Rule::Cfa(-word), Rule::Cfa(-2 * word));
    Ok((row, saved))
}

/// `size` is the number of bytes of stack, including the return address.
fn x86_frameless(
    encoding: Encoding,
    arch: Arch,
    registers: [Register; 6],
    size: i64,
) -> Result<(Row, Saved), EncodingError> {
    let word = word(arch);
    let count = encoding.count();
    let order = decode_order(count, encoding.permutation()).ok_or(EncodingError::Permutation(encoding))?;
    let mut saved = Saved::new();
    let mut frame_pointer = Rule::SameValue;
    for (i, number) in order.into_iter().take(count.into()).enumerate() {
        // The last register is just below the return address, which is a word below the CFA.
        let offset = -(i64::from(count) + 1 - i as i64) * word;
        match registers.get(usize::from(number).wrapping_sub(1)) {
            Some(register) if *register == arch.frame_pointer() => frame_pointer = Rule::Cfa(offset),
            Some(register) => {
                saved.push(*register, offset as i32);
            }
            None => return Err(EncodingError::Permutation(encoding)),
        }
    }
    Ok((row_from(arch.stack_pointer(), size, Rule::Cfa(-word), frame_pointer), saved))
}

fn arm64_frame(encoding: Encoding, arch: Arch) -> (Row, Saved) {
    let row = row_from(arch.frame_pointer(), 16, Rule::Cfa(-8), Rule::Cfa(-16));
    (row, arm64_pairs(encoding, -16))
}

fn arm64_frameless(encoding: Encoding, arch: Arch) -> (Row, Saved) {
    let size = i64::from(encoding.stack_bytes());
    let row = row_from(arch.stack_pointer(), size, Rule::SameValue, Rule::SameValue);
    (row, arm64_pairs(encoding, 0))
}

/// Returns the saved pairs. The first pair is at `top` bytes above the CFA, and the others follow downward.
fn arm64_pairs(encoding: Encoding, top: i32) -> Saved {
    let mut saved = Saved::new();
    let mut offset = top;
    for (pair, first) in PAIRS {
        if encoding.pairs().contains(pair) {
            saved.push(first, offset - 8);
            saved.push(Register(first.0 + 1), offset - 16);
            offset -= 16;
        }
    }
    saved
}
