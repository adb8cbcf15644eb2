//! Writes rows as `.cfi_*` directives.

use cfipack_code::{FullRow, Rows};
use cfipack_format::{Arch, Cfa, Register, RegisterName, Row, Rule};

/// Returns the directives for each row of a function. The directives of the first row follow `.cfi_startproc`.
///
/// Returns `None` if only an expression could represent a rule. Rows that are made from code have no such rule.
pub fn directives(arch: Arch, rows: &Rows) -> Option<Vec<Vec<String>>> {
    let entry = Cfa::Register { register: arch.stack_pointer(), offset: arch.cfa_offset_at_entry() };
    let mut before = FullRow { row: Row { cfa: entry, ..Row::at_entry(arch) }, saved: &[] };
    let mut all = Vec::new();
    for row in rows.iter() {
        all.push(between(arch, before, row)?);
        before = row;
    }
    Some(all)
}

/// Returns the directives that change one row into the next.
fn between(arch: Arch, before: FullRow<'_>, row: FullRow<'_>) -> Option<Vec<String>> {
    let mut list = Vec::new();
    list.extend(cfa(arch, before.row.cfa, row.row.cfa)?);
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
            Rule::Register { .. } | Rule::ValCfa(_) | Rule::Memory { .. } | Rule::Expression => return None,
        });
    }
    if before.row.signed != row.row.signed {
        list.push(".cfi_negate_ra_state".to_owned());
    }
    Some(list)
}

fn cfa(arch: Arch, before: Cfa, cfa: Cfa) -> Option<Option<String>> {
    let Cfa::Register { register, offset } = cfa else { return None };
    Some(match before {
        before if before == cfa => None,
        Cfa::Register { register: old, .. } if old == register => {
            Some(format!(".cfi_def_cfa_offset {offset}"))
        }
        Cfa::Register { offset: old, .. } if old == offset => {
            Some(format!(".cfi_def_cfa_register {}", name(arch, register)))
        }
        _ => Some(format!(".cfi_def_cfa {}, {offset}", name(arch, register))),
    })
}

/// Returns a register's name in a form that GNU's and LLVM's assemblers read with every instruction syntax.
fn name(arch: Arch, register: Register) -> String {
    match arch.pushed_by_call() {
        0 => RegisterName(arch, register).to_string(),
        _ => format!("%{}", RegisterName(arch, register)),
    }
}
