//! Addresses that may be the start of a function: after the end of other code, after padding, and at aligned prologues.

use cfipack_code::Code;
use cfipack_format::{Address, Family};

use super::super::paths::{LONGEST, starts_with_prologue};
use super::{ALIGNMENT, Search};
use crate::padding;

/// So many bytes show whether code ends before an address.
const BEFORE: u64 = 32;
/// The bytes of a direct call.
const CALL: u64 = 5;

impl Search<'_, '_> {
    /// Keeps an address that may be the start of a function. Compilers align functions, so other numbers are left out
    /// that only happen to be the address of code.
    pub fn suggest(&mut self, address: Address) {
        let alignment = match self.arch.family() {
            Family::X86 => ALIGNMENT,
            Family::Aarch64 | Family::S390x | Family::Riscv => 4,
        };
        if address.0.is_multiple_of(alignment) {
            self.suggest_start(address);
        }
    }

    /// Returns whether code can end before an address, so that a function can start there.
    pub fn follows_end(&mut self, address: Address) -> bool {
        let Some(range) = self.around(address) else { return false };
        let size = (address.0 - range.start.0).min(BEFORE);
        let before = self.memory.code(address.offset(-(size as i64)), size);
        size == 0
            || before.is_some_and(|(bytes, _)| padding::may_end(self.arch, bytes))
            || size >= CALL && address.0.is_multiple_of(ALIGNMENT) && self.follows_last_call(address)
    }

    /// Returns whether the instruction before an address calls a function that never returns.
    fn follows_last_call(&mut self, address: Address) -> bool {
        let size = match self.arch.family() {
            Family::X86 => CALL,
            Family::Aarch64 | Family::S390x | Family::Riscv => 4,
        };
        let start = address.offset(-(size as i64));
        let Some((bytes, relocated)) = self.memory.code(start, size) else { return false };
        self.decoded.decode(&Code { arch: self.arch, start, bytes, relocated: &relocated });
        self.decoded.len() == 1 && !self.returns.ends(&self.decoded).is_empty()
    }

    pub(super) fn suggest_start(&mut self, address: Address) {
        let is_free = self.around(address).is_some_and(|range| !self.inner.contains(&range.start));
        if is_free && self.seen.insert(address) {
            self.suggested.push(address);
        }
    }

    /// Suggests the code after the padding that follows each end. Returns false if there is none that is new.
    pub(super) fn suggest_after_padding(&mut self) -> bool {
        let ends = std::mem::take(&mut self.ends);
        // The lowest address goes first.
        for end in ends.into_iter().rev() {
            if self.function_around(end).is_some() {
                continue;
            }
            let Some(limit) = self.limit(end) else { continue };
            let Some((bytes, _)) = self.memory.code(end, limit.0 - end.0) else { continue };
            let padding = padding::len(self.arch, bytes);
            // After a call that does not return, code without padding may be of the same function.
            let may_start = padding != 0 || self.follows_end(end);
            if may_start && padding < bytes.len() {
                self.suggest_start(end.offset(padding as i64));
            }
        }
        !self.suggested.is_empty()
    }

    /// Suggests the aligned prologues after code that no path leads to, for example after the landing pads of a function.
    /// Returns false if there is none that is new.
    pub(super) fn suggest_prologues(&mut self) -> bool {
        let mut address = self.code.first().map_or(Address(0), |range| range.start);
        while let Some(next) = self.next_free(address) {
            address = next.offset(ALIGNMENT as i64);
            let Some((bytes, relocated)) = self.memory.code(next, LONGEST) else { continue };
            self.decoded.decode(&Code { arch: self.arch, start: next, bytes, relocated: &relocated });
            if starts_with_prologue(self.arch, bytes, &self.decoded) && self.follows_end(next) {
                self.suggest_start(next);
            }
        }
        !self.suggested.is_empty()
    }

    /// Returns the first aligned address from an address on that no function contains, in the code without symbols.
    fn next_free(&self, mut address: Address) -> Option<Address> {
        loop {
            address = Address(address.0.next_multiple_of(ALIGNMENT));
            let range = self.code.get(self.code.partition_point(|range| range.end <= address))?;
            address = match self.function_around(address) {
                Some((_, found)) => found.end,
                None if address < range.start => range.start,
                None => return Some(address),
            };
        }
    }
}
