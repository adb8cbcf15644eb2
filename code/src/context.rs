//! Facts about a whole function that the values in its states refer to.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::table::{JumpTables, TableBase};
use crate::value::{OUTSIDE, Value};

/// The jump tables and address-making instructions of a function, by number.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// The function's address.
    start: u64,
    pub tables: JumpTables,
    /// Numbers for instructions that make an address without a known distance to the CFA, by the instruction's
    /// offset.
    sites: BTreeMap<u32, u16>,
    /// The number of bytes below the stack pointer that no signal handler overwrites. If it is given, values below them
    /// are forgotten when the stack pointer rises.
    pub red_zone: Option<u32>,
    /// True if stores over saved registers count as stores that are never executed.
    pub ignores_overwrites: bool,
    /// The offsets of stores over saved registers, at most [`MAX_OVERWRITES`](Self::MAX_OVERWRITES).
    pub overwrites: BTreeSet<u32>,
}

impl Context {
    /// The most stores over saved registers that are remembered.
    pub(crate) const MAX_OVERWRITES: usize = 64;

    pub(crate) fn new(start: u64, red_zone: Option<u32>, ignores_overwrites: bool) -> Self {
        let (tables, sites) = (JumpTables::default(), BTreeMap::new());
        Self { start, tables, sites, red_zone, ignores_overwrites, overwrites: BTreeSet::new() }
    }

    /// Remembers a store over a saved register.
    pub(crate) fn overwritten(shared: &mut Shared<'_>, offset: u32) {
        if shared.overwrites.len() < Self::MAX_OVERWRITES && !shared.overwrites.contains(&offset) {
            shared.to_mut().overwrites.insert(offset);
        }
    }

    /// Turns a constant into a value.
    pub(crate) fn constant(&self, value: u64) -> Value {
        if let Ok(number) = i32::try_from(value as i64) {
            return Value::Number(number);
        }
        i32::try_from(value.wrapping_sub(self.start) as i64).map_or(Value::Unknown, Value::Near)
    }

    /// Returns the address that a value stands for, if it is a known address.
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

    /// Returns the number of an instruction that makes an address without a known distance to the CFA.
    pub(crate) fn site(shared: &mut Shared<'_>, offset: u32) -> Option<u16> {
        let next = u16::try_from(shared.sites.len()).ok().filter(|next| *next < OUTSIDE);
        match shared.sites.get(&offset) {
            Some(number) => Some(*number),
            None => next.inspect(|number| {
                shared.to_mut().sites.insert(offset, *number);
            }),
        }
    }

    /// Returns the number of the jump table that the instruction at an offset loads from.
    pub(crate) fn entry(
        shared: &mut Shared<'_>,
        offset: u32,
        table: (u64, u8, bool),
        limit: Option<u32>,
    ) -> Option<u32> {
        match shared.tables.known_entry(offset, table.0, limit) {
            Some(known) => known,
            None => Some(shared.to_mut().tables.entry(offset, table, limit)),
        }
    }

    /// Returns the target that a table entry plus `base` gives.
    pub(crate) fn target(shared: &mut Shared<'_>, entry: u32, base: TableBase) -> Value {
        match shared.tables.known_target(entry, base) {
            Some(known) => known,
            None => shared.to_mut().tables.target(entry, base),
        }
    }
}

/// The context of an analysis. It is copied only when something is added to it, and nothing is added after all paths
/// have been followed. A copy for each later look at an instruction would take time quadratic in the function's size.
pub(crate) type Shared<'c> = Cow<'c, Context>;
