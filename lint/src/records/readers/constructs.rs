//! Finds the constructs of the table of readers in single records. A test holds the names here to those of the table.

use std::collections::HashSet;

use cfipack_cfi::{
    Cie, Function, Functions, Instruction, Instructions, PointerEncoding, Section, Short, eh_frame_len,
};
use cfipack_code::is_callee_saved;
use cfipack_container::File;
use cfipack_format::{Address, Arch, Family, Reason, Register};
use gimli::{Encoding, EndianSlice, Expression, Format, LittleEndian, Operation};

use crate::FileMemory;

/// Finds the constructs of a section, one function after the other.
pub(super) struct Constructs<'f, 'a> {
    file: &'f File<'a>,
    section: &'f Section<'f>,
    /// True until the first function, if the section has another name than `.eh_frame`.
    is_renamed: bool,
    /// The end of the records by the next terminator.
    end: Option<usize>,
    /// The function before.
    before: Option<Function<'f>>,
    /// The starts of functions of no bytes.
    empty: HashSet<Address>,
    found: Vec<&'static str>,
}

impl<'f, 'a> Constructs<'f, 'a> {
    /// Starts at the first function of a section with this name.
    pub(super) fn new(file: &'f File<'a>, section: &'f Section<'f>, name: &str) -> Self {
        let is_renamed = !name.ends_with("eh_frame");
        let end = eh_frame_len(section.bytes, section.arch).ok();
        Self { file, section, is_renamed, end, before: None, empty: HashSet::new(), found: Vec::new() }
    }

    /// Returns the constructs of a function, and how many of them are in its CIE. These are omitted for a CIE that is not
    /// new.
    ///
    /// # Errors
    /// An instruction cannot be read.
    pub(super) fn of(
        &mut self,
        function: &Function<'f>,
        is_new: bool,
    ) -> Result<(&[&'static str], usize), Reason> {
        self.found.clear();
        if is_new {
            of_cie(&function.cie, &mut self.found);
        }
        of_instructions(function, function.cie.instructions, &mut self.found)?;
        self.found.truncate(if is_new { usize::MAX } else { 0 });
        let in_cie = self.found.len();
        self.of_place(function);
        of_function(function, &mut self.found)?;
        Ok((&self.found, in_cie))
    }

    /// Adds the constructs that the section, or other functions in it, show.
    fn of_place(&mut self, function: &Function<'f>) {
        let start = function.key.address();
        let agrees = |other: &Function<'_>| {
            (other.key, other.size, other.cie.offset, other.instructions)
                == (function.key, function.size, function.cie.offset, function.instructions)
        };
        let before = self.before.replace(*function);
        if function.size == 0 {
            self.empty.insert(start);
        }
        let flags = [
            (std::mem::take(&mut self.is_renamed), "section-renamed"),
            (self.passes_terminator(function), "terminator-before"),
            (function.size != 0 && before.is_some_and(|before| agrees(&before)), "equal-fdes"),
            (function.size != 0 && self.empty.contains(&start), "empty-fde-before"),
        ];
        self.found
            .extend(flags.into_iter().filter(|(is_there, _)| *is_there).map(|(_, construct)| construct));
        if function.cie.signal_frame && starts_with_frame(function) && !self.starts_early(function) {
            let mut others = Functions::new(self.section).flatten();
            let is_before = |other: Function<'_>| {
                other.key.address() < start && other.end().is_some_and(|end| end >= start)
            };
            let is_after_code = others.any(is_before);
            let construct =
                if is_after_code { "signal-frame-first-byte-after-code" } else { "signal-frame-first-byte" };
            self.found.push(construct);
        }
    }

    /// Returns whether this is the first function after a terminator.
    fn passes_terminator(&mut self, function: &Function<'_>) -> bool {
        let fde = function.fde.0;
        if self.end.is_none_or(|end| fde < end) {
            return false;
        }
        let rest = self.section.bytes.get(fde..).unwrap_or_default();
        self.end = eh_frame_len(rest, self.section.arch).ok().map(|len| fde + len);
        true
    }

    /// Returns whether the first byte of a function is not what a signal handler returns to: it is a `nop`, or padding before
    /// an aligned address, or it is not known.
    fn starts_early(&self, function: &Function<'_>) -> bool {
        let Ok(memory) = FileMemory::new(self.file) else { return true };
        let Some((bytes, _)) = memory.code(function.key.address(), 4) else { return true };
        match function.arch().family() {
            Family::X86 => bytes.starts_with(&[0x90]) || function.key.0 % 16 == 15,
            Family::Aarch64 => bytes == 0xd503_201f_u32.to_le_bytes(),
            Family::S390x | Family::Riscv => true,
        }
    }
}

