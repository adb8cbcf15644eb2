//! Makes rows with the rules of all registers, as an assembler's directives can have them.
//!
//! A table has places only for the CFA, the return address and the frame pointer. Directives can name any register and
//! any place in memory. So this module describes functions that [`Analysis::synthesize`] omits, for example a function
//! that aligns its stack and keeps the old stack pointer in another register or in memory.

use cfipack_format::{Arch, Cfa, FunctionOffset, Register, Row, Rule};

use super::{Omission, Refused, cfa, place, return_address};
use crate::analysis::Analysis;
use crate::instruction::{Flow, Instruction, Special, callee_saved, is_callee_saved, register_of};
use crate::rows::{FullRow, Rows};
use crate::state::State;
use crate::value::{Place, Value};

/// How a row of [`Described`] gives the CFA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameAddress {
    /// `register + offset`.
    Register {
        /// The register.
        register: Register,
        /// The offset in bytes.
        offset: i64,
    },
    /// The pointer stored at `register + offset`, plus `add`. CFI needs an expression for it.
    Memory {
        /// The register.
        register: Register,
        /// The offset in bytes of the pointer.
        offset: i64,
        /// The distance in bytes from the pointer up to the CFA.
        add: u64,
    },
}

impl FrameAddress {
    fn cfa(self) -> Cfa {
        match self {
            Self::Register { register, offset } => Cfa::Register { register, offset },
            Self::Memory { register, offset, add: 0 } => Cfa::Memory { register, offset },
            Self::Memory { .. } => Cfa::Expression,
        }
    }
}

/// The rows of a function with the rules of all registers.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// The rows.
    pub rows: Rows,
    /// How each row gives the CFA.
    pub addresses: Vec<FrameAddress>,
}

impl Analysis<'_> {
    /// Returns the function's rows as [`synthesize`](Self::synthesize) does, and adds the rules of all other
    /// callee-saved registers. The CFA and saved values may be in any register, or in memory at any register.
    ///
    /// Like compilers do, this function keeps a register's rule for as long as it is right. For example, the rule of a
    /// slot stays while the register is restored early in an epilogue.
    ///
    /// # Errors
    /// This function returns the errors of [`synthesize`](Self::synthesize), or [`Omission::NoPlace`] if the place of
    /// a callee-saved register is not known.
    pub fn describe(&self) -> Result<Described, Refused> {
        let arch = self.code().arch;
        let (mut described, mut saved) = (Described::default(), Vec::new());
        // The slot in which the rows so far have the return address.
        let mut slot = None;
        let mut each = |instruction: &Instruction, state: &State| {
            if matches!(instruction.special, Special::SigningByB | Special::OtherSigning) {
                return Err(Omission::SigningState);
            }
            let at = At { arch, instruction, state };
            let last = described.rows.last();
            let address = at.frame_address(last, described.addresses.last()).ok_or(Omission::Cfa)?;
            let (return_address, signed) = at.return_address(last, slot)?;
            if let Rule::Cfa(_) = return_address {
                slot = Some(return_address);
            }
            let frame_pointer = at.rule(arch.frame_pointer(), last).ok_or(Omission::FramePointer)?;
            let start = FunctionOffset(if last.is_none() { 0 } else { instruction.offset });
            let row = Row { start, cfa: address.cfa(), return_address, frame_pointer, signed };
            saved.clear();
            for register in callee_saved(arch).iter().map(|index| register_of(*index)) {
                if register == arch.frame_pointer() {
                    continue;
                }
                match at.rule(register, last).ok_or(Omission::NoPlace)? {
                    Rule::SameValue => {}
                    rule => saved.push((register, rule)),
                }
            }
            let is_same = last.is_some_and(|last| last.row.unwinds_as(&row) && last.saved == saved)
                && described.addresses.last() == Some(&address);
            if !is_same {
                described.rows.push(row, &saved);
                described.addresses.push(address);
            }
            Ok(())
        };
        self.each_row(&mut each).map_err(|refused| {
            self.cause(refused, |instruction, state| each(instruction, state) == Err(refused.omission))
        })?;
        Ok(described)
    }

    /// Returns the refusal with the instruction before, if the state after that instruction already `fails`. For example, a
    /// register is lost by an instruction, and the next instruction is the first without a row.
    fn cause(&self, refused: Refused, mut fails: impl FnMut(&Instruction, &State) -> bool) -> Refused {
        let all = self.instructions();
        let mut before = || {
            let index = all.index_of(refused.offset)?;
            let before = index.checked_sub(1).filter(|before| self.next(*before).contains(&Some(index)))?;
            let after = self.after(&self.state_before(before)?, &all.at(before), false);
            fails(&all.at(index), &after).then(|| all.offset(before))
        };
        refused.omission.at(before().unwrap_or(refused.offset))
    }
}

/// An instruction, and the state before it.
struct At<'a> {
    arch: Arch,
    instruction: &'a Instruction,
    state: &'a State,
}

