//! The targets of the calls and jumps of a file: where functions start.

use std::collections::HashSet;

use cfipack_code::{Code, Flow, Instructions};
use cfipack_format::Address;

/// The targets of direct calls and jumps.
#[derive(Default)]
pub struct Targets {
    /// Targets of calls.
    pub called: HashSet<Address>,
    /// Targets of jumps and branches.
    pub jumped: HashSet<Address>,
}

impl Targets {
    /// Adds the targets of a function's instructions.
    pub fn add(&mut self, code: &Code<'_>, instructions: &Instructions) {
        for instruction in instructions.iter() {
            match instruction.flow {
                Flow::Call(Some(target)) => self.called.insert(target),
                Flow::Jump(Some(target)) | Flow::Branch(Some(target), _) if is_outside(code, target) => {
                    self.jumped.insert(target)
                }
                _ => continue,
            };
        }
    }

    /// Returns whether a call leads to an address: a direct call, or a call from another object if `is_exported` returns
    /// true and no jump leads there.
    pub fn has_call_to(&self, address: Address, is_exported: &dyn Fn(Address) -> bool) -> bool {
        self.called.contains(&address) || (is_exported(address) && !self.jumped.contains(&address))
    }
}

/// Returns whether an address is outside of `code`. A jump to the start of its own function is a loop.
fn is_outside(code: &Code<'_>, address: Address) -> bool {
    address.0.wrapping_sub(code.start.0) >= code.bytes.len() as u64
}
