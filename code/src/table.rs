//! Jump tables, as `switch` statements compile to them, and the memory that they are read from.

use std::collections::BTreeMap;

use cfipack_format::{Address, Endian};

use crate::value::Value;

/// The most tables that are remembered for a function.
const MAX_TABLES: usize = 1 << 12;

/// The jump tables that a function's instructions load from.
#[derive(Clone, Debug, Default)]
pub(crate) struct JumpTables {
    list: Vec<JumpTable>,
    /// The number of the table, by the offset of the loading instruction.
    sites: BTreeMap<u32, u32>,
}

/// A table of code addresses, or of offsets that give code addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JumpTable {
    address: u64,
    /// The size of an entry in bytes.
    size: u8,
    signed: bool,
    /// The number of entries, if a comparison in the code bounds the index.
    limit: Option<u32>,
    /// `None` if the entries are addresses.
    base: Option<TableBase>,
}

/// The address that is added to each entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableBase {
    pub base: u64,
    /// Each entry counts units of `1 << shift` bytes.
    pub shift: u8,
    pub signed: bool,
}

/// The memory of the file that the code comes from. Implement it so that an analysis can read jump tables.
pub trait Memory {
    /// Returns the file's bytes from an address to the end of the section or segment around it. Return an empty slice
    /// if the file has no bytes there.
    fn at(&self, address: Address) -> &[u8];

    /// Returns the lowest address after `address` where other data may start, if any is known. A jump table ends there
    /// if no comparison in the code bounds it.
    fn next_data(&self, _address: Address) -> Option<Address> {
        None
    }
}

/// A file without readable memory. Jump tables remain unknown, and indirect jumps become doubts.
#[derive(Clone, Copy, Debug)]
pub struct NoMemory;

impl Memory for NoMemory {
    fn at(&self, _: Address) -> &[u8] {
        &[]
    }
}

impl JumpTables {
    /// Returns the number of the table that an instruction loads from, if the tables need no change for the answer. The
    /// inner `None` means that the instruction has no usable table.
    pub(crate) fn known_entry(&self, site: u32, address: u64, limit: Option<u32>) -> Option<Option<u32>> {
        let Some(&number) = self.sites.get(&site) else {
            return (self.list.len() >= MAX_TABLES).then_some(None);
        };
        let known = &self.list[number as usize];
        if known.address != address {
            return Some(None);
        }
        (known.limit == known.limit_with(limit)).then_some(Some(number))
    }

    /// Returns the target that a table entry plus `base` gives, if the tables need no change for the answer.
    pub(crate) fn known_target(&self, entry: u32, base: TableBase) -> Option<Value> {
        match self.list.get(entry as usize).map(|table| table.base) {
            None => Some(Value::Unknown),
            Some(Some(known)) if known == base => Some(Value::Target(entry)),
            Some(Some(_)) => Some(Value::Unknown),
            Some(None) => None,
        }
    }

    /// Returns the number of the table that an instruction loads from, where [`known_entry`](Self::known_entry) has no
    /// answer. Adds the table if it is new.
    pub(crate) fn entry(
        &mut self,
        site: u32,
        (address, size, signed): (u64, u8, bool),
        limit: Option<u32>,
    ) -> u32 {
        let next = self.list.len() as u32;
        let number = *self.sites.entry(site).or_insert(next);
        match self.list.get_mut(number as usize) {
            // Another path has compared the index less strictly, or not at all.
            Some(known) => known.limit = known.limit_with(limit),
            None => self.list.push(JumpTable { address, size, signed, limit, base: None }),
        }
        number
    }

    /// Returns the target that a table entry plus `base` gives, where [`known_target`](Self::known_target) has no answer.
    pub(crate) fn target(&mut self, entry: u32, base: TableBase) -> Value {
        self.list[entry as usize].base = Some(base);
        Value::Target(entry)
    }

    /// Returns a table by its number.
    pub(crate) fn get(&self, number: u32) -> Option<JumpTable> {
        self.list.get(number as usize).copied()
    }
}

impl JumpTable {
    /// Makes a table whose entries are addresses.
    pub(crate) fn of_addresses(address: u64, size: u8, limit: Option<u32>) -> Self {
        Self { address, size, signed: false, limit, base: None }
    }

    /// Returns the number of entries if two paths bound the index differently: the larger bound, or none.
    fn limit_with(&self, limit: Option<u32>) -> Option<u32> {
        Some(self.limit?.max(limit?))
    }

    /// Iterates over the targets in the table, up to its limit or the end of the file's bytes.
    pub(crate) fn targets<'m>(
        &self,
        memory: &'m dyn Memory,
        endian: Endian,
    ) -> impl Iterator<Item = Address> + use<'m> {
        let Self { address, size, signed, limit, base } = *self;
        let size = usize::from(size.max(1));
        let entries = memory.at(Address(address)).chunks_exact(size);
        let limit = limit.map_or(usize::MAX, |limit| limit as usize);
        entries.take(limit).map(move |bytes| {
            let value = number(bytes, endian);
            let unused = 64 - 8 * size.min(8) as u32;
            let is_signed = signed || base.is_some_and(|base| base.signed);
            let value = if is_signed { ((value << unused) as i64 >> unused) as u64 } else { value };
            Address(base.map_or(value, |base| base.base.wrapping_add(value << base.shift)))
        })
    }

    /// Returns the address of the first entry.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Returns how many whole entries fit before an address.
    pub(crate) fn count_up_to(&self, end: u64) -> usize {
        usize::try_from(end.saturating_sub(self.address) / u64::from(self.size.max(1))).unwrap_or(usize::MAX)
    }

    /// Returns whether a comparison bounds the number of entries.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }
}

/// Reads a number of at most 8 bytes.
pub(crate) fn number(bytes: &[u8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => bytes.iter().rev().fold(0, push_byte),
        Endian::Big => bytes.iter().fold(0, push_byte),
    }
}

fn push_byte(value: u64, byte: &u8) -> u64 {
    value << 8 | u64::from(*byte)
}
