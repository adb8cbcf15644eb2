//! Encodes directives as the bytes of call frame instructions.

use alloc::vec::Vec;
use core::mem::take;
use core::ops::Range;

use cfipack_format::widen::ToUsize;
use cfipack_format::{Arch, Family, Register};

use crate::cfi::Instruction;
use crate::cfi::write::{Error, InstructionWriter, leb128};
use crate::directive::{Directive, Placed};
use crate::{Dialect, Directives};

/// The instructions of a function. The instructions of its CIE come first.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// The range of the instructions.
    pub(crate) bytes: Range<usize>,
    /// The number of bytes at the front that a CIE can have.
    pub(crate) leading: usize,
    /// The number of bytes that give the architecture's rules at a function's entry. No directive gives these
    /// rules.
    pub(crate) at_entry: usize,
    /// True if a directive is not an instruction of its own.
    pub(crate) is_altered: bool,
    /// The range of the function's marks.
    pub(crate) marks: Range<usize>,
}

/// Returns the alignment factors of code and data in a dialect's CIEs.
pub(crate) fn alignment(dialect: Dialect, arch: Arch) -> (u64, i64) {
    match (dialect, arch.family()) {
        // LLVM counts AArch64's code in bytes and its data in half pointers.
        (Dialect::Llvm, Family::Aarch64) => (1, -4),
        (Dialect::LlvmMachO, Family::Aarch64) => (1, -8),
        (Dialect::Llvm | Dialect::LlvmMachO, Family::X86 | Family::S390x | Family::Riscv)
        | (Dialect::Gas, _) => arch.cfi_alignment(),
    }
}

/// A fact about the CFI that its bytes do not show, at an offset in the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Bytes from the function's start.
    pub(crate) location: u64,
    /// The offset of the next instruction, in the vector that [`Encoded::bytes`] refers to.
    pub(crate) at: usize,
    pub(crate) kind: MarkKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkKind {
    /// An advance by nothing into another fragment.
    ZeroAdvance,
    /// A `.cfi_label`.
    Label,
    /// A `.cfi_escape` that begins with this byte. gas omits the function because of it, whatever the bytes
    /// mean.
    OpaqueEscape(u8),
}

/// Appends a function's instructions to `bytes`, and facts that the bytes do not show to `marks`. After an
/// error both are unchanged.
pub(crate) fn encode(
    directives: &Directives,
    dialect: Dialect,
    bytes: &mut Vec<u8>,
    marks: &mut Vec<Mark>,
) -> Result<Encoded, Error> {
    let (start, first_mark) = (bytes.len(), marks.len());
    // A directive takes four bytes with its advance, or hardly more.
    bytes.reserve(4 * directives.list.len() + 16 + directives.escaped.len());
    let (code, data) = alignment(dialect, directives.arch);
    let mut writer = InstructionWriter::after(directives.arch, code, data, take(bytes));
    let ends = put_all(directives, dialect, &mut writer, marks);
    *bytes = writer.into_bytes();
    let (at_entry, leading) = ends.inspect_err(|_| {
        bytes.truncate(start);
        marks.truncate(first_mark);
    })?;
    Ok(Encoded {
        bytes: start..bytes.len(),
        leading: leading - start,
        at_entry: at_entry - start,
        is_altered: directives.list.iter().any(|placed| is_altered(&placed.directive)),
        marks: first_mark..marks.len(),
    })
}

