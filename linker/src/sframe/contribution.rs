//! Contribution of an object to a table.

use core::ops::AddAssign;

/// The counts of an object's functions by what became of them. Each is counted once, by where its rows come from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Contribution {
    /// Functions with the rows of the object's table, copied.
    pub copied: u64,
    /// Functions with the rows of the object's table, encoded again.
    pub reencoded: u64,
    /// Functions with rows from CFI.
    pub from_cfi: u64,
    /// Functions that live and have no rows in the output; records of `.eh_frame` that cannot be read among them.
    pub omitted: u64,
    /// Entries of the object's table whose functions are discarded.
    pub dead: u64,
    /// The number of tables, whole or in part, that were skipped.
    pub skipped: u64,
}

impl Contribution {
    /// Functions that have rows in the output.
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
