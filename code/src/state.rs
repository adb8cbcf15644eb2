//! What is known before an instruction: the values of registers, and of slots of the stack.

mod copies;

use cfipack_format::{Arch, Register};

use crate::context::Context;
use crate::instruction::{
    Flow, Index, Instruction, Op, REGISTERS, Table, callee_saved, index_of, register_of,
};
use crate::table::TableBase;
use crate::value::{Place, Value};

/// The most slots that are followed; what is stored in others is unknown.
const MAX_SLOTS: usize = 64;

/// The knowledge before an instruction, on every way from the function's entry to it.
#[derive(PartialEq, Eq, Debug)]
pub struct State {
    registers: [Value; REGISTERS],
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
        (*registers, *flags, *limit) = (other.registers, other.flags, other.limit);
    }
}

/// Returns whether a register is one that compilers address slots of saved registers by.
fn is_frame(arch: Arch, base: Index) -> bool {
    let base = Register(base.into());
    base == arch.stack_pointer() || base == arch.frame_pointer()
}

/// The result of joining two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Joined {
    /// Something is known no more.
    pub changed: bool,
    /// The stack pointer, or the place of a register of the caller, was known on both ways and is no more.
    pub lost: bool,
}

impl State {
    /// The state at a function's entry, by the ABI.
    pub fn at_entry(arch: Arch) -> Self {
        let mut state = Self {
            registers: [Value::Unknown; REGISTERS],
            slots: Vec::new(),
            flags: Flags::Unknown,
            limit: None,
        };
        for index in 0..REGISTERS as Index {
            if index_of(arch, register_of(index)) == Some(index) {
                state.registers[usize::from(index)] = Value::caller(index);
            }
        }
        let pushed = arch.pushed_by_call() as i32;
        let stack = Value::Cfa(-(arch.cfa_offset_at_entry() as i32));
        state.registers[usize::from(arch.stack_pointer().0)] = stack;
        if pushed != 0 {
            let place = Place { site: None, offset: -pushed };
            state.slots.push((place, Value::Caller(arch.return_address())));
        }
        state
    }

    /// A state in which nothing is known.
    pub fn unknown() -> Self {
        Self { registers: [Value::Unknown; REGISTERS], slots: Vec::new(), flags: Flags::Unknown, limit: None }
    }

    /// A register's value.
    pub fn get(&self, arch: Arch, register: Register) -> Value {
        index_of(arch, register).map_or(Value::Unknown, |index| self.at(index))
    }

    /// Gives a register a value.
    pub fn set(&mut self, arch: Arch, register: Register, value: Value) {
        if let Some(index) = index_of(arch, register) {
            self.registers[usize::from(index)] = value;
        }
    }

    pub(crate) fn at(&self, index: Index) -> Value {
        self.registers.get(usize::from(index)).copied().unwrap_or(Value::Unknown)
    }

    /// The value stored at the CFA plus `offset`.
    pub fn slot(&self, offset: i64) -> Value {
        i32::try_from(offset).map_or(Value::Unknown, |offset| self.load(Place { site: None, offset }))
    }

    /// Stores a value at the CFA plus `offset`.
    pub fn set_slot(&mut self, offset: i32, value: Value) {
        self.store(Place { site: None, offset }, value, 8);
    }

    /// The value of what a register, with an offset added, points at.
    pub fn pointed(&self, arch: Arch, register: Register, offset: i64) -> Value {
        let Ok(offset) = i32::try_from(offset) else { return Value::Unknown };
        self.get(arch, register).plus(offset).place().map_or(Value::Unknown, |place| self.load(place))
    }

    /// The slots in the frame: bytes from the CFA, and the value.
    pub fn slots(&self) -> impl Iterator<Item = (i32, Value)> {
        let in_frame = self.slots.iter().filter(|slot| slot.0.site.is_none());
        in_frame.map(|(place, value)| (place.offset, *value))
    }

    pub(crate) fn num_slots(&self) -> usize {
        self.slots.len()
    }

    fn load(&self, place: Place) -> Value {
        let found = self.slots.binary_search_by_key(&place, |slot| slot.0);
        found.map_or(Value::Unknown, |index| self.slots[index].1)
    }

    fn store(&mut self, place: Place, value: Value, size: u16) {
        let end = place.offset.saturating_add(size.into());
        let start = place.offset.saturating_sub(7);
        let first = self.slots.partition_point(|slot| slot.0 < Place { offset: start, ..place });
        let last = self.slots.partition_point(|slot| slot.0 < Place { offset: end, ..place });
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
        for value in self.registers.iter_mut().filter(|value| !stays(**value)) {
            *value = Value::Unknown;
        }
        self.slots.retain(|(place, value)| place.site.is_none() && stays(*value));
        (self.flags, self.limit) = (Flags::Unknown, None);
        self
    }