/// Returns the end of the rules at entry, and the end of the bytes that a CIE can have.
fn put_all(
    directives: &Directives,
    dialect: Dialect,
    writer: &mut InstructionWriter,
    marks: &mut Vec<Mark>,
) -> Result<(usize, usize), Error> {
    let mut tracked = 0;
    if !directives.is_simple {
        at_entry(directives.arch).try_for_each(|instruction| writer.put(instruction))?;
        tracked = directives.arch.cfa_offset_at_entry();
    }
    let entry_end = writer.as_bytes().len();
    let mut leading = dialect.is_llvm().then_some(entry_end);
    let mut location = 0;
    for (number, placed) in directives.list.iter().enumerate() {
        let advances = placed.offset != location;
        let is_after_cie = directives.in_cie == Some(number);
        if advances || is_after_cie || placed.new_fragment || ends_the_cie(&placed.directive) {
            leading.get_or_insert(writer.as_bytes().len());
        }
        if advances {
            writer.put(Instruction::Advance(placed.offset - location))?;
            location = placed.offset;
        } else if placed.new_fragment {
            marks.push(Mark {
                location: placed.offset,
                at: writer.as_bytes().len(),
                kind: MarkKind::ZeroAdvance,
            });
        }
        tracked = cfa_offset(dialect, placed, tracked);
        let placed = match dialect {
            Dialect::Llvm | Dialect::LlvmMachO => restored(directives, placed).unwrap_or(placed),
            Dialect::Gas => placed,
        };
        put(directives, dialect, placed, tracked, writer, marks)?;
    }
    Ok((entry_end, leading.unwrap_or(writer.as_bytes().len())))
}

/// Returns the CFA's offset after a directive, for a later `.cfi_adjust_cfa_offset` or `.cfi_rel_offset`.
/// LLVM's assembler does not restore it in `.cfi_restore_state`.
fn cfa_offset(dialect: Dialect, placed: &Placed, before: i64) -> i64 {
    match (dialect, &placed.directive) {
        (Dialect::Gas, _) => placed.cfa_offset,
        (_, &(Directive::DefCfa(_, offset) | Directive::DefCfaOffset(offset))) => offset,
        (_, &Directive::AdjustCfaOffset(by)) => before.wrapping_add(by),
        _ => before,
    }
}

/// Returns the directive that a `.cfi_restore` returns to, if it comes from a CIE. LLVM's CIEs have the
/// architecture's rules alone.
fn restored<'a>(directives: &'a Directives, placed: &Placed) -> Option<&'a Placed> {
    let Directive::Restore(register) = placed.directive else { return None };
    let in_cie = directives.list.get(..directives.in_cie?)?;
    in_cie.iter().rfind(|placed| register_of(directives, &placed.directive) == Some(register))
}

