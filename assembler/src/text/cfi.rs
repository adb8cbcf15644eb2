//! `.cfi_*` statements.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use cfipack_format::{Arch, Key, Register};

use super::diagnostic::Span;
use super::operands::{Fault, Operands};
use super::{CfiSections, Problem};
use crate::cfi::PointerEncoding;
use crate::{Directives, EscapeOperand};

/// An operation that a statement states for its function.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    DefCfa(Register, i64),
    DefCfaOffset(i64),
    AdjustCfaOffset(i64),
    DefCfaRegister(Register),
    Offset(Register, i64),
    RelOffset(Register, i64),
    ValOffset(Register, i64),
    Register(Register, Register),
    Restore(Register),
    Undefined(Register),
    SameValue(Register),
    RememberState,
    RestoreState,
    WindowSave,
    NegateRaState,
    NegateRaStateWithPc,
    Escape(Box<[EscapeOperand]>),
    Label,
    SignalFrame,
    BKeyFrame,
    MteTaggedFrame,
    ReturnColumn(Register),
    Personality(PointerEncoding, Key),
    Lsda(PointerEncoding, Key),
}

/// A statement.
#[derive(Debug)]
pub(super) enum CfiStatement {
    StartProc {
        is_simple: bool,
    },
    EndProc,
    Sections(CfiSections),
    /// One for each register that `.cfi_restore` and others name.
    Operations,
}

/// Reads a statement whose name starts with `.cfi_`; what it sets for a function goes into `out`. `key_of` knows the
/// symbols.
pub(super) fn parse(
    arch: Arch,
    (name, span): (&[u8], Span),
    operands: &mut Operands<'_, '_>,
    key_of: &mut dyn FnMut(String) -> Key,
    out: &mut Vec<Operation>,
) -> Result<CfiStatement, Fault> {
    use Operation as O;
    let register = |operands: &mut Operands<'_, '_>| operands.register(arch);
    let register_number = |operands: &mut Operands<'_, '_>| {
        let register = operands.register(arch)?;
        operands.separator()?;
        Ok((register, operands.number()?))
    };
    let pointer = |operands: &mut Operands<'_, '_>, key_of: &mut dyn FnMut(String) -> Key| {
        let encoding = PointerEncoding(operands.number()? as u8);
        if encoding == PointerEncoding::OMITTED {
            return Ok((encoding, Key(0)));
        }
        operands.separator()?;
        Ok((encoding, key_of(operands.symbol()?)))
    };
    let operation = match &name[5..] {
        b"startproc" => {
            let is_simple = match operands.word() {
                None => false,
                Some(b"simple") => true,
                Some(_) => return Err((span, Problem::Keyword)),
            };
            operands.end()?;
            return Ok(CfiStatement::StartProc { is_simple });
        }
        b"endproc" => {
            operands.end()?;
            return Ok(CfiStatement::EndProc);
        }
        b"sections" => return sections(span, operands).map(CfiStatement::Sections),
        b"def_cfa" => register_number(operands).map(|(register, offset)| O::DefCfa(register, offset)),
        b"def_cfa_offset" => operands.number().map(O::DefCfaOffset),
        b"adjust_cfa_offset" => operands.number().map(O::AdjustCfaOffset),
        b"def_cfa_register" => register(operands).map(O::DefCfaRegister),
        b"offset" => register_number(operands).map(|(register, offset)| O::Offset(register, offset)),
        b"rel_offset" => register_number(operands).map(|(register, offset)| O::RelOffset(register, offset)),
        b"val_offset" => register_number(operands).map(|(register, offset)| O::ValOffset(register, offset)),
        b"register" => {
            let from = register(operands)?;
            operands.separator()?;
            register(operands).map(|source| O::Register(from, source))
        }
        b"restore" => return each_register(arch, operands, O::Restore, out),
        b"undefined" => return each_register(arch, operands, O::Undefined, out),
        b"same_value" => return each_register(arch, operands, O::SameValue, out),
        b"remember_state" => Ok(O::RememberState),
        b"restore_state" => Ok(O::RestoreState),
        b"window_save" => Ok(O::WindowSave),
        b"negate_ra_state" => Ok(O::NegateRaState),
        b"negate_ra_state_with_pc" => Ok(O::NegateRaStateWithPc),
        b"escape" => escape(operands).map(O::Escape),
        b"label" => operands.symbol().map(|_| O::Label),
        b"signal_frame" => Ok(O::SignalFrame),
        b"b_key_frame" => Ok(O::BKeyFrame),
        b"mte_tagged_frame" => Ok(O::MteTaggedFrame),
        b"return_column" => register(operands).map(O::ReturnColumn),
        b"personality" => pointer(operands, key_of).map(|(encoding, key)| O::Personality(encoding, key)),
        b"lsda" => pointer(operands, key_of).map(|(encoding, key)| O::Lsda(encoding, key)),
        other => {
            let name = String::from_utf8_lossy(name).into_owned();
            let is_known = matches!(
                other,
                b"val_encoded_addr"
                    | b"fde_data"
                    | b"inline_lsda"
                    | b"personality_id"
                    | b"llvm_def_aspace_cfa"
                    | b"llvm_register_pair"
                    | b"llvm_vector_registers"
                    | b"llvm_vector_offset"
                    | b"llvm_vector_register_mask"
                    | b"llvm_set_ra_auth_state"
                    | b"gnu_args_size"
            );
            let problem =
                if is_known { Problem::UnsupportedDirective(name) } else { Problem::UnknownDirective(name) };
            return Err((span, problem));
        }
    }?;
    operands.end()?;
    out.push(operation);
    Ok(CfiStatement::Operations)
}

