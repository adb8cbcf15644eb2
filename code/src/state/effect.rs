//! The effects of instructions on a state.

use cfipack_format::{Arch, Register};

use super::{Flags, State};
use crate::context::{Context, Shared};
use crate::instruction::{
    ALWAYS, Condition, Flow, Index, Instruction, Op, REGISTERS, Table, callee_saved_bits, index_of,
    register_of,
};
use crate::marks::indexes;
use crate::table::TableBase;
use crate::value::Value;

/// Returns whether a function has to keep a value for its caller: the return address, or a callee-saved register.
pub(super) fn is_kept(arch: Arch, value: Value) -> bool {
    match value {
        Value::Signed => true,
        Value::Caller(register) => {
            register == arch.return_address()
                || index_of(arch, register).is_some_and(|index| callee_saved_bits(arch) & (1 << index) != 0)
        }
        _ => false,
    }
}

/// Returns `amount << shift`, negated if `minus`, or `None` if the result is out of range.
fn shifted(amount: i32, shift: u8, minus: bool) -> Option<i32> {
    let amount = i64::from(amount).checked_shl(shift.into())?;
    i32::try_from(if minus { amount.checked_neg()? } else { amount }).ok()
}

impl State {
    /// Applies an instruction's effects. The direction of a branch is applied by [`branched`](Self::branched).
    #[inline]
    pub(crate) fn apply(
        &mut self,
        arch: Arch,
        instruction: &Instruction,
        ops: &[Op],
        context: &mut Shared<'_>,
    ) {
        // Most instructions only make registers unknown.
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
        let stack = arch.stack_pointer().0 as Index;
        let before = self.at(stack);
        for op in ops {
            self.apply_one(arch, *op, instruction.offset, context);
        }
        if let Some(red_zone) = context.red_zone.filter(|_| self.at(stack) != before) {
            self.forget_below(self.at(stack), before, red_zone);
        }
        let writes = instruction.writes & ((1 << REGISTERS) - 1);
        if let Flow::Call(_) = instruction.flow {
            self.call(arch, writes);
        } else if writes != 0 {
            self.registers.forget(writes);
            self.changed(writes);
        }
    }

    /// Forgets the slots that a signal handler can overwrite, because the stack pointer has risen from `before` to `now`.
    fn forget_below(&mut self, now: Value, before: Value, red_zone: u32) {
        let (Some(now), before) = (now.place(), before.place()) else { return };
        if before.is_some_and(|before| before.site() == now.site() && before.offset() >= now.offset()) {
            return;
        }
        let lowest = now.offset().saturating_sub_unsigned(red_zone);
        self.slots.retain(|(place, _)| match (place.site(), now.site()) {
            (own, now) if own == now => place.offset() >= lowest,
            // An address without a known distance to the CFA was made when the stack pointer was lower.
            (_, None) => !place.is_in_frame(),
            (_, Some(_)) => true,
        });
    }

    /// Forgets the registers and slots that a called function may change.
    fn call(&mut self, arch: Arch, writes: u64) {
        let link = arch.return_address();
        let entry = -(arch.cfa_offset_at_entry() as i32);
        let stack = self.at(arch.stack_pointer().0 as Index);
        // No compiler calls an ordinary function while the stack is as the caller's call has left it: it is not aligned. For
        // example, `__fentry__` and `__morestack` are called this way, and keep the arguments.
        let keeps_arguments = arch.pushed_by_call() != 0 && !self.has_frame(arch);
        for index in indexes(writes & self.registers.known()) {
            let has_return_address = match self.at(index) {
                Value::Caller(register) | Value::Perhaps(register) => register == link,
                _ => false,
            };
            let is_argument = keeps_arguments && self.at(index) == Value::caller(index);
            if is_argument || self.is_shadow_stack(arch, self.at(index)) {
                continue;
            }
            let is_left = u16::from(index) != link.0 && has_return_address;
            self.registers.set(index, if is_left { Value::Perhaps(link) } else { Value::Unknown });
        }
        self.changed(writes);
        self.limit = None;
        // Memory below the stack pointer belongs to the called function. A stored pointer into the frame may belong
        // to a variable that the called function changes.
        self.slots.retain(|(place, value)| {
            let is_below = matches!(stack, Value::Cfa(top) if place.site().is_none() && place.offset() < top);
            let is_object = matches!(*value, Value::Cfa(offset) if offset != 0 && offset != entry);
            !is_below && !is_object
        });
    }

    /// Returns whether a register points after a return address outside of the frame. Then it is the pointer of a
    /// shadow call stack, and called functions keep it (AArch64's platform register x18).
    fn is_shadow_stack(&self, arch: Arch, pointer: Value) -> bool {
        let place = pointer.plus(-i32::from(arch.pointer_size())).anywhere();
        place.filter(|place| !place.is_in_frame()).is_some_and(|place| {
            matches!(self.load(place), Value::Caller(register) if register == arch.return_address())
                || self.load(place) == Value::Signed
        })
    }

