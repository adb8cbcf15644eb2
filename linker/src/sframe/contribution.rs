//! Counts of an object's functions.

use core::ops::AddAssign;

/// Counts an object's functions by the source of their rows. Each function is counted once.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Contribution {
    /// Functions whose rows were copied from the object's table.
    pub copied: u64,
    /// Functions whose rows were decoded from the object's table and encoded again.
    pub reencoded: u64,
    /// Functions with rows from CFI.
    pub from_cfi: u64,
    /// Live functions without rows in the output, and records of `.eh_frame` that cannot be read.
    pub omitted: u64,
    /// Entries of the object's table for discarded functions.
    pub dead: u64,
    /// The number of tables that were skipped, in full or in part.
    pub skipped: u64,
}

impl Contribution {
    /// Returns the number of functions that have rows in the output.
    pub const fn functions(&self) -> u64 {
        self.copied + self.reencoded + self.from_cfi
    }
}

impl AddAssign for Contribution {
    fn add_assign(&mut self, other: Self) {
        self.copied += other.copied;
        self.reencoded += other.reencoded;
        self.from_cfi += other.from_cfi;
        self.omitted += other.omitted;
        self.dead += other.dead;
        self.skipped += other.skipped;
    }
}
