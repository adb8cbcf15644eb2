//! Saved registers, which accompany a row.

use core::fmt;

use crate::Register;

/// The places where a function saved registers of its caller. Each place is an offset from the CFA in bytes.
///
/// The return address and the frame pointer are in the [row](crate::Row), not here. Two values are equal if the
/// same registers were added in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Saved {
    slots: [(Register, i32); Self::CAPACITY],
    count: u8,
}

impl Saved {
    /// The greatest number of registers that a compact encoding can restore, without the frame pointer and the
    /// return address: arm64's x19 to x28 and d8 to d15.
    pub const CAPACITY: usize = 18;

    /// Creates a value without registers.
    pub const fn new() -> Self {
        Self { slots: [(Register(0), 0); Self::CAPACITY], count: 0 }
    }

    /// Adds a register that is stored at the CFA plus `offset` bytes. If there are already
    /// [`CAPACITY`](Self::CAPACITY) registers, adds nothing and returns `false`.
    pub fn push(&mut self, register: Register, offset: i32) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(self.count)) else { return false };
        *slot = (register, offset);
        self.count += 1;
        true
    }

    /// Returns the registers and their offsets from the CFA in bytes, in the order in which they were added.
    pub fn as_slice(&self) -> &[(Register, i32)] {
        &self.slots[..usize::from(self.count)]
    }

    /// Returns the register's offset from the CFA in bytes, or `None` if the register is not saved.
    pub fn offset_of(&self, register: Register) -> Option<i32> {
        self.as_slice().iter().find(|slot| slot.0 == register).map(|slot| slot.1)
    }
}

impl Default for Saved {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.as_slice().iter().map(|(register, offset)| (register.0, offset))).finish()
    }
}
