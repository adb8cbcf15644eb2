//! The state before an instruction: the known values of registers and of stack slots.
//!
//! - [`registers`]: the values of registers
//! - [`effect`]: an instruction's effects on a state
//! - [`join`]: the state where two paths meet
//! - [`copies`]: the places that hold values of the caller's registers

mod copies;
mod effect;
mod join;
mod registers;

use std::ops::Range;

use cfipack_format::{Arch, Register};

pub(crate) use self::join::Loss;
use self::registers::Registers;
use crate::instruction::{Index, REGISTERS, index_of, register_of};
use crate::marks::indexes;
use crate::value::{Place, Value};

/// The most slots that a state remembers. The values of further slots are unknown.
const MAX_SLOTS: usize = 64;

/// The facts that hold before an instruction on every path from the function's entry.
///
/// An [`Analysis`](crate::Analysis) gives you a state for each instruction. You make a state yourself to say how a
/// function is entered: [`State::at_entry`] for a call, [`State::unknown`] with [`set`](Self::set) for anything else.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct State {
    registers: Registers,
    /// Slots with a known value, ascending by place.
    slots: Vec<(Place, Value)>,
    flags: Flags,
    /// A register and an upper bound (exclusive) of its value. The register number 255 stands for a value in memory.
    limit: Option<(Index, u32)>,
}

/// The meaning of the processor's flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Flags {
    Unknown,
    /// The flags come from comparing two registers.
    Compared(Index, Index),
    /// The flags come from comparing a register with a constant.
    Limit(Index, u32),
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self { slots: self.slots.clone(), ..*self }
    }

    /// Copies the other state and reuses this state's memory.
    fn clone_from(&mut self, other: &Self) {
        let Self { registers, slots, flags, limit } = self;
        slots.clone_from(&other.slots);
        registers.copy(&other.registers);
        (*flags, *limit) = (other.flags, other.limit);
    }
}

impl State {
    /// Returns the state at a function's entry after an ordinary call, by the architecture's ABI.
    pub fn at_entry(arch: Arch) -> Self {
        let mut state = Self::unknown();
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

    /// Returns a state in which nothing is known.
    pub fn unknown() -> Self {
        Self { registers: Registers::UNKNOWN, slots: Vec::new(), flags: Flags::Unknown, limit: None }
    }

    /// Returns a register's value.
    pub fn get(&self, arch: Arch, register: Register) -> Value {
        index_of(arch, register).map_or(Value::Unknown, |index| self.at(index))
    }

    /// Returns whether a frame may be in place: the stack pointer is not known to be where a call leaves it.
    pub fn has_frame(&self, arch: Arch) -> bool {
        self.get(arch, arch.stack_pointer()) != Value::Cfa(-(arch.cfa_offset_at_entry() as i32))
    }

    /// Sets a register's value. Registers that are not followed are ignored.
    pub fn set(&mut self, arch: Arch, register: Register, value: Value) {
        if let Some(index) = index_of(arch, register) {
            self.registers.set(index, value);
        }
    }

    #[inline]
    pub(crate) fn at(&self, index: Index) -> Value {
        self.registers.get(index)
    }

    /// Returns whether all registers in a bit set have the caller's values.
    pub(crate) fn keeps(&self, bits: u64) -> bool {
        bits & !self.registers.known() == 0
            && indexes(bits).all(|index| self.at(index) == Value::caller(index))
    }

    /// Returns the 8-byte value that is stored at the CFA plus `offset`.
    pub fn slot(&self, offset: i64) -> Value {
        i32::try_from(offset).map_or(Value::Unknown, |offset| self.load(Place::new(None, offset)))
    }

    /// Stores an 8-byte value at the CFA plus `offset`.
    pub fn set_slot(&mut self, offset: i32, value: Value) {
        self.store(Place::new(None, offset), value, 8);
    }

    /// Returns the value in memory at a register plus `offset`.
    pub fn pointed(&self, arch: Arch, register: Register, offset: i64) -> Value {
        let Ok(offset) = i32::try_from(offset) else { return Value::Unknown };
        self.get(arch, register).plus(offset).place().map_or(Value::Unknown, |place| self.load(place))
    }

    /// Iterates over the known slots in the frame: the offset from the CFA in bytes, and the value. The offsets
    /// ascend.
    pub fn slots(&self) -> impl Iterator<Item = (i32, Value)> {
        let in_frame = self.slots.iter().filter(|slot| slot.0.site().is_none());
        in_frame.map(|(place, value)| (place.offset(), *value))
    }

    /// Iterates over all places in memory with a known value, in the frame and elsewhere.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Place, Value)> {
        self.slots.iter().copied()
    }

    pub(crate) fn num_slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the memory of a copy, in bytes.
    pub(crate) fn memory(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.slots)
    }

    /// Changes the state before a call into the state at the called code: nothing is known about its return address.
    pub(crate) fn enter_call(&mut self, arch: Arch) {
        let pushed = arch.pushed_by_call() as i32;
        if pushed == 0 {
            self.set(arch, arch.return_address(), Value::Unknown);
            return;
        }
        let top = self.get(arch, arch.stack_pointer()).plus(-pushed);
        self.set(arch, arch.stack_pointer(), top);
        if let Some(place) = top.place() {
            self.store(place, Value::Unknown, pushed as u16);
        }
    }

    pub(crate) fn load(&self, place: Place) -> Value {
        // There are mostly few slots. The stack grows down, so recently stored values come first.
        let found = self.slots.iter().find(|slot| slot.0 >= place).filter(|slot| slot.0 == place);
        found.map_or(Value::Unknown, |slot| slot.1)
    }

    /// Returns the indexes of all slots that overlap `size` bytes at a place.
    fn overlapped(&self, place: Place, size: u16) -> Range<usize> {
        let at = |offset| Place::new(place.site(), offset);
        let (first, end) =
            (at(place.offset().saturating_sub(7)), at(place.offset().saturating_add(size.into())));
        // There are mostly few slots, so counting beats a binary search.
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

    /// Returns the state as another function sees it after a jump within the same frame. Facts that refer to this
    /// function's code are dropped.
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
