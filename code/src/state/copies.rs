//! The places in a state that hold, or may hold, values of the caller's registers.

use cfipack_format::{Arch, Register};

use super::State;
use crate::instruction::{callee_saved, index_of};
use crate::value::{Place, Value};

impl State {
    /// Returns whether the bytes at a place are the last copy of the return address or of a callee-saved register.
    ///
    /// Code that returns never overwrites the last copy. If a store seems to overwrite it, the store is on a path that
    /// is never taken. For example, a pointer comes from another turn of a loop over a buffer, or GCC has expanded
    /// `memcpy` for sizes that do not occur.
    pub(super) fn has_only_copy(&self, arch: Arch, place: Place, size: u16) -> bool {
        self.slots[self.overlapped(place, size)].iter().any(|&(slot, value)| {
            let own = match value {
                Value::Caller(register) => register,
                Value::Signed => arch.return_address(),
                _ => return false,
            };
            let copies = self.slots.iter().filter(|slot| slot.1 == value && slot.0.is_in_frame()).count();
            let is_kept = own == arch.return_address()
                || index_of(arch, own).is_some_and(|index| callee_saved(arch).contains(&index));
            // A store that cuts a saved register runs over the end of an object beside it.
            let is_cut = (place.offset().wrapping_sub(slot.offset())) % 8 != 0;
            is_kept && (is_cut || (copies == 1 && self.get(arch, own) != value))
        })
    }

    /// Returns the callee-saved registers, and slots with their values, that one state has and the other state may
    /// lack.
    pub(crate) fn disagreements(&self, arch: Arch, other: &Self) -> Vec<(Register, Option<i32>)> {
        let mut all = Vec::new();
        for (state, against) in [(self, other), (other, self)] {
            let kept = callee_saved(arch).iter().filter(|index| state.at(**index) == Value::caller(**index));
            let differ = kept.map(|index| (state.at(*index), against.at(*index), None));
            let places =
                state.slots().map(|(offset, value)| (value, against.slot(offset.into()), Some(offset)));
            for (value, there, slot) in differ.chain(places) {
                let Value::Caller(register) = value else { continue };
                if !index_of(arch, register).is_some_and(|index| callee_saved(arch).contains(&index)) {
                    continue;
                }
                if there != value && there != Value::Perhaps(register) {
                    all.push((register, slot));
                }
            }
        }
        all
    }

    /// Records that a register or slot may have lost the caller's value.
    pub(crate) fn doubt(&mut self, arch: Arch, register: Register, slot: Option<i32>) {
        match slot {
            Some(offset) => self.set_slot(offset, Value::Perhaps(register)),
            None => self.set(arch, register, Value::Perhaps(register)),
        }
    }

    /// Returns the registers, as bits, whose caller's value is stored in the frame.
    pub(crate) fn stored(&self, arch: Arch) -> u64 {
        self.slots().fold(0, |bits, (_, value)| match value {
            Value::Caller(register) => bits | index_of(arch, register).map_or(0, |index| 1 << index),
            _ => bits,
        })
    }

    /// Returns the registers, as bits, with a [`Value::Perhaps`] in some register or slot.
    pub(super) fn perhaps(&self, arch: Arch) -> u64 {
        let values = self.registers.indexes().map(|index| self.at(index));
        values.chain(self.slots.iter().map(|slot| slot.1)).fold(0, |bits, value| match value {
            Value::Perhaps(register) => bits | index_of(arch, register).map_or(0, |index| 1 << index),
            _ => bits,
        })
    }
}
