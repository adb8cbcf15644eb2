//! Rows in JSON.

use std::collections::BTreeMap;

use cfipack_format::{Arch, Cfa, Register, RegisterName, Row, Rule, Saved};
use serde::Serialize;

/// A row. `start` counts from the function's start. `cfa` is null in an outermost frame, and for a DWARF expression.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RowJson {
    start: u32,
    cfa: Option<Value>,
    return_address: RuleJson,
    frame_pointer: RuleJson,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    signed: bool,
}

/// The value of a rule: a register plus an offset, or the memory at that address.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Value {
    /// A register's name, or `cfa`.
    base: String,
    offset: i64,
    /// True if the value is in memory at that address.
    stored: bool,
}

/// How a register of the caller is restored: a word, or a value.
#[derive(Serialize, Debug)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum RuleJson {
    /// `same`, `undefined` or `expression`.
    Word(&'static str),
    Value(Value),
}

/// Returns the saved registers of a compact encoding by name, each with its offset from the CFA in bytes.
pub fn saved(arch: Arch, saved: &Saved) -> BTreeMap<String, i32> {
    let registers = saved.as_slice().iter();
    registers.map(|&(register, at)| (RegisterName(arch, register).to_string(), at)).collect()
}

impl RowJson {
    /// Describes a row of a function for this architecture.
    pub fn new(arch: Arch, row: &Row) -> Self {
        let value = |register, offset, stored| {
            Some(Value { base: RegisterName(arch, register).to_string(), offset, stored })
        };
        Self {
            start: row.start.0,
            cfa: match row.cfa {
                Cfa::Undefined | Cfa::Expression => None,
                Cfa::Register { register, offset } => value(register, offset, false),
                Cfa::Memory { register, offset } => value(register, offset, true),
            },
            return_address: RuleJson::new(arch, row.return_address),
            frame_pointer: RuleJson::new(arch, row.frame_pointer),
            signed: row.signed,
        }
    }
}

impl RuleJson {
    fn new(arch: Arch, rule: Rule) -> Self {
        let cfa = |offset, stored| Self::Value(Value { base: "cfa".to_string(), offset, stored });
        let name = |register: Register| RegisterName(arch, register).to_string();
        match rule {
            Rule::SameValue => Self::Word("same"),
            Rule::Undefined => Self::Word("undefined"),
            Rule::Expression => Self::Word("expression"),
            Rule::Cfa(offset) => cfa(offset, true),
            Rule::ValCfa(offset) => cfa(offset, false),
            Rule::Register { register, offset } => {
                Self::Value(Value { base: name(register), offset, stored: false })
            }
            Rule::Memory { register, offset } => {
                Self::Value(Value { base: name(register), offset, stored: true })
            }
        }
    }
}
