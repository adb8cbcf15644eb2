//! What an analysis collects about a function as it follows it.

use std::collections::BTreeMap;

use crate::table::JumpTables;
use crate::value::Value;

/// What values of a function's states refer to.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The function's address.
    start: u64,
    pub tables: JumpTables,
    /// Numbers of instructions that make values without a known distance from the CFA, by their offsets.
    sites: BTreeMap<u32, u16>,
}

impl Context {
    pub(crate) fn new(start: u64) -> Self {
        Self { start, tables: JumpTables::default(), sites: BTreeMap::new() }
    }

    /// A constant as a value.
    pub(crate) fn constant(&self, value: u64) -> Value {
        let near = || i32::try_from(value.wrapping_sub(self.start) as i64).map(Value::Near);
        i32::try_from(value as i64).map(Value::Number).or_else(|_| near()).unwrap_or(Value::Unknown)
    }

    /// The address that a value is.
    pub(crate) fn address(&self, value: Value) -> Option<u64> {
        match value {
            Value::Number(value) => Some(i64::from(value) as u64),
            Value::Near(offset) => Some(self.start.wrapping_add_signed(offset.into())),
            Value::Unknown
            | Value::Caller(_)
            | Value::Signed
            | Value::Perhaps(_)
            | Value::Cfa(_)
            | Value::Site(..)
            | Value::Entry(_)
            | Value::Target(_) => None,
        }
    }

    /// The number of an instruction that makes a value without a known distance from the CFA.
    pub(crate) fn site(&mut self, offset: u32) -> Option<u16> {
        let next = u16::try_from(self.sites.len()).ok();
        match self.sites.get(&offset) {
            Some(number) => Some(*number),
            None => next.inspect(|number| {
                self.sites.insert(offset, *number);
            }),
        }
    }
}
