//! What is known about registers.

use crate::instruction::{Index, REGISTERS};
use crate::value::Value;

/// The values of registers. Most of them are unknown nearly everywhere, so that a bit tells for each whether there is one:
/// instructions that make values unknown clear bits, and states are compared and joined where both have bits.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    known: u64,
    /// Left over from before where nothing is known.
    values: [Value; REGISTERS],
}

impl Registers {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { known: 0, values: [Value::Unknown; REGISTERS] };

    /// Makes these the same as others.
    #[inline]
    pub fn copy(&mut self, other: &Self) {
        self.known = other.known;
        // x86 has 16 registers.
        match other.known >> 16 {
            0 => self.values[..16].copy_from_slice(&other.values[..16]),
            _ => self.values = other.values,
        }
    }

    /// A register's value; unknown for an index that no register has.
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

    /// Makes registers unknown, by their bits.
    #[inline]
    pub fn forget(&mut self, bits: u64) {
        self.known &= !bits;
    }

    /// The bits of registers with a value.
    #[inline]
    pub fn known(&self) -> u64 {
        self.known
    }

    /// The registers with a value, ascending.
    #[inline]
    pub fn indexes(&self) -> impl Iterator<Item = Index> + use<> {
        indexes(self.known)
    }
}

/// The numbers of bits that are set, ascending.
#[inline]
pub(super) fn indexes(mut bits: u64) -> impl Iterator<Item = Index> {
    std::iter::from_fn(move || {
        let index = (bits != 0).then(|| bits.trailing_zeros() as Index)?;
        bits &= bits - 1;
        Some(index)
    })
}

impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        self.known == other.known && self.indexes().all(|index| self.get(index) == other.get(index))
    }
}

impl Eq for Registers {}

impl std::fmt::Debug for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.indexes().map(|index| (index, self.get(index)))).finish()
    }
}
