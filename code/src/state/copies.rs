//! The places in a state that have the caller's registers, or may have them.

use cfipack_format::{Arch, Register};

use super::State;
use crate::instruction::{callee_saved, index_of};
use crate::value::{Place, Value};

impl State {
    /// Returns whether bytes at a place are all that is left of the return address or of a register that the function has to
    /// restore. No store to an object of the frame overwrites those: if one seems to, its pointer is that of a way that is
    /// never taken, such as another turn of a loop over a buffer.
    pub(super) fn has_only_copy(&self, arch: Arch, place: Place, size: u16) -> bool {
        self.slots[self.overlapped(place, size)].iter().map(|slot| slot.1).any(|value| {
            let own = match value {
                Value::Caller(register) => register,
                Value::Signed => arch.return_address(),
                _ => return false,
            };
            let copies = self.slots.iter().filter(|slot| slot.1 == value).count();
            let is_kept = own == arch.return_address()
                || index_of(arch, own).is_some_and(|index| callee_saved(arch).contains(&index));
            is_kept && copies == 1 && self.get(arch, own) != value
        })
    }

    /// The registers that the function keeps for its caller, and slots with their values, that one of two states has and the
    /// other may not have.
    pub(crate) fn disagreements(&self, arch: Arch, other: &Self) -> Vec<(Register, Option<i32>)> {
        let is_saved =
            |register| index_of(arch, register).is_some_and(|own| callee_saved(arch).contains(&own));
        let own = |value: Value| match value {
            Value::Caller(register) => Some(register).filter(|register| is_saved(*register)),
            _ => None,
        };
        let mut all = Vec::new();
        for (one, two) in [(self, other), (other, self)] {
            let kept = callee_saved(arch).iter().filter(|index| one.at(**index) == Value::caller(**index));
            let differ = kept.map(|index| (one.at(*index), two.at(*index), None));
            let places = one.slots().map(|(offset, value)| (value, two.slot(offset.into()), Some(offset)));
            for (value, there, slot) in differ.chain(places) {
                let Some(register) = own(value) else { continue };
                if there != value && there != Value::Perhaps(register) {
                    all.push((register, slot));
                }
            }
        }
        all
    }

    /// Forgets whether a place has what it may have.
    pub(crate) fn doubt(&mut self, arch: Arch, register: Register, slot: Option<i32>) {
        match slot {
            Some(offset) => self.set_slot(offset, Value::Perhaps(register)),
            None => self.set(arch, register, Value::Perhaps(register)),
        }
    }

    /// The bits of registers of the caller whose value may be somewhere.
    pub(super) fn perhaps(&self, arch: Arch) -> u64 {
        let values = self.registers.indexes().map(|index| self.at(index));
        values.chain(self.slots.iter().map(|slot| slot.1)).fold(0, |bits, value| match value {
            Value::Perhaps(register) => bits | index_of(arch, register).map_or(0, |index| 1 << index),
            _ => bits,
        })
    }
}