fn each_register(
    arch: Arch,
    operands: &mut Operands<'_, '_>,
    of: fn(Register) -> Operation,
    out: &mut Vec<Operation>,
) -> Result<CfiStatement, Fault> {
    loop {
        out.push(of(operands.register(arch)?));
        if !operands.comma() {
            operands.end()?;
            return Ok(CfiStatement::Operations);
        }
    }
}

fn sections(span: Span, operands: &mut Operands<'_, '_>) -> Result<CfiSections, Fault> {
    let mut sections = CfiSections { eh_frame: false, ..CfiSections::default() };
    while let Some(name) = operands.word() {
        match name {
            b".eh_frame" => sections.eh_frame = true,
            b".debug_frame" => sections.debug_frame = true,
            b".sframe" => sections.sframe = true,
            _ => return Err((span, Problem::Keyword)),
        }
        if !operands.comma() {
            break;
        }
    }
    operands.end()?;
    Ok(sections)
}

fn escape(operands: &mut Operands<'_, '_>) -> Result<Box<[EscapeOperand]>, Fault> {
    let mut list = Vec::new();
    loop {
        let mut ahead = operands.clone();
        let function = ahead.word().filter(|_| ahead.peek() == Some(b'('));
        let form: fn(i64) -> EscapeOperand = match function {
            Some(b"data2") => |value| EscapeOperand::Data2(value as u16),
            Some(b"data4") => |value| EscapeOperand::Data4(value as u32),
            Some(b"data8") => |value| EscapeOperand::Data8(value as u64),
            Some(b"uleb128") => |value| EscapeOperand::Uleb128(value as u64),
            Some(b"sleb128") => EscapeOperand::Sleb128,
            _ => |value| match value {
                -0x80..=0xff => EscapeOperand::Byte(value as u8),
                _ => EscapeOperand::Truncated(value),
            },
        };
        if function
            .is_some_and(|name| matches!(name, b"data2" | b"data4" | b"data8" | b"uleb128" | b"sleb128"))
        {
            *operands = ahead;
        }
        list.push(form(operands.number()?));
        if !operands.comma() {
            return Ok(list.into());
        }
    }
}

impl Operation {
    /// Operands of which an assembler takes the last byte.
    pub(super) fn truncated(&self) -> impl Iterator<Item = i64> {
        let operands: &[EscapeOperand] = match self {
            Self::Escape(operands) => operands,
            _ => &[],
        };
        operands.iter().filter_map(|operand| match *operand {
            EscapeOperand::Truncated(value) => Some(value),
            _ => None,
        })
    }

    /// Gives the directive.
    pub(super) fn put(&self, directives: &mut Directives) {
        use Operation as O;
        match *self {
            O::DefCfa(register, offset) => directives.def_cfa(register, offset),
            O::DefCfaOffset(offset) => directives.def_cfa_offset(offset),
            O::AdjustCfaOffset(by) => directives.adjust_cfa_offset(by),
            O::DefCfaRegister(register) => directives.def_cfa_register(register),
            O::Offset(register, offset) => directives.offset(register, offset),
            O::RelOffset(register, offset) => directives.rel_offset(register, offset),
            O::ValOffset(register, offset) => directives.val_offset(register, offset),
            O::Register(register, source) => directives.register_in(register, source),
            O::Restore(register) => directives.restore(register),
            O::Undefined(register) => directives.undefined(register),
            O::SameValue(register) => directives.same_value(register),
            O::RememberState => directives.remember_state(),
            O::RestoreState => directives.restore_state(),
            O::WindowSave => directives.window_save(),
            O::NegateRaState => directives.negate_ra_state(),
            O::NegateRaStateWithPc => directives.negate_ra_state_with_pc(),
            O::Escape(ref operands) => directives.escape_operands(operands),
            O::Label => directives.label(),
            O::SignalFrame => directives.signal_frame(),
            O::BKeyFrame => directives.b_key_frame(),
            O::MteTaggedFrame => directives.mte_tagged_frame(),
            O::ReturnColumn(register) => directives.return_column(register),
            O::Personality(encoding, key) => directives.personality(encoding, key),
            O::Lsda(encoding, key) => directives.lsda(encoding, key),
        };
    }
}
