//! Makes the encoding that llvm-mc 23 makes from directives.
//!
//! Llvm-mc looks at the list of directives and not at the rows that they describe. It ignores where directives stand
//! in the code, and nearly ignores offsets. It takes for granted that prologues look like LLVM's own.

use cfipack_format::compact_unwind::{Encoding, PAIRS, Pairs, callee_saved, encode_order};
use cfipack_format::{Arch, Register};

use crate::Reason;
use crate::cfi::Instruction;

/// The facts beside the directives that decide whether llvm-mc makes an encoding.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Frame {
    /// True if the function has a personality other than `___gxx_personality_v0` and `___objc_personality_v0`, and
    /// llvm-mc runs without `-emit-compact-unwind-non-canonical`.
    pub foreign_personality: bool,
    /// True if the function has `.cfi_signal_frame`.
    pub signal: bool,
    /// True if the function has `.cfi_mte_tagged_frame`.
    pub mte_tagged: bool,
}

impl Frame {
    /// Makes a frame in which all fields are false.
    pub const fn new() -> Self {
        Self { foreign_personality: false, signal: false, mte_tagged: false }
    }

    /// Sets whether the personality is [foreign](Self::foreign_personality).
    #[must_use]
    pub const fn with_foreign_personality(self, foreign_personality: bool) -> Self {
        Self { foreign_personality, ..self }
    }

    /// Sets whether the frame is a [signal](Self::signal) frame.
    #[must_use]
    pub const fn with_signal(self, signal: bool) -> Self {
        Self { signal, ..self }
    }

    /// Sets whether the frame's memory is [tagged](Self::mte_tagged).
    #[must_use]
    pub const fn with_mte_tagged(self, mte_tagged: bool) -> Self {
        Self { mte_tagged, ..self }
    }
}

/// Returns the encoding for the directives of an FDE. Each directive is given as the CFI instruction that it becomes.
/// Advances and padding are ignored.
///
/// This function returns an error for a directive that becomes another instruction (`.cfi_adjust_cfa_offset`,
/// `.cfi_rel_offset`), because llvm-mc treats it differently, and for unknown directives.
///
/// # Errors
/// This function also returns an error if the format has no encodings for the architecture, if llvm-mc keeps DWARF
/// mode, or if a register is saved twice without a frame. Such an encoding would have no meaning.
pub fn encode<'a>(
    arch: Arch,
    frame: Frame,
    directives: impl IntoIterator<Item = Result<Instruction<'a>, Reason>>,
) -> Result<Encoding, Reason> {
    super::check(arch).map_err(|_| Reason::Architecture)?;
    if frame.signal || frame.mte_tagged {
        return Err(Reason::LlvmMcDirectives);
    }
    let mut directives = directives.into_iter().filter(is_directive).peekable();
    let registers = callee_saved(arch);
    if directives.peek().is_none() {
        return Ok(match registers {
            Some(_) => Encoding::NONE,
            None => Encoding::arm64_frameless(0, Pairs::empty()),
        });
    }
    if frame.foreign_personality {
        return Err(Reason::LlvmMcPersonality);
    }
    match registers {
        Some(registers) => x86(arch, registers, directives),
        None => arm64(arch, directives),
    }
}

/// Returns whether an instruction comes from a directive: it is neither an advance nor padding.
fn is_directive(instruction: &Result<Instruction<'_>, Reason>) -> bool {
    !matches!(instruction, Ok(Instruction::Nop | Instruction::Advance(_) | Instruction::SetLocation(_)))
}