/// Returns the register that a directive gives a rule for.
fn register_of(directives: &Directives, directive: &Directive) -> Option<Register> {
    match *directive {
        Directive::Offset(register, _)
        | Directive::RelOffset(register, _)
        | Directive::ValOffset(register, _)
        | Directive::Register(register, _)
        | Directive::Undefined(register)
        | Directive::SameValue(register) => Some(register),
        // DW_CFA_expression and DW_CFA_val_expression.
        Directive::Escape { ref bytes, .. } => {
            match directives.escaped[bytes.start.to_usize()..bytes.end.to_usize()] {
                [0x10 | 0x16, register, ..] if register < 0x80 => Some(Register(register.into())),
                [0x10 | 0x16, low, high, ..] => {
                    Some(Register(u16::from(low & 0x7f) | u16::from(high & 0x7f) << 7))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns the instructions for the rules at a function's entry: the CFA and, on x86, the place of the return
/// address.
pub(crate) fn at_entry(arch: Arch) -> impl Iterator<Item = Instruction<'static>> {
    let offset = arch.cfa_offset_at_entry();
    let is_pushed = arch.pushed_by_call() != 0;
    let return_address = is_pushed.then(|| Instruction::Offset(arch.return_address(), -offset));
    [Instruction::DefCfa(arch.stack_pointer(), offset)].into_iter().chain(return_address)
}

/// Returns whether a directive becomes a different instruction, arbitrary bytes, or no instruction.
fn is_altered(directive: &Directive) -> bool {
    matches!(
        directive,
        Directive::AdjustCfaOffset(_)
            | Directive::RelOffset(..)
            | Directive::NegateRaStateWithPc
            | Directive::Escape { .. }
            | Directive::Label
    )
}

/// Returns whether gas puts a directive, and all directives after it, into the FDE.
fn ends_the_cie(directive: &Directive) -> bool {
    matches!(
        directive,
        Directive::RememberState
            | Directive::RestoreState
            | Directive::WindowSave
            | Directive::NegateRaState
            | Directive::NegateRaStateWithPc
            | Directive::SetRaState(..)
            | Directive::Escape { .. }
            | Directive::Label
    )
}

fn put(
    directives: &Directives,
    dialect: Dialect,
    placed: &Placed,
    cfa_offset: i64,
    writer: &mut InstructionWriter,
    marks: &mut Vec<Mark>,
) -> Result<(), Error> {
    match placed.directive {
        Directive::DefCfa(..) | Directive::DefCfaOffset(_) | Directive::AdjustCfaOffset(_)
            if dialect.is_llvm() && cfa_offset < 0 =>
        {
            negative_cfa_offset(&placed.directive, cfa_offset, writer);
            Ok(())
        }
        Directive::DefCfa(register, offset) => writer.put(Instruction::DefCfa(register, offset)),
        Directive::DefCfaOffset(_) | Directive::AdjustCfaOffset(_) => {
            writer.put(Instruction::DefCfaOffset(cfa_offset))
        }
        Directive::DefCfaRegister(register) => writer.put(Instruction::DefCfaRegister(register)),
        Directive::Offset(register, offset) => writer.put(Instruction::Offset(register, offset)),
        Directive::RelOffset(register, offset) => {
            writer.put(Instruction::Offset(register, offset.wrapping_sub(cfa_offset)))
        }
        Directive::ValOffset(register, offset) => writer.put(Instruction::ValOffset(register, offset)),
        Directive::Register(register, source) => writer.put(Instruction::Register(register, source)),
        Directive::Restore(register) => writer.put(Instruction::Restore(register)),
        Directive::Undefined(register) => writer.put(Instruction::Undefined(register)),
        Directive::SameValue(register) => writer.put(Instruction::SameValue(register)),
        Directive::RememberState => writer.put(Instruction::RememberState),
        Directive::RestoreState => writer.put(Instruction::RestoreState),
        Directive::WindowSave | Directive::NegateRaState => writer.put(Instruction::NegateRaState),
        Directive::NegateRaStateWithPc => {
            writer.raw(&[0x2c]);
            Ok(())
        }
        Directive::SetRaState(state, signing) => writer.put(Instruction::SetRaState(state, signing)),
        Directive::Escape { ref bytes, is_plain } => {
            let escaped = &directives.escaped[bytes.start.to_usize()..bytes.end.to_usize()];
            if let Some(&first) = escaped.first()
                && !(is_plain && gas_reads(directives.arch, escaped))
            {
                marks.push(Mark {
                    location: placed.offset,
                    at: writer.as_bytes().len(),
                    kind: MarkKind::OpaqueEscape(first),
                });
            }
            writer.raw(escaped);
            Ok(())
        }
        Directive::Label => {
            marks.push(Mark { location: placed.offset, at: writer.as_bytes().len(), kind: MarkKind::Label });
            Ok(())
        }
    }
}

/// Writes a negative offset of the CFA as LLVM does: as an unsigned 64-bit number, which wraps when added.
fn negative_cfa_offset(directive: &Directive, offset: i64, writer: &mut InstructionWriter) {
    let (opcode, register) = match directive {
        Directive::DefCfa(register, _) => (0x0c, Some(*register)),
        _ => (0x0e, None),
    };
    let mut bytes = Vec::from([opcode]);
    if let Some(register) = register {
        leb128::unsigned(&mut bytes, register.0.into());
    }
    leb128::unsigned(&mut bytes, offset as u64);
    writer.raw(&bytes);
}

/// Returns whether gas 2.47 reads the bytes of a `.cfi_escape` when it makes `.sframe`. It reads a single
/// instruction of a few kinds. Layout `gnu` decides about the effect on the rows.
fn gas_reads(arch: Arch, bytes: &[u8]) -> bool {
    match *bytes {
        [0x00, ref rest @ ..] => rest.iter().all(|&byte| byte == 0),
        // A load relative to rbp.
        [0x0f, 3, 0x76, _, 0x06] => match arch {
            Arch::Amd64 => true,
            Arch::I386 | Arch::Aarch64 | Arch::Aarch64Be | Arch::Arm64_32 | Arch::S390x | Arch::Riscv64 => {
                false
            }
        },
        [0x10, register, 2, _, _] => register < 0x80,
        [0x14, register, offset] => register < 0x80 && offset < 0x80,
        [0x2e, size] => size < 0x80,
        _ => false,
    }
}
