//! Writes rows as `.cfi_*` directives.

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

/// Returns the directives that change the rules of one row into those of the next, except the CFA.
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
                let address = register_plus(base, offset);
                let mut escape = vec![DW_CFA_EXPRESSION, register.0 as u8, address.len() as u8];
                escape.extend(address);
                self::escape(&escape)
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
            expression.push(DW_OP_DEREF);
            if add != 0 {
                expression.push(DW_OP_PLUS_UCONST);
                push_uleb128(&mut expression, add);
            }
            let mut escape = vec![DW_CFA_DEF_CFA_EXPRESSION, expression.len() as u8];
            escape.extend(expression);
            return Some(self::escape(&escape));
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

const DW_CFA_DEF_CFA_EXPRESSION: u8 = 0x0f;
const DW_CFA_EXPRESSION: u8 = 0x10;
const DW_OP_DEREF: u8 = 0x06;
const DW_OP_PLUS_UCONST: u8 = 0x23;
const DW_OP_BREG0: u8 = 0x70;

/// Returns the expression for a general register plus an offset. Its number is below 32.
fn register_plus(register: Register, offset: i64) -> Vec<u8> {
    let mut expression = vec![DW_OP_BREG0 + register.0 as u8];
    push_sleb128(&mut expression, offset);
    expression
}

fn push_sleb128(bytes: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = value as u8 & 0x7f;
        value >>= 7;
        let is_last = value == if byte & 0x40 == 0 { 0 } else { -1 };
        bytes.push(if is_last { byte } else { byte | 0x80 });
        if is_last {
            return;
        }
    }
}

fn push_uleb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Returns the directive for instructions that have no directive of their own.
fn escape(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
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
