//! Finds functions that never return, by their names or by their code. A function is followed only when it is asked
//! for.

use std::collections::{BTreeMap, HashMap, HashSet};

use cfipack_code::{Analysis, Code, Flow, Instructions, jump_slot, may_return};
use cfipack_container::{File, Symbols};
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::cfi::Functions;

use crate::FileMemory;

/// A function with more bytes of code than this is assumed to return.
const MAX_CODE: u64 = 1 << 16;

/// How deep calls are followed. A function that is deeper is assumed to return.
const MAX_DEPTH: usize = 64;

/// How many functions are followed to decide about a single function. All further functions are assumed to return.
const MAX_FUNCTIONS: usize = 1 << 10;

/// How often functions are followed again for a decision. If answers still change after that, all of the decision's
/// functions are assumed to return.
const MAX_PASSES: usize = 16;

/// How many bytes of a function are read for a path without a call.
const LEAF: u64 = 1 << 9;

/// How many bytes of a stub are read.
const STUB: u64 = 32;

/// Functions of other files that never return. C and POSIX, the Itanium C++ ABI, the LSB or compilers define them.
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

/// Functions of other files that return if they do not throw. The Itanium C++ ABI, C and POSIX define them.
const ALWAYS: [&str; 14] = [
    "_ZdlPv",
    "_ZdlPvm",
    "_Znam",
    "_Znwm",
    "__cxa_allocate_exception",
    "__cxa_begin_catch",
    "__cxa_end_catch",
    "__cxa_free_exception",
    "free",
    "malloc",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
];

/// Returns whether a function of this name never returns. libstdc++ has many functions that throw, for example
/// `_ZSt20__throw_length_errorPKc`.
fn is_never(name: &str) -> bool {
    NEVER.contains(&name) || (name.starts_with("_ZSt") && name.contains("__throw_"))
}

/// The functions that stubs jump to, by the address of the pointer in memory.
#[derive(Debug, Default)]
pub struct Imports(HashMap<Address, Import>);

/// A function that a stub jumps to.
#[derive(Clone, Copy, Debug)]
enum Import {
    /// A function that never returns, by its name.
    Never,
    /// A function that returns, by its name.
    Always,
    /// A function of this file. Another file may replace it at run time, by a function that does the same.
    Own(Address),
}

impl Imports {
    /// Finds the imports of a file, by the symbols that relocations name. Omits functions of other files with unknown
    /// names.
    pub fn find(file: &File<'_>, symbols: &Symbols<'_>) -> Self {
        let imports = file.imports();
        let mut own = HashMap::new();
        let names: HashSet<&str> = imports.iter().map(|(_, name)| &**name).collect();
        for (address, name) in symbols.iter() {
            if let Some(name) = names.get(&*name) {
                // If two versions have the same name, use neither.
                own.entry(*name)
                    .and_modify(|known| *known = if *known == Some(address) { *known } else { None })
                    .or_insert(Some(address));
            }
        }
        let mut found = HashMap::new();
        for (pointer, name) in &imports {
            if is_never(name) {
                found.insert(*pointer, Import::Never);
            } else if ALWAYS.contains(&&**name) {
                found.insert(*pointer, Import::Always);
            } else if let Some(Some(address)) = own.get(&**name) {
                found.insert(*pointer, Import::Own(*address));
            }
        }
        Self(found)
    }
}

/// Knows where functions end.
pub trait Ends {
    /// Returns the end of the function that starts at an address, or an address after it.
    fn end(&self, start: Address) -> Option<Address>;
}

impl Ends for Functions<'_> {
    fn end(&self, start: Address) -> Option<Address> {
        let all = self.as_slice();
        let function = all.binary_search_by_key(&start, |function| function.start).ok()?;
        Some(all[function].end)
    }
}

/// Finds out whether the functions of a file may return, and remembers the answers.
pub struct Returns<'r, 'f> {
    memory: &'r FileMemory<'f>,
    functions: &'r dyn Ends,
    arch: Arch,
    imports: &'r Imports,
    known: HashMap<Address, bool>,
    /// Answers that can still change. A function is assumed not to return until a way through it does. So functions
    /// that only call each other never return.
    asked: BTreeMap<Address, bool>,
}

impl<'r, 'f> Returns<'r, 'f> {
    pub fn new(
        memory: &'r FileMemory<'f>,
        functions: &'r dyn Ends,
        arch: Arch,
        imports: &'r Imports,
    ) -> Self {
        Self { memory, functions, arch, imports, known: HashMap::new(), asked: BTreeMap::new() }
    }

    /// Returns the offsets of a function's calls to functions that never return. Omits calls that the analysis already
    /// treats this way.
    pub fn ending_calls(&mut self, analysis: &Analysis<'_>) -> Vec<u32> {
        let all = analysis.instructions();
        let mut ends = self.ends(all);
        ends.retain(|offset| all.index_of(*offset).is_none_or(|index| !analysis.is_noreturn(index)));
        ends
    }

