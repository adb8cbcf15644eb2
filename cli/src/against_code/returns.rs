//! The functions that never return, found by name or in their code where somebody asks.

use std::collections::{HashMap, HashSet};

use cfipack_code::{Analysis, Code, Flow, Instructions, jump_slot, may_return};
use cfipack_container::File;
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::cfi::Functions;

use super::memory::FileMemory;

/// Bytes of a function beyond which it is taken to return.
const MAX_CODE: u64 = 1 << 16;

/// The functions that are called one by the other at most, until one is taken to return.
const MAX_DEPTH: usize = 8;

/// Bytes of a stub that are looked at.
const STUB: u64 = 32;

/// Functions of other files that never return: of C and POSIX, of the Itanium C++ ABI, of the LSB and of compilers.
const NEVER: [&str; 30] = [
    "_Exit",
    "_Unwind_Resume",
    "__assert",
    "__assert_fail",
    "__assert_perror_fail",
    "__chk_fail",
    "__cxa_bad_cast",
    "__cxa_bad_typeid",
    "__cxa_call_terminate",
    "__cxa_call_unexpected",
    "__cxa_pure_virtual",
    "__cxa_rethrow",
    "__cxa_throw",
    "__cxa_throw_bad_array_new_length",
    "__fortify_fail",
    "__longjmp_chk",
    "__stack_chk_fail",
    "_ZSt9terminatev",
    "_exit",
    "_longjmp",
    "abort",
    "err",
    "errx",
    "exit",
    "longjmp",
    "pthread_exit",
    "quick_exit",
    "siglongjmp",
    "verr",
    "verrx",
];

/// Returns whether a function of this name never returns; libstdc++ has many that throw.
fn is_never(name: &str) -> bool {
    NEVER.contains(&name) || (name.starts_with("_ZSt") && name.contains("__throw_"))
}

/// The pointers to functions of other files that never return.
pub fn never_pointers(file: &File<'_>) -> HashSet<Address> {
    file.imports().into_iter().filter(|(_, name)| is_never(name)).map(|(pointer, _)| pointer).collect()
}

/// The answers for a file's functions, each of which is looked at once.
pub struct Returns<'r, 'f> {
    memory: &'r FileMemory<'f>,
    functions: &'r Functions<'f>,
    arch: Arch,
    never: &'r HashSet<Address>,
    known: HashMap<Address, bool>,
}

impl<'r, 'f> Returns<'r, 'f> {
    pub fn new(
        memory: &'r FileMemory<'f>,
        functions: &'r Functions<'f>,
        arch: Arch,
        never: &'r HashSet<Address>,
    ) -> Self {
        Self { memory, functions, arch, never, known: HashMap::new() }
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

    /// None for what has neither CFI of its own nor a stub's code.
    fn looked_at(&mut self, start: Address, depth: usize) -> Option<bool> {
        if self.memory.is_stub(start) {
            let (bytes, relocated) = self.memory.code(start, STUB)?;
            let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
            return jump_slot(&code, &Instructions::new(&code)).map(|pointer| !self.never.contains(&pointer));
        }
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
