//! The places in a state that hold, or may hold, values of the caller's registers.

use cfipack_format::{Arch, Register};

use super::State;
use super::effect::is_kept;
use crate::instruction::{callee_saved, index_of};
use crate::value::{Place, Value};

impl State {
    /// Returns whether a store changes a slot in the frame that has the return address or the caller's value of a
    /// callee-saved register. Slots below the stack pointer do not count.
    pub(super) fn overwrites(&self, arch: Arch, place: Place, value: Value, size: u16) -> bool {
        let top = match self.get(arch, arch.stack_pointer()) {
            Value::Cfa(top) => top,
            _ => i32::MIN,
        };
        self.slots[self.overlapped(place, size)].iter().any(|&(slot, old)| {
            let is_same = slot == place && old == value;
            is_kept(arch, old) && !is_same && (slot.site().is_some() || slot.offset() >= top)
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

    /// Returns the registers, as bits, whose caller's value is stored or in a register.
    pub(crate) fn held(&self, arch: Arch) -> u64 {
        let registers = self.registers.indexes().map(|index| self.at(index));
        self.slots.iter().map(|slot| slot.1).chain(registers).fold(0, |bits, value| match value {
            Value::Caller(register) => bits | index_of(arch, register).map_or(0, |index| 1 << index),
            _ => bits,
        })
    }

    /// Returns whether the return address is where the call has left it: on top of the stack, or in the link register.
    pub(crate) fn has_link(&self, arch: Arch) -> bool {
        let link = match arch.pushed_by_call() {
            0 => self.get(arch, arch.return_address()),
            _ => self.pointed(arch, arch.stack_pointer(), 0),
        };
        link == Value::Caller(arch.return_address()) || link == Value::Signed
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