    /// Carries out an instruction, but for where execution goes.
    pub(crate) fn apply(&mut self, arch: Arch, instruction: &Instruction, ops: &[Op], context: &mut Context) {
        if instruction.sets_flags {
            self.flags = Flags::Unknown;
        }
        for op in ops {
            self.apply_one(arch, *op, instruction.offset, context);
        }
        let mut writes = instruction.writes & ((1 << REGISTERS) - 1);
        let link = arch.return_address();
        let is_call = matches!(instruction.flow, Flow::Call(_));
        let is_return = |value| value == Value::Caller(link) || value == Value::Perhaps(link);
        while writes != 0 {
            let index = writes.trailing_zeros();
            let is_left = is_call && index != u32::from(link.0) && is_return(self.registers[index as usize]);
            self.registers[index as usize] = if is_left { Value::Perhaps(link) } else { Value::Unknown };
            self.changed(index as Index);
            writes &= writes - 1;
        }
        if let Flow::Call(_) = instruction.flow {
            self.limit = None;
            // What lies below the stack pointer is the called function's, and pointers into the frame that are stored in it
            // may be those of objects, which it changes.
            let stack = self.at(arch.stack_pointer().0 as Index);
            let entry = -(arch.cfa_offset_at_entry() as i32);
            self.slots.retain(|(place, value)| {
                let is_below = matches!(stack, Value::Cfa(top) if place.site.is_none() && place.offset < top);
                let is_object = matches!(*value, Value::Cfa(offset) if offset != 0 && offset != entry);
                !is_below && !is_object
            });
        }
    }

    /// Forgets what depends on a register that has another value now.
    fn changed(&mut self, index: Index) {
        if self.limit.is_some_and(|limit| limit.0 == index) {
            self.limit = None;
        }
        match self.flags {
            Flags::Compared(left, right) if left == index || right == index => self.flags = Flags::Unknown,
            Flags::Limit(register, _) if register == index => self.flags = Flags::Unknown,
            Flags::Unknown | Flags::Compared(..) | Flags::Limit(..) => {}
        }
    }

    fn apply_one(&mut self, arch: Arch, op: Op, site: u32, context: &mut Context) {
        let (to, value) = match op {
            Op::Set { to, from, add } => (to, self.at(from).plus(add)),
            Op::Constant { to, value } => (to, context.constant(value)),
            Op::Keep { to, shift, value } => match self.at(to) {
                Value::Number(old) => {
                    let mask = 0xffff_u64.checked_shl(shift.into()).unwrap_or(0);
                    let bits = u64::from(value).checked_shl(shift.into()).unwrap_or(0);
                    (to, context.constant(i64::from(old) as u64 & !mask | bits))
                }
                _ => (to, Value::Unknown),
            },
            Op::Sum { to, left, right, shift, minus, signed } => {
                let value = self.sum(self.at(left), self.at(right), (shift, minus, signed), context);
                // An unknown amount is taken off the stack: a frame of variable size.
                let is_stack = Register(to.into()) == arch.stack_pointer() && left == to;
                match value {
                    Value::Unknown if is_stack => (to, self.site(context.site(site))),
                    value => (to, value),
                }
            }
            Op::Align { to, from } => {
                let is_known = self.at(from).place().is_some();
                (to, if is_known { self.site(context.site(site)) } else { Value::Unknown })
            }
            Op::Load { to, base, offset } => {
                let place = self.at(base).plus(offset).place();
                (to, place.map_or(Value::Unknown, |place| self.load(place)))
            }
            Op::Store { from, base, offset, size } => {
                if let Some(place) = self.at(base).plus(offset).place()
                    && (is_frame(arch, base) || !self.has_only_copy(arch, place, size))
                {
                    self.store(place, from.map_or(Value::Unknown, |from| self.at(from)), size);
                }
                return;
            }
            Op::Entry { to, table, size, signed } => {
                let address = match table {
                    Table::At(address) => Some(address),
                    Table::Register(register) => context.address(self.at(register)),
                };
                let limit = self.limit();
                let entry =
                    address.and_then(|address| context.tables.entry(site, address, size, signed, limit));
                (to, entry.map_or(Value::Unknown, Value::Entry))
            }
            Op::Compare { left, right } => {
                self.flags = Flags::Compared(left, right);
                return;
            }
            Op::Limit { register, value } => {
                self.flags = Flags::Limit(register, value);
                return;
            }
            Op::Sign => {
                let link = arch.return_address();
                if self.get(arch, link) == Value::Caller(link) {
                    self.set(arch, link, Value::Signed);
                }
                return;
            }
            Op::Authenticate => {
                let link = arch.return_address();
                if self.get(arch, link) == Value::Signed {
                    self.set(arch, link, Value::Caller(link));
                }
                return;
            }
        };
        self.registers[usize::from(to)] = value;
        self.changed(to);
    }

