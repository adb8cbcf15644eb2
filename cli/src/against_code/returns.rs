//! The functions of a file that never return, found in their code where somebody asks.

use std::collections::HashMap;

use cfipack_code::{Analysis, Code, Flow, Instructions, may_return};
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::cfi::Functions;

use super::memory::FileMemory;

/// Bytes of a function beyond which it is taken to return.
const MAX_CODE: u64 = 1 << 16;

/// The functions that are called one by the other at most, until one is taken to return.
const MAX_DEPTH: usize = 8;

/// What is known of the file's functions, each of which is looked at once.
pub struct Returns<'r, 'f> {
    memory: &'r FileMemory<'f>,
    functions: &'r Functions<'f>,
    arch: Arch,
    known: HashMap<Address, bool>,
}

impl<'r, 'f> Returns<'r, 'f> {
    pub fn new(memory: &'r FileMemory<'f>, functions: &'r Functions<'f>, arch: Arch) -> Self {
        Self { memory, functions, arch, known: HashMap::new() }
    }

    /// Offsets of a function's calls of functions that never return, without those that it is known of.
    pub fn ending_calls(&mut self, analysis: &Analysis<'_>) -> Vec<u32> {
        let calls = analysis.instructions().as_slice().iter().enumerate();
        let ends = calls.filter(|(index, instruction)| match instruction.flow {
            Flow::Call(Some(target)) => !analysis.is_noreturn(*index) && !self.may_return(target, MAX_DEPTH),
            _ => false,
        });
        ends.map(|(_, instruction)| instruction.offset).collect()
    }

    /// Returns whether the function at an address may return.
    fn may_return(&mut self, start: Address, depth: usize) -> bool {
        if let Some(known) = self.known.get(&start) {
            return *known;
        }
        if depth == 0 {
            return true;
        }
        // Until it is known, also where functions call each other.
        self.known.insert(start, true);
        let may_return = self.looked_at(start, depth).unwrap_or(true);
        self.known.insert(start, may_return);
        may_return
    }

    /// None for what has no CFI, such as a stub, or no code.
    fn looked_at(&mut self, start: Address, depth: usize) -> Option<bool> {
        let all = self.functions.as_slice();
        let function = all.binary_search_by_key(&start, |function| function.start).ok()?;
        let size = all[function].end.0 - start.0;
        if size > MAX_CODE {
            return None;
        }
        let (bytes, relocated) = self.memory.code(start, size)?;
        let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
        let instructions = Instructions::new(&code);
        Some(may_return(&code, &instructions, &mut |called| self.may_return(called, depth - 1)))
    }
}
