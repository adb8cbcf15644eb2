//! What is known before an instruction: the values of registers, and of slots of the stack.

mod copies;
mod registers;

use cfipack_format::{Arch, Register};

use self::registers::{Registers, indexes};
use crate::context::{Context, Shared};
use crate::instruction::{
    ALWAYS, Condition, Flow, Index, Instruction, Op, REGISTERS, Table, callee_saved_bits, index_of,
    register_of,
};
use crate::table::TableBase;
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

/// Returns whether a register is one that compilers address slots of saved registers by.
fn is_frame(arch: Arch, base: Index) -> bool {
    let base = Register(base.into());
    base == arch.stack_pointer() || base == arch.frame_pointer()
}

/// Returns whether a slot's value is known as well where another state is joined.
fn stays((place, value): &(Place, Value), other: &State) -> bool {
    value.joined(other.load(*place)) == *value
}

/// What is known in a state, and not in another that is joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// By their bits.
    registers: u64,
    slots: bool,
    flags: bool,
    limit: bool,
}

impl Loss {
    /// Returns whether joining changes anything.
    pub(crate) fn is_any(self) -> bool {
        let Self { registers, slots, flags, limit } = self;
        registers != 0 || slots || flags || limit
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

    fn store(&mut self, place: Place, value: Value, size: u16) {
        let end = place.offset().saturating_add(size.into());
        let start = place.offset().saturating_sub(7);
        let (start, end) = (Place::new(place.site(), start), Place::new(place.site(), end));
        // Few are there, mostly.
        let first = self.slots.iter().take_while(|slot| slot.0 < start).count();
        let last = first + self.slots[first..].iter().take_while(|slot| slot.0 < end).count();
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

    /// Carries out an instruction, but for where execution goes.
    #[inline]
    pub(crate) fn apply(
        &mut self,
        arch: Arch,
        instruction: &Instruction,
        ops: &[Op],
        context: &mut Shared<'_>,
    ) {
        // Most instructions make registers unknown, and nothing else.
        if instruction.reads & (self.registers.known() | ALWAYS) != 0 {
            return self.apply_known(arch, instruction, ops, context);
        }
        if instruction.sets_flags {
            self.flags = Flags::Unknown;
        }
        let bits = instruction.affects & ((1 << REGISTERS) - 1);
        self.registers.forget(bits);
        if self.flags != Flags::Unknown || self.limit.is_some() {
            self.changed(bits);
        }
    }

    fn apply_known(&mut self, arch: Arch, instruction: &Instruction, ops: &[Op], context: &mut Shared<'_>) {
        if instruction.sets_flags {
            self.flags = Flags::Unknown;
        }
        for op in ops {
            self.apply_one(arch, *op, instruction.offset, context);
        }
        let writes = instruction.writes & ((1 << REGISTERS) - 1);
        if let Flow::Call(_) = instruction.flow {
            self.call(arch, writes);
        } else if writes != 0 {
            self.registers.forget(writes);
            self.changed(writes);
        }
    }

    /// Forgets what a called function may change.
    fn call(&mut self, arch: Arch, writes: u64) {
        let link = arch.return_address();
        let is_return = |value| value == Value::Caller(link) || value == Value::Perhaps(link);
        for index in indexes(writes & self.registers.known()) {
            let is_left = u16::from(index) != link.0 && is_return(self.at(index));
            self.registers.set(index, if is_left { Value::Perhaps(link) } else { Value::Unknown });
        }
        self.changed(writes);
        self.limit = None;
        // What lies below the stack pointer is the called function's, and pointers into the frame that are stored in it
        // may be those of objects, which it changes.
        let stack = self.at(arch.stack_pointer().0 as Index);
        let entry = -(arch.cfa_offset_at_entry() as i32);
        self.slots.retain(|(place, value)| {
            let is_below = matches!(stack, Value::Cfa(top) if place.site().is_none() && place.offset() < top);
            let is_object = matches!(*value, Value::Cfa(offset) if offset != 0 && offset != entry);
            !is_below && !is_object
        });
    }

    /// Forgets what depends on registers that have other values now, by their bits.
    #[inline]
    fn changed(&mut self, bits: u64) {
        // The number of a value in memory is that of no register.
        let has = |index: Index| bits.checked_shr(index.into()).is_some_and(|bits| bits & 1 != 0);
        if self.limit.is_some_and(|limit| has(limit.0)) {
            self.limit = None;
        }
        match self.flags {
            Flags::Compared(left, right) if has(left) || has(right) => self.flags = Flags::Unknown,
            Flags::Limit(register, _) if has(register) => self.flags = Flags::Unknown,
            Flags::Unknown | Flags::Compared(..) | Flags::Limit(..) => {}
        }
    }

    fn apply_one(&mut self, arch: Arch, op: Op, site: u32, context: &mut Shared<'_>) {
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
                    Value::Unknown if is_stack => (to, self.site(Context::site(context, site))),
                    value => (to, value),
                }
            }
            Op::Align { to, from } => {
                let is_known = self.at(from).place().is_some();
                (to, if is_known { self.site(Context::site(context, site)) } else { Value::Unknown })
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
                    address.and_then(|address| Context::entry(context, site, (address, size, signed), limit));
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
        self.registers.set(to, value);
        self.changed(1 << to);
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
        context: &mut Shared<'_>,
    ) -> Value {
        let shifted = |amount: i32| {
            let amount = i64::from(amount).checked_shl(shift.into())?;
            i32::try_from(if minus { amount.checked_neg()? } else { amount }).ok()
        };
        let target = |entry, base, context: &mut Shared<'_>| {
            let base = context.address(base).map(|base| TableBase { base, shift, signed });
            base.map_or(Value::Unknown, |base| Context::target(context, entry, base))
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
        for index in self.registers.indexes() {
            if is_old(self.at(index)) {
                self.registers.set(index, Value::Unknown);
            }
        }
        self.slots.retain(|slot| slot.0.site() != Some(site) && !is_old(slot.1));
        Value::Site(site, 0)
    }

    /// Returns whether a branch tells something: whether [`branched`](Self::branched) can change the state.
    pub(crate) fn is_told_by(&self, flow: Flow) -> bool {
        use Condition as C;
        matches!(
            (flow, self.flags),
            (Flow::Branch(_, C::Equal | C::NotEqual), Flags::Compared(..))
                | (Flow::Branch(_, C::Above | C::AtLeast), Flags::Limit(..))
        )
    }

    /// The state where a branch is taken, or where it is not.
    #[inline]
    pub(crate) fn branched(&mut self, flow: Flow, taken: bool) {
        if let Flow::Branch(_, condition) = flow {
            self.decided(condition, taken);
        }
    }

    fn decided(&mut self, condition: Condition, taken: bool) {
        use Condition as C;
        match (self.flags, condition) {
            (Flags::Compared(left, right), C::Equal | C::NotEqual) if (condition == C::Equal) == taken => {
                match (self.at(left), self.at(right)) {
                    (Value::Unknown | Value::Site(..), known @ Value::Cfa(_)) => {
                        self.registers.set(left, known);
                    }
                    (known @ Value::Cfa(_), Value::Unknown | Value::Site(..)) => {
                        self.registers.set(right, known);
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

    /// What is known no more once another state is joined.
    pub(crate) fn loss(&self, other: &Self) -> Loss {
        let mut registers = self.registers.known() & !other.registers.known();
        for index in indexes(self.registers.known() & other.registers.known()) {
            let own = self.at(index);
            let other = other.at(index);
            registers |= if own == other || own == own.joined(other) { 0 } else { 1 << index };
        }
        Loss {
            registers,
            slots: !other.has_slots(&self.slots) && !self.slots.iter().all(|slot| stays(slot, other)),
            flags: self.flags != other.flags && self.flags != Flags::Unknown,
            limit: self.limit != other.limit && self.limit.is_some(),
        }
    }

    /// Returns whether slots, ascending by place, have these values.
    pub(crate) fn has_slots(&self, slots: &[(Place, Value)]) -> bool {
        let mut own = self.slots.iter();
        slots.iter().all(|slot| own.find(|own| own.0 >= slot.0).is_some_and(|own| own == slot))
    }

    /// Returns whether a loss takes the stack pointer, or the place of a register of the caller, that is known in both.
    pub(crate) fn is_grave(&self, arch: Arch, loss: Loss, other: &Self) -> bool {
        let (stack, link) = (arch.stack_pointer(), index_of(arch, arch.return_address()));
        if let (Value::Cfa(own), Value::Cfa(other)) = (self.get(arch, stack), other.get(arch, stack))
            && own != other
        {
            return true;
        }
        let followed = link.map_or(0, |link| 1 << link) | callee_saved_bits(arch);
        if loss.registers & followed == 0 && !loss.slots {
            return false;
        }
        let before = self.kept(arch, u64::MAX, |_| true) & other.kept(arch, u64::MAX, |_| true);
        let lost = before & !self.kept(arch, !loss.registers, |slot| stays(slot, other));
        if lost == 0 {
            return false;
        }
        let mut joined = self.clone();
        joined.lose(loss, other);
        lost & !joined.perhaps(arch) != 0
    }

    /// Keeps what is known in another state too, by its [`loss`](Self::loss).
    pub(crate) fn lose(&mut self, loss: Loss, other: &Self) {
        for index in indexes(loss.registers) {
            self.registers.set(index, self.at(index).joined(other.at(index)));
        }
        if loss.slots {
            self.slots.retain_mut(|(place, value)| {
                *value = value.joined(other.load(*place));
                value.is_followed()
            });
        }
        if loss.flags {
            self.flags = Flags::Unknown;
        }
        if loss.limit {
            self.limit = None;
        }
    }

    /// Keeps what is known in both; returns whether that is less than before.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let loss = self.loss(other);
        self.lose(loss, other);
        loss.is_any()
    }

    /// The bits of registers of the caller whose value is in one of some registers, or in a slot that counts.
    fn kept(&self, arch: Arch, among: u64, counts: impl Fn(&(Place, Value)) -> bool) -> u64 {
        let bit = |value: Value| match value {
            Value::Caller(register) => index_of(arch, register).map_or(1 << 63, |index| 1 << index),
            Value::Signed => 1 << arch.return_address().0,
            _ => 0,
        };
        let link = arch.return_address();
        let saved = callee_saved_bits(arch);
        let mut kept = 0;
        for index in indexes(saved & among & self.registers.known()) {
            kept |= if self.at(index) == Value::caller(index) { 1 << index } else { 0 };
        }
        if index_of(arch, link).is_some_and(|index| among & (1 << index) != 0) {
            kept |= bit(self.get(arch, link)) & (1 << link.0);
        }
        let slots = self.slots.iter().filter(|slot| counts(slot)).fold(0, |kept, slot| kept | bit(slot.1));
        kept | slots & (saved | 1 << 63 | 1 << link.0)
    }
}