/// Returns whether a function has a frame at its first byte, as a trampoline that a handler returns to.
fn starts_with_frame(function: &Function<'_>) -> bool {
    let at_entry = function.arch().cfa_offset_at_entry();
    let mut has_frame = false;
    for bytes in [function.cie.instructions, function.instructions] {
        for instruction in Instructions::new(function, bytes) {
            match instruction {
                Ok(Instruction::DefCfa(_, offset) | Instruction::DefCfaOffset(offset)) => {
                    has_frame = offset != at_entry;
                }
                Ok(Instruction::DefCfaExpression(_)) => has_frame = true,
                Ok(Instruction::Advance(_) | Instruction::SetLocation(_)) | Err(_) => return has_frame,
                Ok(_) => {}
            }
        }
    }
    has_frame
}

/// Adds the constructs of a CIE's fields.
fn of_cie(cie: &Cie<'_>, found: &mut Vec<&'static str>) {
    let letters = cie.augmentation;
    let has = |letter: u8| letters.contains(&letter);
    found.extend(match cie.version {
        3 => Some("cie-version-3"),
        4 => Some("cie-version-4"),
        _ => None,
    });
    found.extend(match cie.fde_encoding {
        _ if !letters.starts_with(b"z") => Some("no-augmentation"),
        _ if !has(b'R') => Some("augmentation-without-R"),
        PointerEncoding(0x00) => Some("pointers-absptr"),
        PointerEncoding(0x03) => Some("pointers-udata4"),
        PointerEncoding(0x0c) => Some("pointers-sdata8"),
        PointerEncoding(0x1c) => Some("pointers-pcrel-sdata8"),
        _ => None,
    });
    let is_absolute = |encoding| encoding == PointerEncoding::ABSOLUTE;
    let personality = cie.personality.map(|personality| is_absolute(personality.encoding));
    let has_instructions = cie.instructions.iter().any(|byte| *byte != 0);
    let flags = [
        (has(b'L') && cie.lsda_encoding == PointerEncoding::OMITTED, "lsda-omitted"),
        (personality == Some(true), "personality-absptr"),
        (personality == Some(false) && has(b'L'), "personality-and-lsda"),
        (cie.signal_frame, "signal-frame"),
        (!has_instructions, "cie-without-instructions"),
        (cie.data_alignment > 0, "data-factor-8"),
        (cie.pauth_key_b, "aarch64-b-key"),
        (cie.tagged, "aarch64-mte"),
    ];
    found.extend(flags.into_iter().filter(|(is_there, _)| *is_there).map(|(_, construct)| construct));
}

/// Adds the constructs of an FDE.
fn of_function(function: &Function<'_>, found: &mut Vec<&'static str>) -> Result<(), Reason> {
    found.extend((!function.unused_data().is_empty()).then_some("longer-augmentation-data"));
    of_instructions(function, function.instructions, found)
}

/// The greatest number of states that every reader remembers.
const REMEMBERED: u32 = 4;

/// Adds the constructs of instructions.
fn of_instructions<'a>(
    function: &Function<'a>,
    bytes: &'a [u8],
    found: &mut Vec<&'static str>,
) -> Result<(), Reason> {
    let (mut remembered, mut is_other_cfa) = (0_u32, false);
    let mut instructions = Instructions::new(function, bytes);
    while let Some(opcode) = instructions.rest().first().copied() {
        let next = match instructions.short() {
            Some(Short::Offset(register, offset)) => Some(Ok(Instruction::Offset(register, offset))),
            Some(Short::DefCfaOffset(_)) => {
                is_other_cfa = true;
                continue;
            }
            Some(Short::Advance(_) | Short::Nop) => continue,
            None => instructions.next(),
        };
        match next {
            Some(Ok(Instruction::RememberState)) => {
                remembered += 1;
                found.extend((remembered > REMEMBERED).then_some("remembered-five-deep"));
                is_other_cfa = false;
            }
            Some(Ok(Instruction::RestoreState)) => {
                remembered = remembered.checked_sub(1).ok_or(Reason::RestoreWithoutRemember)?;
                found.extend(is_other_cfa.then_some("remembered-cfa"));
            }
            Some(Ok(instruction)) => {
                is_other_cfa |= changes_cfa(instruction);
                found.extend(of_instruction(function, opcode, instruction));
            }
            Some(Err(Reason::SignedWithPc)) => found.push("aarch64-negate-ra-state-with-pc"),
            Some(Err(reason)) => return Err(reason),
            None => break,
        }
    }
    Ok(())
}

