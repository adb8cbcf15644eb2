//! The functions that never return, found by name or in their code where somebody asks.

use std::collections::{BTreeMap, HashMap, HashSet};

use cfipack_code::{Analysis, Code, Flow, Instructions, jump_slot, may_return};
use cfipack_container::{File, Symbols};
use cfipack_format::{Address, Arch};
use cfipack_roundtrip::cfi::Functions;

use crate::FileMemory;

/// Bytes of a function beyond which it is taken to return.
const MAX_CODE: u64 = 1 << 16;

/// The functions that are called one by the other at most, until one is taken to return.
const MAX_DEPTH: usize = 64;

/// The functions that are looked at for one question, until all others are taken to return.
const MAX_FUNCTIONS: usize = 1 << 10;

/// The times that the functions of one question are looked at, until all are taken to return.
const MAX_PASSES: usize = 16;

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

/// The functions behind the pointers that stubs jump through.
#[derive(Debug, Default)]
pub struct Imports(HashMap<Address, Import>);

/// A function that a stub leads to.
#[derive(Clone, Copy, Debug)]
enum Import {
    /// One that never returns, by its name.
    Never,
    /// One of this file, which others may replace by one that does the same.
    Own(Address),
}

impl Imports {
    /// The imports of a file that are known, by the symbols that relocations name.
    pub fn of(file: &File<'_>, symbols: &Symbols<'_>) -> Self {
        let imports = file.imports();
        let mut own = HashMap::new();
        let names: HashSet<&str> = imports.iter().map(|(_, name)| &**name).collect();
        for (address, name) in symbols.iter() {
            if let Some(name) = names.get(&*name) {
                // Of two versions with one name, neither.
                own.entry(*name)
                    .and_modify(|known| *known = if *known == Some(address) { *known } else { None })
                    .or_insert(Some(address));
            }
        }
        let import = |name: &str| match own.get(name) {
            _ if is_never(name) => Some(Import::Never),
            Some(Some(address)) => Some(Import::Own(*address)),
            _ => None,
        };
        Self(imports.iter().filter_map(|(pointer, name)| Some((*pointer, import(name)?))).collect())
    }
}

/// The answers for a file's functions, each of which is looked at once.
pub struct Returns<'r, 'f> {
    memory: &'r FileMemory<'f>,
    functions: &'r Functions<'f>,
    arch: Arch,
    imports: &'r Imports,
    known: HashMap<Address, bool>,
    /// Answers of the question that is being answered: none of its functions is taken to return until one of its ways does.
    /// So functions that only call each other never return.
    asked: BTreeMap<Address, bool>,
}

impl<'r, 'f> Returns<'r, 'f> {
    pub fn new(
        memory: &'r FileMemory<'f>,
        functions: &'r Functions<'f>,
        arch: Arch,
        imports: &'r Imports,
    ) -> Self {
        Self { memory, functions, arch, imports, known: HashMap::new(), asked: BTreeMap::new() }
    }

    /// Offsets of a function's calls of functions that never return, without those that it is known of.
    pub fn ending_calls(&mut self, analysis: &Analysis<'_>) -> Vec<u32> {
        let calls = analysis.instructions().as_slice().iter().enumerate();
        let ends = calls.filter(|(index, instruction)| match instruction.flow {
            Flow::Call(Some(target)) => !analysis.is_noreturn(*index) && !self.may_return(target),
            _ => false,
        });
        ends.map(|(_, instruction)| instruction.offset).collect()
    }

    /// Returns whether the function at an address may return.
    fn may_return(&mut self, start: Address) -> bool {
        if let Some(known) = self.known.get(&start) {
            return *known;
        }
        self.ask(start, MAX_DEPTH);
        // Until no function turns out to return that others have been told of that it does not.
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

    /// None for what has neither CFI of its own nor a stub's code.
    fn looked_at(&mut self, start: Address, depth: usize) -> Option<bool> {
        if self.memory.is_stub(start) {
            let (bytes, relocated) = self.memory.code(start, STUB)?;
            let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
            let pointer = jump_slot(&code, &Instructions::new(&code))?;
            return match self.imports.0.get(&pointer)? {
                Import::Never => Some(false),
                Import::Own(address) => Some(self.ask(*address, depth - 1)),
            };
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
        Some(may_return(&code, &instructions, &mut |called| self.ask(called, depth - 1)))
    }
}
