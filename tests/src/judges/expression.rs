//! Evaluates DWARF expressions as llvm-dwarfdump prints them. Registers are symbols without a value.

use cfipack_format::{Arch, Register};

use super::{registers, signed};

/// The value of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// A number.
    Constant(i64),
    /// A register plus an offset.
    Register(Register, i64),
    /// The pointer stored at a register plus an offset.
    Memory(Register, i64),
}

/// Evaluates an expression at a PC. Returns `None` for an unknown operation, or if the result is no [`Value`], such as
/// a sum of two registers.
pub fn evaluate(text: &str, arch: Arch, pc: u64) -> Option<Value> {
    let mut stack = Vec::new();
    for operation in text.split(", ") {
        let value = match operation.split_once(' ').unwrap_or((operation, "")) {
            (name, operand) if name.starts_with("DW_OP_breg") => {
                let sign = operand.rfind(['+', '-'])?;
                let register = registers::number(arch, &operand[..sign])?;
                let offset = signed(&operand[sign..])?;
                let is_pc = arch == Arch::Amd64 && register == Register(16);
                if is_pc { Value::Constant(pc as i64 + offset) } else { Value::Register(register, offset) }
            }
            ("DW_OP_deref", _) => match stack.pop()? {
                Value::Register(register, offset) => Value::Memory(register, offset),
                _ => return None,
            },
            ("DW_OP_plus_uconst", operand) => add(stack.pop()?, constant(operand)?)?,
            (name, operand) if name.starts_with("DW_OP_const") => Value::Constant(constant(operand)?),
            (name, _) if name.starts_with("DW_OP_lit") => {
                Value::Constant(name["DW_OP_lit".len()..].parse().ok()?)
            }
            (name, _) => {
                let second = stack.pop()?;
                binary(name, stack.pop()?, second)?
            }
        };
        stack.push(value);
    }
    stack.pop()
}

fn constant(operand: &str) -> Option<i64> {
    match operand.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|value| value as i64),
        None => signed(operand),
    }
}

fn add(value: Value, by: i64) -> Option<Value> {
    match value {
        Value::Constant(value) => Some(Value::Constant(value.wrapping_add(by))),
        Value::Register(register, offset) => Some(Value::Register(register, offset.wrapping_add(by))),
        Value::Memory(..) => None,
    }
}

fn binary(name: &str, first: Value, second: Value) -> Option<Value> {
    match (name, first, second) {
        ("DW_OP_plus", value, Value::Constant(by)) | ("DW_OP_plus", Value::Constant(by), value) => {
            add(value, by)
        }
        (_, Value::Constant(a), Value::Constant(b)) => Some(Value::Constant(match name {
            "DW_OP_and" => a & b,
            "DW_OP_ge" => i64::from(a >= b),
            "DW_OP_shl" => a.checked_shl(b.try_into().ok()?)?,
            _ => return None,
        })),
        _ => None,
    }
}