fn changes_cfa(instruction: Instruction<'_>) -> bool {
    matches!(
        instruction,
        Instruction::DefCfa(..)
            | Instruction::DefCfaRegister(_)
            | Instruction::DefCfaOffset(_)
            | Instruction::DefCfaExpression(_)
    )
}

/// Returns the construct of an instruction, if it is one.
fn of_instruction(function: &Function<'_>, opcode: u8, instruction: Instruction<'_>) -> Option<&'static str> {
    let is_amd64 = function.arch() == Arch::Amd64;
    let returns = |register| register == function.cie.return_address;
    let is_saved = |register| is_callee_saved(function.arch(), register);
    match instruction {
        Instruction::Offset(..) if opcode == 0x2f => Some("gnu-negative-offset"),
        Instruction::DefCfa(..) | Instruction::DefCfaOffset(_) if matches!(opcode, 0x12 | 0x13) => {
            Some("def-cfa-sf")
        }
        Instruction::Offset(Register(67..), _) if is_amd64 => Some("high-column"),
        Instruction::Offset(Register(17..=32), _) if is_amd64 => Some("vector-register"),
        Instruction::Restore(register) if !has_rule(function, register) => Some("restore-without-rule"),
        // The longer form of what has a short one.
        Instruction::Offset(Register(..64), _) if opcode == 0x05 => Some("extended-forms"),
        Instruction::Restore(_) if opcode == 0x06 => Some("extended-forms"),
        Instruction::Advance(_) if opcode == 0x04 => Some("extended-forms"),
        Instruction::Undefined(register) if returns(register) => Some("undefined-return-address"),
        Instruction::Undefined(register) if is_saved(register) => Some("undefined-register"),
        Instruction::SameValue(_) => Some("same-value"),
        Instruction::ValOffset(..) => Some("val-offset"),
        Instruction::ValExpression(register, _) if returns(register) => Some("return-address-val-expression"),
        Instruction::ValExpression(..) => Some("val-expression"),
        Instruction::Expression(register, _) if is_saved(register) => Some("expression"),
        Instruction::DefCfaExpression(bytes) if reads_memory(function, bytes) => Some("cfa-from-memory"),
        Instruction::DefCfaExpression(_) => Some("cfa-expression"),
        // In another register the value is lost at a call.
        Instruction::Register(register, other) if is_saved(other) => {
            Some(if returns(register) { "return-address-in-register" } else { "register" })
        }
        Instruction::ArgsSize(_) => Some("args-size"),
        Instruction::SetLocation(_) if function.cie.fde_encoding == PointerEncoding::ABSOLUTE => {
            Some("set-loc-absolute")
        }
        Instruction::NegateRaState if function.arch().is_aarch64() => Some("aarch64-negate-ra-state"),
        Instruction::SetRaState(..) => Some("aarch64-set-ra-state"),
        _ => None,
    }
}

fn reads_memory(function: &Function<'_>, expression: &[u8]) -> bool {
    let address_size = function.arch().pointer_size();
    let encoding = Encoding { format: Format::Dwarf32, version: 5, address_size };
    let mut operations = Expression(EndianSlice::new(expression, LittleEndian)).operations(encoding);
    while let Ok(Some(operation)) = operations.next() {
        if matches!(operation, Operation::Deref { .. }) {
            return true;
        }
    }
    false
}

/// Returns whether the CIE has a rule for a register.
fn has_rule(function: &Function<'_>, register: Register) -> bool {
    Instructions::new(function, function.cie.instructions).flatten().any(|instruction| match instruction {
        Instruction::Offset(ruled, _)
        | Instruction::ValOffset(ruled, _)
        | Instruction::Expression(ruled, _)
        | Instruction::ValExpression(ruled, _)
        | Instruction::Register(ruled, _)
        | Instruction::Undefined(ruled)
        | Instruction::SameValue(ruled) => ruled == register,
        _ => false,
    })
}
