//! What an analysis collects about a function as it follows it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::table::{JumpTables, TableBase};
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
    pub(crate) fn site(shared: &mut Shared<'_>, offset: u32) -> Option<u16> {
        let next = u16::try_from(shared.sites.len()).ok();
        match shared.sites.get(&offset) {
            Some(number) => Some(*number),
            None => next.inspect(|number| {
                shared.to_mut().sites.insert(offset, *number);
            }),
        }
    }

    /// The number of the table that the instruction at an offset loads an entry of.
    pub(crate) fn entry(
        shared: &mut Shared<'_>,
        offset: u32,
        (address, size, signed): (u64, u8, bool),
        limit: Option<u32>,
    ) -> Option<u32> {
        match shared.tables.known_entry(offset, address, limit) {
            Some(known) => known,
            None => shared.to_mut().tables.entry(offset, address, size, signed, limit),
        }
    }

    /// The target that an entry of a table with something added gives.
    pub(crate) fn target(shared: &mut Shared<'_>, entry: u32, base: TableBase) -> Value {
        match shared.tables.known_target(entry, base) {
            Some(known) => known,
            None => shared.to_mut().tables.target(entry, base),
        }
    }
}

/// The context of an analysis, copied where something is added. Once all ways have been followed, nothing is: a copy for each
/// instruction that is looked at would cost the square of a function's size.
pub(crate) type Shared<'c> = Cow<'c, Context>;
