//! Effects of instructions on the registers that a CFA can be based on, whatever the architecture.

use cfipack_format::{Address, Register, Rule};

/// The effect of one instruction on registers.
#[derive(Clone, Debug, Default)]
pub struct Effect {
    /// In this order, each with the values that the ones before left.
    pub changes: Vec<Change>,
    /// Registers, by their bits, that have an unknown value afterwards; none of those in `changes`.
    pub writes: u32,
}

/// A change whose result is known.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// `register = base + add`.
    Set { register: Register, base: Register, add: i64 },
    /// `register` is loaded from the memory at `base + offset`.
    Load { register: Register, base: Register, offset: i64 },
}

/// The flow of execution after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// At the next instruction.
    Next,
    /// The next instruction, after a call that may also never return.
    Call,
    /// At the next instruction or at the target, if it is known.
    Branch(Option<Address>),
    /// At the target only.
    Jump(Option<Address>),
    /// In the caller.
    Return,
    /// Nowhere.
    Stop,
}

/// The knowledge about the value of a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    /// Nothing.
    Unknown,
    /// The caller's value, loaded from where the CFI has it saved.
    Caller,
    /// The CFA plus this.
    Cfa(i32),
}

/// The knowledge about the values of the registers 0 to 31 before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State([Value; 32]);

impl State {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self([Value::Unknown; 32]);

    /// A register's value.
    pub fn get(&self, register: Register) -> Value {
        self.0.get(usize::from(register.0)).copied().unwrap_or(Value::Unknown)
    }

    /// Gives a register a value.
    pub fn set(&mut self, register: Register, value: Value) {
        if let Some(slot) = self.0.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }

    /// A register's value plus `add`.
    fn sum(&self, register: Register, add: i64) -> Value {
        match self.get(register) {
            Value::Cfa(offset) => {
                let sum = i64::from(offset).checked_add(add).and_then(|sum| i32::try_from(sum).ok());
                sum.map_or(Value::Unknown, Value::Cfa)
            }
            Value::Caller if add == 0 => Value::Caller,
            _ => Value::Unknown,
        }
    }

    /// Carries out an instruction; `saved` returns the rule by which the CFI restores a register.
    pub fn apply(&mut self, effect: &Effect, saved: impl Fn(Register) -> Rule) {
        for change in &effect.changes {
            match *change {
                Change::Set { register, base, add } => self.set(register, self.sum(base, add)),
                Change::Load { register, base, offset } => {
                    let is_own = match (self.sum(base, offset), saved(register)) {
                        (Value::Cfa(place), Rule::Cfa(rule)) => i64::from(place) == rule,
                        _ => false,
                    };
                    self.set(register, if is_own { Value::Caller } else { Value::Unknown });
                }
            }
        }
        for (register, value) in self.0.iter_mut().enumerate() {
            if effect.writes & (1 << register) != 0 {
                *value = Value::Unknown;
            }
        }
    }

    /// Keeps what is known on both ways to an instruction. Returns whether anything was lost.
    pub fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            if own != other && *own != Value::Unknown {
                *own = Value::Unknown;
                changed = true;
            }
        }
        changed
    }
}

impl Effect {
    /// Returns whether it gives a register a new value.
    pub fn changes(&self, register: Register) -> bool {
        let is_changed = |change: &Change| match change {
            Change::Set { register: own, .. } | Change::Load { register: own, .. } => *own == register,
        };
        self.changes.iter().any(is_changed) || (register.0 < 32 && self.writes & (1 << register.0) != 0)
    }
}
