//! Writes rows as `.cfi_*` directives.

use cfipack_cfi::Instruction;
use cfipack_cfi::write::{InstructionWriter, leb128};
use cfipack_code::{Described, FrameAddress, FullRow};
use cfipack_format::{Arch, Register, RegisterName, Row, Rule};

/// Returns the directives for each row of a function. The directives of the first row follow `.cfi_startproc`.
///
/// Returns `None` if no directive could represent a rule. Rows that are made from code have no such rule.
pub fn directives(arch: Arch, described: &Described) -> Option<Vec<Vec<String>>> {
    let mut address =
        FrameAddress::Register { register: arch.stack_pointer(), offset: arch.cfa_offset_at_entry() };
    let mut before = FullRow { row: Row::at_entry(arch), saved: &[] };
    let mut all = Vec::new();
    for (row, next) in described.rows.iter().zip(&described.addresses) {
        let mut list: Vec<String> = frame_address(arch, address, *next).into_iter().collect();
        list.extend(between(arch, before, row)?);
        all.push(list);
        (before, address) = (row, *next);
    }
    Some(all)
}

/// Returns the directives for the rules of registers that differ between a row and the next row.
fn between(arch: Arch, before: FullRow<'_>, row: FullRow<'_>) -> Option<Vec<String>> {
    let mut list = Vec::new();
    let mut registers: Vec<Register> =
        before.rules(arch).chain(row.rules(arch)).map(|(register, _)| register).collect();
    registers.sort_unstable();
    registers.dedup();
    for register in registers {
        let rule = row.rule(arch, register);
        if rule == before.rule(arch, register) {
            continue;
        }
        let name = name(arch, register);
        list.push(match rule {
            // The rule of the CIE: the register has the caller's value.
            Rule::SameValue => format!(".cfi_restore {name}"),
            Rule::Cfa(offset) => format!(".cfi_offset {name}, {offset}"),
            Rule::Register { register: other, offset: 0 } => {
                format!(".cfi_register {name}, {}", self::name(arch, other))
            }
            Rule::Undefined => format!(".cfi_undefined {name}"),
            Rule::Memory { register: base, offset } => {
                escape(arch, Instruction::Expression(register, &register_plus(base, offset)))
            }
            Rule::Register { .. } | Rule::ValCfa(_) | Rule::Expression => return None,
        });
    }
    if before.row.signed != row.row.signed {
        list.push(".cfi_negate_ra_state".to_owned());
    }
    Some(list)
}

fn frame_address(arch: Arch, before: FrameAddress, address: FrameAddress) -> Option<String> {
    if before == address {
        return None;
    }
    let (register, offset) = match address {
        FrameAddress::Register { register, offset } => (register, offset),
        FrameAddress::Memory { register, offset, add } => {
            let mut expression = register_plus(register, offset);
            expression.push(gimli::DW_OP_deref.0);
            if add != 0 {
                expression.push(gimli::DW_OP_plus_uconst.0);
                leb128::unsigned(&mut expression, add);
            }
            return Some(escape(arch, Instruction::DefCfaExpression(&expression)));
        }
    };
    Some(match before {
        FrameAddress::Register { register: old, .. } if old == register => {
            format!(".cfi_def_cfa_offset {offset}")
        }
        FrameAddress::Register { offset: old, .. } if old == offset => {
            format!(".cfi_def_cfa_register {}", name(arch, register))
        }
        FrameAddress::Register { .. } | FrameAddress::Memory { .. } => {
            format!(".cfi_def_cfa {}, {offset}", name(arch, register))
        }
    })
}

/// Returns the expression for a general register plus an offset. Its number is below 32.
fn register_plus(register: Register, offset: i64) -> Vec<u8> {
    let mut expression = vec![gimli::DW_OP_breg0.0 + register.0 as u8];
    leb128::signed(&mut expression, offset);
    expression
}

/// Returns the directive for an instruction with an expression, which has no directive of its own.
fn escape(arch: Arch, instruction: Instruction<'_>) -> String {
    // The factors of a CIE do not change expressions.
    let mut writer = InstructionWriter::new(arch, 1, 1);
    let written = writer.put(instruction);
    debug_assert_eq!(written, Ok(()), "an expression always fits");
    let bytes: Vec<_> = writer.as_bytes().iter().map(|byte| format!("{byte:#04x}")).collect();
    format!(".cfi_escape {}", bytes.join(", "))
}

/// Returns a register's name in a form that GNU's and LLVM's assemblers read with every instruction syntax.
fn name(arch: Arch, register: Register) -> String {
    match arch.pushed_by_call() {
        0 => RegisterName(arch, register).to_string(),
        8 if register == arch.return_address() => "%rip".to_owned(),
        _ => format!("%{}", RegisterName(arch, register)),
    }
}
