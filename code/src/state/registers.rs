//! The known values of registers.

use std::hash::{Hash, Hasher};

use crate::instruction::{Index, REGISTERS};
use crate::marks::indexes;
use crate::value::Value;

/// The values of registers. Nearly all registers are unknown nearly everywhere, so a bit says whether a register has
/// a value. This makes common work fast: to forget a register clears its bit, and a join only looks at registers with
/// bits in both states.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    known: u64,
    /// The values. A register with a clear bit has an old value here that no longer counts.
    values: [Value; REGISTERS],
}

impl Registers {
    /// All registers are unknown.
    pub const UNKNOWN: Self = Self { known: 0, values: [Value::Unknown; REGISTERS] };

    /// Copies all registers.
    #[inline]
    pub fn copy(&mut self, other: &Self) {
        self.known = other.known;
        // x86 has only 16 registers, so half of the array is enough.
        match other.known >> 16 {
            0 => self.values[..16].copy_from_slice(&other.values[..16]),
            _ => self.values = other.values,
        }
    }

    /// Returns a register's value. It is unknown for an index without a register.
    #[inline]
    pub fn get(&self, index: Index) -> Value {
        match self.values.get(usize::from(index)) {
            Some(value) if self.known & (1 << index) != 0 => *value,
            _ => Value::Unknown,
        }
    }

    #[inline]
    pub fn set(&mut self, index: Index, value: Value) {
        self.values[usize::from(index)] = value;
        let bit = 1 << index;
        self.known = if value == Value::Unknown { self.known & !bit } else { self.known | bit };
    }

    /// Makes registers unknown. The registers are bits.
    #[inline]
    pub fn forget(&mut self, bits: u64) {
        self.known &= !bits;
    }

    /// Returns the registers with a value, as bits.
    #[inline]
    pub fn known(&self) -> u64 {
        self.known
    }

    /// Iterates over the registers with a value, ascending.
    #[inline]
    pub fn indexes(&self) -> impl Iterator<Item = Index> + use<> {
        indexes(self.known)
    }
}

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        self.known == other.known && self.indexes().all(|index| self.get(index) == other.get(index))
    }
}

impl Eq for Registers {}

impl Hash for Registers {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.known.hash(hasher);
        self.indexes().for_each(|index| self.get(index).hash(hasher));
    }
}

impl std::fmt::Debug for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.indexes().map(|index| (index, self.get(index)))).finish()
    }
}
