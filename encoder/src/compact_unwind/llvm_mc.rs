//! The encoding that llvm-mc 23 gives for directives.
//!
//! It looks at the list of directives, not at the rows they give: not at where they stand in the
//! code, and hardly at the offsets. What it takes for granted is what LLVM's own prologues do.

use cfipack_format::compact_unwind::{Encoding, PAIRS, Pairs, callee_saved, encode_order};
use cfipack_format::{Arch, Register};

use crate::Reason;
use crate::cfi::Instruction;

/// The facts beside the instructions that decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Frame {
    /// A personality other than `___gxx_personality_v0` and `___objc_personality_v0`, without
    /// `-emit-compact-unwind-non-canonical`.
    pub foreign_personality: bool,
    /// `.cfi_signal_frame`.
    pub signal: bool,
    /// `.cfi_mte_tagged_frame`.
    pub mte_tagged: bool,
}

impl Frame {
    /// A frame without any of these.
    pub const fn new() -> Self {
        Self { foreign_personality: false, signal: false, mte_tagged: false }
    }

    /// Sets whether the personality is [foreign](Self::foreign_personality).
    #[must_use]
    pub const fn with_foreign_personality(self, foreign_personality: bool) -> Self {
        Self { foreign_personality, ..self }
    }

    /// Sets whether the frame is a [signal](Self::signal)'s.
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

/// The encoding for an FDE's directives, as the instructions that they become. One that becomes
/// another instruction than it is (`.cfi_adjust_cfa_offset`, `.cfi_rel_offset`) or one that is
/// unknown is an error, and so is what llvm-mc gives no encoding for; advances and padding count
/// for nothing.
///
/// # Errors
/// The format has no encodings for the architecture, llvm-mc keeps DWARF mode, or it saves a register twice without a frame, which has no meaning.
pub fn encode<'a>(
    arch: Arch,
    frame: Frame,
    directives: impl IntoIterator<Item = Result<Instruction<'a>, Reason>>,
) -> Result<Encoding, Reason> {
    let is_directive = |instruction: &Result<Instruction<'_>, Reason>| {
        !matches!(instruction, Ok(Instruction::Nop | Instruction::Advance(_) | Instruction::SetLocation(_)))
    };
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
    // Bytes of the pushes so far.
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
        // A sixth register falls off the end.
        let mut slots = [0; 5];
        slots.iter_mut().zip(saved).for_each(|(slot, number)| *slot = *number);
        return Ok(Encoding::frame(count as u8, slots));
    }
    let permutation = encode_order(saved).ok_or(Reason::LlvmMcDirectives)?;
    let count = count as u8;
    Ok(match u8::try_from(size) {
        Ok(words) => Encoding::frameless(words, count, permutation),
        // After the pushes: `sub esp, imm32`, for rsp with a prefix.
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
    // Where the last register was saved.
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
                // Those in their order, no pair after one that comes after it.
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