    /// Returns whether a function is known to start at an address.
    pub fn is_start(&self, address: Address) -> bool {
        self.functions.end(address).is_some()
    }

    /// Returns the offsets of calls to functions that never return.
    pub fn ends(&mut self, instructions: &Instructions) -> Vec<u32> {
        let ends = instructions.iter().filter(|instruction| match instruction.flow {
            Flow::Call(Some(target)) => !self.may_return(target),
            _ => false,
        });
        ends.map(|instruction| instruction.offset).collect()
    }

    /// Returns whether the function at an address surely returns: by its name, or because a path without a call returns. A
    /// compiler puts no return into a function that never returns, and only after a call can a path lead into other code.
    pub fn surely(&self, start: Address) -> bool {
        let size = if self.memory.is_stub(start) { STUB } else { LEAF };
        let Some((bytes, relocated)) = self.memory.code(start, size) else { return false };
        let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
        let instructions = Instructions::new(&code);
        if self.memory.is_stub(start) {
            let import = jump_slot(&code, &instructions).and_then(|pointer| self.imports.0.get(&pointer));
            return match import {
                Some(Import::Always) => true,
                Some(Import::Own(address)) => !self.memory.is_stub(*address) && self.surely(*address),
                Some(Import::Never) | None => false,
            };
        }
        let (mut waiting, mut seen) = (vec![0], HashSet::new());
        while let Some(index) = waiting.pop() {
            let Some(instruction) = instructions.get(index).filter(|_| seen.insert(index)) else { continue };
            let (falls, target) = match instruction.flow {
                Flow::Return => return true,
                Flow::Next => (true, None),
                Flow::Branch(target, _) => (true, target),
                Flow::Jump(target) => (false, target),
                _ => continue,
            };
            let offset = target.and_then(|target| u32::try_from(target.0.wrapping_sub(start.0)).ok());
            let target = offset.and_then(|offset| instructions.index_of(offset));
            waiting.extend(target.into_iter().chain(falls.then_some(index + 1)));
        }
        false
    }

    /// Returns whether the function at an address may return.
    fn may_return(&mut self, start: Address) -> bool {
        if let Some(known) = self.known.get(&start) {
            return *known;
        }
        self.ask(start, MAX_DEPTH);
        // Repeat until no more functions turn out to return: earlier answers may have assumed that they do not.
        let returning = |asked: &BTreeMap<Address, bool>| asked.values().filter(|may| **may).count();
        let mut is_settled = false;
        for _ in 0..MAX_PASSES {
            let before = returning(&self.asked);
            let ends: Vec<Address> =
                self.asked.iter().filter(|(_, may)| !**may).map(|(start, _)| *start).collect();
            for function in ends {
                self.look(function, MAX_DEPTH);
            }
            is_settled = returning(&self.asked) == before;
            if is_settled {
                break;
            }
        }
        if !is_settled {
            self.asked.values_mut().for_each(|may| *may = true);
        }
        let may_return = self.asked.get(&start).is_none_or(|answer| *answer);
        self.known.extend(std::mem::take(&mut self.asked));
        may_return
    }

    fn ask(&mut self, start: Address, depth: usize) -> bool {
        if let Some(known) = self.known.get(&start).or_else(|| self.asked.get(&start)) {
            return *known;
        }
        if depth == 0 || self.asked.len() >= MAX_FUNCTIONS {
            return true;
        }
        self.asked.insert(start, false);
        self.look(start, depth)
    }

    fn look(&mut self, start: Address, depth: usize) -> bool {
        let may_return = self.looked_at(start, depth).unwrap_or(true);
        self.asked.insert(start, may_return);
        may_return
    }

    /// Follows a function's code. Returns `None` if the address has neither CFI nor a stub, or if the function is too
    /// large.
    fn looked_at(&mut self, start: Address, depth: usize) -> Option<bool> {
        if self.memory.is_stub(start) {
            let (bytes, relocated) = self.memory.code(start, STUB)?;
            let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
            let pointer = jump_slot(&code, &Instructions::new(&code))?;
            return match self.imports.0.get(&pointer)? {
                Import::Never => Some(false),
                Import::Always => Some(true),
                Import::Own(address) => Some(self.ask(*address, depth - 1)),
            };
        }
        let size = self.functions.end(start)?.0 - start.0;
        if size > MAX_CODE {
            return None;
        }
        let (bytes, relocated) = self.memory.code(start, size)?;
        let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
        let instructions = Instructions::new(&code);
        Some(may_return(&code, &instructions, &mut |called| self.ask(called, depth - 1)))
    }
}