impl At<'_> {
    fn frame_address(
        &self,
        last: Option<FullRow<'_>>,
        before: Option<&FrameAddress>,
    ) -> Option<FrameAddress> {
        if let Some(Cfa::Register { register, offset }) =
            cfa(self.arch, self.state, last.as_ref().map(|last| &last.row))
        {
            return Some(FrameAddress::Register { register, offset });
        }
        if let Some(before) = before.filter(|before| self.is_right(**before)) {
            return Some(*before);
        }
        let by_register = self.kept().find_map(|register| match self.state.get(self.arch, register) {
            Value::Cfa(place) => Some(FrameAddress::Register { register, offset: -i64::from(place) }),
            _ => None,
        });
        by_register.or_else(|| {
            self.state.places().find_map(|(place, value)| {
                let Value::Cfa(stored @ ..=0) = value else { return None };
                let (register, offset) = self.pointer_to(place)?;
                Some(FrameAddress::Memory { register, offset, add: stored.unsigned_abs().into() })
            })
        })
    }

    fn is_right(&self, address: FrameAddress) -> bool {
        match address {
            FrameAddress::Register { register, offset } => {
                self.is_kept(register)
                    && matches!(self.state.get(self.arch, register), Value::Cfa(place) if -i64::from(place) == offset)
            }
            FrameAddress::Memory { register, offset, add } => {
                matches!(self.stored(register, offset), Some(Value::Cfa(place @ ..=0)) if u64::from(place.unsigned_abs()) == add)
            }
        }
    }

    /// Returns the rule of the return address, and whether the address is signed. The rule `slot` goes first.
    fn return_address(
        &self,
        last: Option<FullRow<'_>>,
        slot: Option<Rule>,
    ) -> Result<(Rule, bool), Omission> {
        let link = self.arch.return_address();
        return_address(self.arch, self.state, slot).or_else(|omission| {
            let is_callers = |value| value == Value::Caller(link) || value == Value::Signed;
            let (rule, value) = self.elsewhere(link, last, &is_callers).ok_or(omission)?;
            Ok((rule, value == Value::Signed))
        })
    }

    /// Returns the rule of a callee-saved register. The rule of the last row stays while it is right.
    fn rule(&self, register: Register, last: Option<FullRow<'_>>) -> Option<Rule> {
        let (arch, state) = (self.arch, self.state);
        let is_callers = |value| value == Value::Caller(register);
        let lowest = match state.get(arch, arch.stack_pointer()) {
            Value::Cfa(offset) => i64::from(offset) - i64::from(arch.red_zone()),
            _ => i64::MIN,
        };
        match last.map(|last| last.rule(arch, register)) {
            Some(Rule::Cfa(offset)) if offset >= lowest && is_callers(state.slot(offset)) => {
                Some(Rule::Cfa(offset))
            }
            _ => place(arch, state, (register, None), is_callers)
                .or_else(|| self.elsewhere(register, last, &is_callers))
                .map(|place| place.0),
        }
    }

    /// Returns another register that holds the caller's value, or a place in memory without a known distance to the
    /// CFA. The rule of the last row stays while it is right.
    fn elsewhere(
        &self,
        register: Register,
        last: Option<FullRow<'_>>,
        is_callers: &impl Fn(Value) -> bool,
    ) -> Option<(Rule, Value)> {
        let before = last.map(|last| last.rule(self.arch, register));
        let still = before.and_then(|rule| match rule {
            Rule::Register { register, offset: 0 } if self.is_kept(register) => {
                Some((rule, self.state.get(self.arch, register)))
            }
            Rule::Memory { register, offset } => Some((rule, self.stored(register, offset)?)),
            _ => None,
        });
        if let Some(still) = still.filter(|still| is_callers(still.1)) {
            return Some(still);
        }
        let by_register = self.kept().find_map(|register| {
            let value = self.state.get(self.arch, register);
            is_callers(value).then_some((Rule::Register { register, offset: 0 }, value))
        });
        by_register.or_else(|| {
            self.state.places().filter(|(_, value)| is_callers(*value)).find_map(|(place, value)| {
                let (register, offset) = self.pointer_to(place)?;
                Some((Rule::Memory { register, offset }, value))
            })
        })
    }

    /// Returns the value in memory at a register plus `offset`, if the rows may depend on this register and place.
    fn stored(&self, register: Register, offset: i64) -> Option<Value> {
        let value = self.state.get(self.arch, register);
        let place = value.plus(i32::try_from(offset).ok()?).anywhere()?;
        (self.is_kept(register) && self.is_above_stack(place)).then(|| self.state.load(place))
    }

    /// Returns a register and the distance from it to a place in memory.
    fn pointer_to(&self, place: Place) -> Option<(Register, i64)> {
        if !self.is_above_stack(place) {
            return None;
        }
        let stack = self.arch.stack_pointer();
        std::iter::once(stack).chain(self.kept()).find_map(|register| {
            let pointed = self.state.get(self.arch, register).anywhere()?;
            let distance = i64::from(place.offset()) - i64::from(pointed.offset());
            (pointed.site() == place.site()).then_some((register, distance))
        })
    }

    /// Returns whether no signal overwrites a place. For a place without a known distance to the stack pointer, this is
    /// so because the code still uses it.
    fn is_above_stack(&self, place: Place) -> bool {
        match self.state.get(self.arch, self.arch.stack_pointer()).anywhere() {
            Some(top) if top.site() == place.site() => top.offset() <= place.offset(),
            _ => true,
        }
    }

    /// Returns the registers that rows at this instruction may depend on. The row at a call also unwinds from the called
    /// function, and only finds the registers that this function keeps.
    fn kept(&self) -> impl Iterator<Item = Register> {
        let general = (0..32).map(Register).filter(|register| !is_callee_saved(self.arch, *register));
        let kept = callee_saved(self.arch).iter().map(|index| register_of(*index));
        kept.chain(general).filter(|register| self.is_kept(*register))
    }

    fn is_kept(&self, register: Register) -> bool {
        match self.instruction.flow {
            Flow::Call(_) => is_callee_saved(self.arch, register) || register == self.arch.stack_pointer(),
            _ => true,
        }
    }
}