fn x86<'a>(
    arch: Arch,
    registers: [Register; 6],
    directives: impl Iterator<Item = Result<Instruction<'a>, Reason>>,
) -> Result<Encoding, Reason> {
    let word = i64::from(arch.pointer_size());
    let is_64_bit = word == 8;
    let mut has_frame = false;
    let mut size = 0;
    let mut saved = [0; 6];
    let mut count = 0;
    let mut nearest = u64::MAX;
    // The bytes of all pushes so far.
    let mut code_bytes = 0;
    for directive in directives {
        match directive? {
            Instruction::DefCfaRegister(register) if register == arch.frame_pointer() => {
                (has_frame, count, nearest) = (true, 0, u64::MAX);
            }
            Instruction::DefCfaOffset(offset) => size = offset / word,
            Instruction::Offset(register, offset) => {
                let slot = saved.get_mut(count).ok_or(Reason::LlvmMcDirectives)?;
                let number = registers.iter().position(|other| *other == register);
                *slot = number.map_or(0, |number| number as u8 + 1);
                count += 1;
                nearest = nearest.min(offset.unsigned_abs());
                code_bytes += if is_64_bit && register.0 >= 12 { 2 } else { 1 };
            }
            _ => return Err(Reason::LlvmMcDirectives),
        }
    }
    let saved = &saved[..count];
    if saved.contains(&0) || has_frame && count != 0 && nearest != 3 * word as u64 {
        return Err(Reason::LlvmMcDirectives);
    }
    if has_frame {
        // Llvm-mc drops a sixth register.
        let mut slots = [0; 5];
        slots.iter_mut().zip(saved).for_each(|(slot, number)| *slot = *number);
        return Ok(Encoding::frame(count as u8, slots));
    }
    let permutation = encode_order(saved).ok_or(Reason::LlvmMcDirectives)?;
    let count = count as u8;
    Ok(match u8::try_from(size) {
        Ok(words) => Encoding::frameless(words, count, permutation),
        // After the pushes comes `sub esp, imm32`, or `sub rsp, imm32` with a prefix.
        Err(_) => {
            let immediate_at = code_bytes + if is_64_bit { 3 } else { 2 };
            Encoding::frameless_indirect(immediate_at, count + 1, count, permutation)
        }
    })
}

fn arm64<'a>(
    arch: Arch,
    mut directives: impl Iterator<Item = Result<Instruction<'a>, Reason>>,
) -> Result<Encoding, Reason> {
    const NONE: Result<Instruction<'static>, Reason> = Err(Reason::LlvmMcDirectives);
    let mut has_frame = false;
    let mut size = 0;
    // The place where the last register was saved.
    let mut last = 0;
    let mut pairs = Pairs::empty();
    while let Some(directive) = directives.next() {
        match directive? {
            Instruction::DefCfa(register, _) if register == arch.frame_pointer() => {
                let link = saved(directives.next().unwrap_or(NONE)?)?;
                let frame = saved(directives.next().unwrap_or(NONE)?)?;
                let adjacent = link.1 == frame.1.wrapping_add(8);
                if link.0 != arch.return_address() || frame.0 != arch.frame_pointer() || !adjacent {
                    return Err(Reason::LlvmMcDirectives);
                }
                (has_frame, last) = (true, frame.1);
            }
            Instruction::DefCfaOffset(offset) if size == 0 => size = offset.unsigned_abs(),
            first @ Instruction::Offset(..) => {
                let first = saved(first)?;
                let second = saved(directives.next().unwrap_or(NONE)?)?;
                let pair = PAIRS.iter().find(|(_, register)| *register == first.0);
                let pair = pair.ok_or(Reason::LlvmMcDirectives)?.0;
                // Pairs have a fixed order. A pair must not follow a pair that comes after it in this order.
                let in_order = pairs.bits() < pair.bits() << 1;
                let adjacent = (last == 0 || first.1 == last.wrapping_sub(8))
                    && second.0.0 == first.0.0 + 1
                    && second.1 == first.1.wrapping_sub(8);
                if !in_order || !adjacent {
                    return Err(Reason::LlvmMcDirectives);
                }
                last = second.1;
                pairs |= pair;
            }
            _ => return Err(Reason::LlvmMcDirectives),
        }
    }
    match u16::try_from(size / 16) {
        _ if has_frame => Ok(Encoding::arm64_frame(pairs)),
        Ok(units @ 0..=4095) if size <= 65520 => Ok(Encoding::arm64_frameless(units, pairs)),
        _ => Err(Reason::LlvmMcDirectives),
    }
}

fn saved(instruction: Instruction<'_>) -> Result<(Register, i64), Reason> {
    match instruction {
        Instruction::Offset(register, offset) => Ok((register, offset)),
        _ => Err(Reason::LlvmMcDirectives),
    }
}