    /// The number of entries that a jump through a table chooses from.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.limit.map(|limit| limit.1)
    }

    fn sum(
        &self,
        left: Value,
        right: Value,
        (shift, minus, signed): (u8, bool, bool),
        context: &mut Context,
    ) -> Value {
        let shifted = |amount: i32| {
            let amount = i64::from(amount).checked_shl(shift.into())?;
            i32::try_from(if minus { amount.checked_neg()? } else { amount }).ok()
        };
        let target = |entry, base, context: &mut Context| {
            let base = context.address(base).map(|base| TableBase { base, shift, signed });
            base.map_or(Value::Unknown, |base| context.tables.target(entry, base))
        };
        match (left, right) {
            (Value::Entry(entry), base @ (Value::Number(_) | Value::Near(_))) if !minus && shift == 0 => {
                target(entry, base, context)
            }
            (left, Value::Number(amount)) => {
                shifted(amount).map_or(Value::Unknown, |amount| left.plus(amount))
            }
            (Value::Number(amount), right) if !minus && shift == 0 && right.place().is_some() => {
                right.plus(amount)
            }
            (base @ (Value::Number(_) | Value::Near(_)), Value::Entry(entry)) if !minus => {
                target(entry, base, context)
            }
            _ => Value::Unknown,
        }
    }

    /// A new value without a known distance from others: those that the same instruction made before are forgotten.
    fn site(&mut self, site: Option<u16>) -> Value {
        let Some(site) = site else { return Value::Unknown };
        let is_old = |value: Value| matches!(value, Value::Site(old, _) if old == site);
        for register in &mut self.registers {
            if is_old(*register) {
                *register = Value::Unknown;
            }
        }
        self.slots.retain(|slot| slot.0.site != Some(site) && !is_old(slot.1));
        Value::Site(site, 0)
    }

    /// The state where a branch is taken, or where it is not.
    pub(crate) fn branched(&mut self, flow: Flow, taken: bool) {
        let Flow::Branch(_, condition) = flow else { return };
        use crate::instruction::Condition as C;
        match (self.flags, condition) {
            (Flags::Compared(left, right), C::Equal | C::NotEqual) if (condition == C::Equal) == taken => {
                match (self.at(left), self.at(right)) {
                    (Value::Unknown | Value::Site(..), known @ Value::Cfa(_)) => {
                        self.registers[usize::from(left)] = known;
                    }
                    (known @ Value::Cfa(_), Value::Unknown | Value::Site(..)) => {
                        self.registers[usize::from(right)] = known;
                    }
                    _ => {}
                }
            }
            (Flags::Limit(register, value), C::Above) => {
                self.limit = value.checked_add(1).map(|value| (register, value));
            }
            (Flags::Limit(register, value), C::AtLeast) => self.limit = Some((register, value)),
            _ => {}
        }
    }

    /// Returns whether all that is known here is known in another state: joining it changes nothing.
    pub(crate) fn holds_in(&self, other: &Self) -> bool {
        let is_kept = |(own, other): (&Value, &Value)| *own == own.joined(*other);
        self.registers.iter().zip(&other.registers).all(is_kept)
            && (self.flags == other.flags || self.flags == Flags::Unknown)
            && (self.limit == other.limit || self.limit.is_none())
            && (self.slots == other.slots
                || self.slots.iter().all(|(place, value)| other.load(*place).joined(*value) == *value))
    }

    /// Keeps what is known in both.
    pub(crate) fn join(&mut self, arch: Arch, other: &Self) -> Joined {
        if self.holds_in(other) {
            return Joined { changed: false, lost: false };
        }
        let stack = arch.stack_pointer().0 as Index;
        let lost_stack = match (self.at(stack), other.at(stack)) {
            (Value::Cfa(own), Value::Cfa(other)) => own != other,
            _ => false,
        };
        let before = self.kept(arch) & other.kept(arch);
        let mut changed = false;
        for (own, other) in self.registers.iter_mut().zip(&other.registers) {
            let both = own.joined(*other);
            changed |= *own != both;
            *own = both;
        }
        self.slots.retain_mut(|(place, value)| {
            let both = value.joined(other.load(*place));
            changed |= *value != both;
            *value = both;
            both.is_followed()
        });
        if self.flags != other.flags && self.flags != Flags::Unknown {
            self.flags = Flags::Unknown;
            changed = true;
        }
        if self.limit != other.limit && self.limit.is_some() {
            self.limit = None;
            changed = true;
        }
        let after = self.kept(arch) | self.perhaps(arch);
        Joined { changed, lost: lost_stack || before & !after != 0 }
    }

    /// The bits of registers of the caller whose value is somewhere.
    pub(crate) fn kept(&self, arch: Arch) -> u64 {
        let bit = |value: Value| match value {
            Value::Caller(register) => index_of(arch, register).map_or(1 << 63, |index| 1 << index),
            Value::Signed => 1 << arch.return_address().0,
            _ => 0,
        };
        let link = arch.return_address();
        let mut kept = callee_saved(arch).iter().fold(0, |kept, index| {
            let is_own = self.at(*index) == Value::caller(*index);
            kept | if is_own { 1 << index } else { 0 }
        });
        if index_of(arch, link).is_some() {
            kept |= bit(self.get(arch, link)) & (1 << link.0);
        }
        let mut slots = self.slots.iter().map(|slot| bit(slot.1));
        let mask = callee_saved(arch).iter().fold(1 << 63 | 1 << link.0, |mask, index| mask | 1 << index);
        kept | slots.by_ref().fold(0, |kept, bits| kept | bits) & mask
    }
}