    /// Forgets the facts about flags and bounds that depend on changed registers. The registers are bits.
    #[inline]
    fn changed(&mut self, bits: u64) {
        // The number for a value in memory (255) is not a register's bit.
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
                // An unknown amount is taken off the stack, for an array of variable size, perhaps in another register. If
                // it is added where the frame is gone, then the stack pointer gets the value of another frame
                // (`__builtin_eh_return`).
                let is_stack = Register(to.into()) == arch.stack_pointer() && left == to;
                let is_in_frame = self.at(left).place().is_some_and(|place| place.is_in_frame());
                let is_site = is_stack && (minus || self.has_frame(arch)) || is_in_frame && minus;
                match value {
                    Value::Unknown if is_site => (to, self.site(Context::site(context, site))),
                    value => (to, value),
                }
            }
            Op::Mask { to } => match self.at(to) {
                Value::Caller(own) | Value::Perhaps(own) => (to, Value::Perhaps(own)),
                _ => (to, Value::Unknown),
            },
            Op::Align { to, from } => {
                let is_known = self.at(from).place().is_some();
                (to, if is_known { self.site(Context::site(context, site)) } else { Value::Unknown })
            }
            Op::Load { to, base, offset } => {
                let address = self.at(base).plus(offset);
                let place = address.anywhere();
                (to, place.map_or(Value::Unknown, |place| self.load(place)))
            }
            Op::Store { from, base, offset, size } => {
                let address = self.at(base).plus(offset);
                let value = from.map_or(Value::Unknown, |from| self.at(from));
                let Some(place) = address.anywhere() else { return };
                if !place.is_in_frame() {
                    // Only registers that the function has to restore are followed outside of the frame.
                    self.store(place, if is_kept(arch, value) { value } else { Value::Unknown }, size);
                    return;
                }
                if self.overwrites(arch, place, value, size) {
                    // Another pointer into the frame may come from another turn of a loop over a buffer.
                    if ![arch.stack_pointer(), arch.frame_pointer()].contains(&register_of(base)) {
                        return;
                    }
                    Context::overwritten(context, site);
                    if context.ignores_overwrites {
                        return;
                    }
                }
                self.store(place, value, size);
                return;
            }
            Op::Extend { to, from } => {
                let (flags, limit) = (self.flags, self.limit.filter(|limit| limit.0 == from));
                self.registers.forget(1 << to);
                self.changed(1 << to);
                if to == from {
                    self.flags = flags;
                }
                self.limit = limit.map(|(_, value)| (to, value)).or(self.limit);
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
            Op::Sign | Op::Authenticate => {
                let link = arch.return_address();
                let (mut before, mut after) = (Value::Caller(link), Value::Signed);
                if op == Op::Authenticate {
                    std::mem::swap(&mut before, &mut after);
                }
                if self.get(arch, link) == before {
                    self.set(arch, link, after);
                }
                return;
            }
        };
        self.registers.set(to, value);
        self.changed(1 << to);
    }

    /// Returns the number of entries that the next jump through a table chooses from. A greater bound is that of a value
    /// from which the index is computed, for example by a shift.
    pub(crate) fn limit(&self) -> Option<u32> {
        const MOST: u32 = 1 << 13;
        self.limit.map(|limit| limit.1).filter(|limit| *limit <= MOST)
    }

    fn sum(
        &self,
        left: Value,
        right: Value,
        (shift, minus, signed): (u8, bool, bool),
        context: &mut Shared<'_>,
    ) -> Value {
        let target = |entry, base, context: &mut Shared<'_>| {
            let base = context.address(base).map(|base| TableBase { base, shift, signed });
            base.map_or(Value::Unknown, |base| Context::target(context, entry, base))
        };
        match (left, right) {
            (Value::Entry(entry), base @ (Value::Number(_) | Value::Near(_))) if !minus && shift == 0 => {
                target(entry, base, context)
            }
            (left, Value::Number(amount)) => {
                shifted(amount, shift, minus).map_or(Value::Unknown, |amount| left.plus(amount))
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

    /// Returns a new value with no known distance to other values. Values that the same instruction made before are
    /// forgotten.
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

    /// Returns whether [`branched`](Self::branched) can change the state.
    pub(crate) fn is_told_by(&self, flow: Flow) -> bool {
        use Condition as C;
        matches!(
            (flow, self.flags),
            (Flow::Branch(_, C::Equal | C::NotEqual), Flags::Compared(..))
                | (Flow::Branch(_, C::Above | C::AtLeast), Flags::Limit(..))
        )
    }

    /// Returns whether a branch never goes this way. For example, a loop that probes the stack goes on until the stack
    /// pointer equals another register, and both are known.
    pub(crate) fn excludes(&self, arch: Arch, flow: Flow, taken: bool) -> bool {
        let (Flow::Branch(_, condition), Flags::Compared(left, right)) = (flow, self.flags) else {
            return false;
        };
        // Another pointer into the frame may come from a variable that a store through a pointer has changed.
        if [left, right].iter().all(|index| register_of(*index) != arch.stack_pointer()) {
            return false;
        }
        let (Value::Cfa(left), Value::Cfa(right)) = (self.at(left), self.at(right)) else { return false };
        match condition {
            Condition::Equal => (left == right) != taken,
            Condition::NotEqual => (left != right) != taken,
            Condition::Above | Condition::AtLeast | Condition::Other => false,
        }
    }

    /// Adds the facts that hold where a branch is taken, or where it is not taken.
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
}
