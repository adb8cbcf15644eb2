//! What is known before an instruction: the values of registers, and of slots of the stack.

mod copies;
mod effect;
mod join;
mod registers;

use std::ops::Range;

use cfipack_format::{Arch, Register};

use self::registers::{Registers, indexes};
use crate::instruction::{Index, REGISTERS, index_of, register_of};
use crate::value::{Place, Value};

/// The most slots that are followed; what is stored in others is unknown.
const MAX_SLOTS: usize = 64;

/// The knowledge before an instruction, on every way from the function's entry to it.
#[derive(PartialEq, Eq, Debug)]
pub struct State {
    registers: Registers,
    /// Ascending by place.
    slots: Vec<(Place, Value)>,
    flags: Flags,
    /// A register that is below a number; 255 for a value in memory.
    limit: Option<(Index, u32)>,
}

/// The knowledge about the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flags {
    Unknown,
    /// They compare two registers.
    Compared(Index, Index),
    /// They compare a register with a constant.
    Limit(Index, u32),
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), ..*self }
    }

    /// Copies into the memory that is there.
    fn clone_from(&mut self, other: &Self) {
        let Self { registers, slots, flags, limit } = self;
        slots.clone_from(&other.slots);
        registers.copy(&other.registers);
        (*flags, *limit) = (other.flags, other.limit);
    }
}

impl State {
    /// The state at a function's entry, by the ABI.
    pub fn at_entry(arch: Arch) -> Self {
        let mut state =
            Self { registers: Registers::UNKNOWN, slots: Vec::new(), flags: Flags::Unknown, limit: None };
        for index in 0..REGISTERS as Index {
            if index_of(arch, register_of(index)) == Some(index) {
                state.registers.set(index, Value::caller(index));
            }
        }
        let pushed = arch.pushed_by_call() as i32;
        let stack = Value::Cfa(-(arch.cfa_offset_at_entry() as i32));
        state.set(arch, arch.stack_pointer(), stack);
        if pushed != 0 {
            let place = Place::new(None, -pushed);
            state.slots.push((place, Value::Caller(arch.return_address())));
        }
        state
    }

    /// A state in which nothing is known.
    pub fn unknown() -> Self {
        Self { registers: Registers::UNKNOWN, slots: Vec::new(), flags: Flags::Unknown, limit: None }
    }

    /// A register's value.
    pub fn get(&self, arch: Arch, register: Register) -> Value {
        index_of(arch, register).map_or(Value::Unknown, |index| self.at(index))
    }

    /// Gives a register a value.
    pub fn set(&mut self, arch: Arch, register: Register, value: Value) {
        if let Some(index) = index_of(arch, register) {
            self.registers.set(index, value);
        }
    }

    #[inline]
    pub(crate) fn at(&self, index: Index) -> Value {
        self.registers.get(index)
    }

    /// Returns whether registers, by their bits, have the caller's values.
    pub(crate) fn keeps(&self, bits: u64) -> bool {
        bits & !self.registers.known() == 0
            && indexes(bits).all(|index| self.at(index) == Value::caller(index))
    }

    /// The value stored at the CFA plus `offset`.
    pub fn slot(&self, offset: i64) -> Value {
        i32::try_from(offset).map_or(Value::Unknown, |offset| self.load(Place::new(None, offset)))
    }

    /// Stores a value at the CFA plus `offset`.
    pub fn set_slot(&mut self, offset: i32, value: Value) {
        self.store(Place::new(None, offset), value, 8);
    }

    /// The value of what a register, with an offset added, points at.
    pub fn pointed(&self, arch: Arch, register: Register, offset: i64) -> Value {
        let Ok(offset) = i32::try_from(offset) else { return Value::Unknown };
        self.get(arch, register).plus(offset).place().map_or(Value::Unknown, |place| self.load(place))
    }

    /// The slots in the frame: bytes from the CFA, and the value.
    pub fn slots(&self) -> impl Iterator<Item = (i32, Value)> {
        let in_frame = self.slots.iter().filter(|slot| slot.0.site().is_none());
        in_frame.map(|(place, value)| (place.offset(), *value))
    }

    pub(crate) fn num_slots(&self) -> usize {
        self.slots.len()
    }

    fn load(&self, place: Place) -> Value {
        // Mostly there are few, and those that were stored last are first.
        let found = self.slots.iter().find(|slot| slot.0 >= place).filter(|slot| slot.0 == place);
        found.map_or(Value::Unknown, |slot| slot.1)
    }

    /// The indexes of the slots of which `size` bytes at a place are a part.
    fn overlapped(&self, place: Place, size: u16) -> Range<usize> {
        let at = |offset| Place::new(place.site(), offset);
        let (first, end) =
            (at(place.offset().saturating_sub(7)), at(place.offset().saturating_add(size.into())));
        // Few are there, mostly.
        let before = self.slots.iter().take_while(|slot| slot.0 < first).count();
        before..before + self.slots[before..].iter().take_while(|slot| slot.0 < end).count()
    }

    fn store(&mut self, place: Place, value: Value, size: u16) {
        let Range { start: first, end: last } = self.overlapped(place, size);
        if first == last && !value.is_followed() {
            return;
        }
        if value.is_followed() && last - first == 1 && self.slots[first].0 == place {
            self.slots[first].1 = value;
            return;
        }
        self.slots.drain(first..last);
        if value.is_followed() && self.slots.len() < MAX_SLOTS {
            self.slots.insert(first, (place, value));
        }
    }

    /// What is known in another function, of the same frame: nothing that refers to the code of this one.
    pub(crate) fn carried(mut self) -> Self {
        let stays = |value: Value| match value {
            Value::Unknown
            | Value::Caller(_)
            | Value::Signed
            | Value::Perhaps(_)
            | Value::Cfa(_)
            | Value::Number(_) => true,
            Value::Site(..) | Value::Near(_) | Value::Entry(_) | Value::Target(_) => false,
        };
        let lost = self.registers.indexes().filter(|index| !stays(self.at(*index)));
        let lost = lost.fold(0, |bits, index| bits | 1 << index);
        self.registers.forget(lost);
        self.slots.retain(|(place, value)| place.site().is_none() && stays(*value));
        (self.flags, self.limit) = (Flags::Unknown, None);
        self
    }
}
