//! Searches code without symbols for functions.
//!
//! A call shows that a function starts at its target, if execution can reach the call: if the call lies on a path from
//! a known function. Bytes of data can look like a call too, but no path leads to them.
//!
//! Other addresses only suggest a function: a pointer in the data, an address that an instruction computes, the target
//! of a jump, the code after other code and padding, an aligned prologue. Such an address starts a function only if all
//! paths from it are known, and one returns to a caller or ends in a jump to a function. Calls on these paths then lead to further functions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cfipack_code::{Code, Doubt, Flow, Instructions};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch, Family};

use super::jumps::Into;
use super::paths::{
    LONGEST, Looks, Paths, calls_without_frame, follow, has_other_function, looks, lost_calls, may_end,
    resumed, starts_with_prologue,
};
use super::uncovered::Evidence;
use crate::returns::Returns;
use crate::{FileMemory, padding};

/// The number of bytes that are decoded first when a function's end is not known.
const WINDOW: u64 = 1 << 9;
/// If the code goes on after these bytes, or jumps to code within this many times the bytes, it is decoded so much further.
const GROWTH: u64 = 8;
/// The largest function that is found, in bytes.
const MAX_FUNCTION: u64 = 1 << 20;
/// Compilers align functions to this many bytes.
pub const ALIGNMENT: u64 = 16;
/// So many bytes show whether code ends before an address.
const BEFORE: u64 = 32;
/// The bytes of a direct call.
const CALL: u64 = 5;
/// The search stops after it has decoded this many times the bytes of the code without symbols.
const WORK: u64 = 64;

/// A function that the search has found.
#[derive(Debug)]
pub struct Found {
    /// The address after the function's last instruction.
    pub end: Address,
    /// The evidence for a function at this place.
    pub evidence: Evidence,
    /// The offsets of calls that do not return, ascending.
    pub noreturn: Vec<u32>,
    /// The offsets of the function's instructions.
    instructions: BTreeSet<u32>,
}

/// The search in code without symbols.
pub struct Search<'s, 'f> {
    arch: Arch,
    pub memory: &'s FileMemory<'f>,
    returns: &'s mut Returns<'s, 'f>,
    /// The code without symbols, ascending.
    pub code: Vec<Range<Address>>,
    found: BTreeMap<Address, Found>,
    /// Targets of calls that wait.
    called: Vec<Address>,
    /// Targets of jumps with a frame in place that wait.
    fragments: Vec<Address>,
    /// Addresses that may be functions and wait. The last goes first.
    suggested: Vec<Address>,
    seen: BTreeSet<Address>,
    /// The starts of code that a symbol with a size has after its function's last known instruction. No function starts in it
    /// without a call.
    inner: BTreeSet<Address>,
    /// Addresses that are functions if one of their last jumps leads to a function, by the targets of the jumps.
    jumping: BTreeMap<Address, Vec<Address>>,
    /// The ends of new functions, and the starts and labels of the code without symbols. What follows other code may be data.
    ends: BTreeSet<Address>,
    decoded: Instructions,
    /// The number of bytes that may still be decoded.
    work: u64,
}

/// What code shows by itself.
enum Shown {
    Nothing,
    /// It is compiled code: it saves its caller's registers, or calls a function that never returns. A function can
    /// follow it.
    Compiled,
    /// It is a function.
    Function,
}

impl<'s, 'f> Search<'s, 'f> {
    /// Prepares a search in ranges of code. The ranges have to be ascending, without overlap. Functions may start at
    /// `starts`.
    pub fn new(
        arch: Arch,
        memory: &'s FileMemory<'f>,
        returns: &'s mut Returns<'s, 'f>,
        code: Vec<Range<Address>>,
        starts: Vec<Address>,
    ) -> Self {
        let size: u64 = code.iter().map(|range| range.end.0 - range.start.0).sum();
        Self {
            arch,
            memory,
            returns,
            code,
            found: BTreeMap::new(),
            called: Vec::new(),
            fragments: Vec::new(),
            suggested: Vec::new(),
            seen: BTreeSet::new(),
            inner: BTreeSet::new(),
            jumping: BTreeMap::new(),
            ends: starts.into_iter().collect(),
            decoded: Instructions::default(),
            work: size.saturating_mul(WORK),
        }
    }

    /// Keeps what functions with CFI call and refer to. All of their bytes count as instructions that are reached,
    /// because only CFI leads to their landing pads.
    pub fn enter(&mut self, into: &Into) {
        self.called.extend(&into.calls);
        into.addresses.iter().for_each(|address| self.suggest(*address));
    }

    /// Follows a function that is known, and keeps what its paths call and refer to. Returns the end of the code that
    /// paths lead to, and the calls that do not return, if the function gets no rows because of code after this end.
    /// For example, only CFI leads to landing pads.
    pub fn follow(&mut self, function: &Range<Address>) -> Option<(Address, Vec<u32>)> {
        let paths = self.paths(function.start, function.end)?;
        let end = function.start.offset(paths.end as i64);
        let (rest, _) = self.memory.code(end, function.end.0 - end.0).unwrap_or_default();
        let is_large = function.end.0 - function.start.0 > MAX_FUNCTION;
        if paths.end == 0 || is_large || padding::is_padding(self.arch, rest) {
            self.keep(paths);
            return None;
        }
        if let Some(paths) = self.whole(function) {
            self.keep(paths);
            return None;
        }
        let noreturn = paths.noreturn.clone();
        self.keep(paths);
        Some((end, noreturn))
    }

    /// Returns the paths of a function if it can have rows as a whole, by itself. Only calls of functions that never return
    /// do not return.
    fn whole(&mut self, function: &Range<Address>) -> Option<Paths> {
        let (bytes, relocated) = self.memory.code(function.start, function.end.0 - function.start.0)?;
        let code = Code { arch: self.arch, start: function.start, bytes, relocated: &relocated };
        self.decoded.decode(&code);
        let noreturn = self.returns.ends(&self.decoded);
        let mut analysis = follow(code, &self.decoded, self.memory, &noreturn);
        let mut paths = Paths::default();
        paths.read(&analysis);
        let is_whole = paths.fragments.is_empty() && analysis.leaves_like_a_function();
        (is_whole && !has_other_function(&analysis)).then_some(paths)
    }

    /// Adds code to which no path of its function leads, after the known functions are followed. `is_inner` says whether a
    /// symbol shows that code at an address is of the function.
    pub fn add_code(&mut self, mut code: Vec<Range<Address>>, is_inner: impl Fn(Address) -> bool) {
        let (inner, free): (Vec<_>, Vec<_>) =
            code.iter().map(|range| range.start).partition(|start| is_inner(*start));
        self.inner.extend(inner);
        self.ends.extend(free);
        self.code.append(&mut code);
        self.code.sort_by_key(|range| range.start);
    }

    /// Follows the code where the program starts. No call leads there, so it is no function that gets rows.
    pub fn follow_entry(&mut self, entry: Address) {
        if let Some(paths) = self.limit(entry).and_then(|limit| self.paths(entry, limit)) {
            self.keep(paths);
        }
    }

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

    fn suggest_start(&mut self, address: Address) {
        let is_free = self.around(address).is_some_and(|range| !self.inner.contains(&range.start));
        if is_free && self.seen.insert(address) {
            self.suggested.push(address);
        }
    }

    /// Finds the functions, by their starts.
    pub fn run(mut self) -> BTreeMap<Address, Found> {
        loop {
            if let Some(address) = self.called.pop() {
                self.add_called(address);
            } else if let Some(address) = self.fragments.pop() {
                self.add_free(address, Evidence::Jump);
            } else if let Some(address) = self.suggested.pop() {
                self.add_free(address, Evidence::Code);
            } else if !self.suggest_after_padding() && !self.suggest_prologues() {
                return self.found;
            }
        }
    }

    fn keep(&mut self, paths: Paths) {
        self.called.extend(paths.calls);
        self.fragments.extend(paths.fragments);
        for address in paths.suggested {
            if self.follows_end(address) {
                self.suggest(address);
            }
        }
    }

    /// Returns the range of code without symbols that contains an address.
    fn around(&self, address: Address) -> Option<&Range<Address>> {
        let next = self.code.partition_point(|range| range.end <= address);
        self.code.get(next).filter(|range| range.start <= address)
    }

    /// Returns the function that contains an address.
    fn function_around(&self, address: Address) -> Option<(Address, &Found)> {
        let (start, found) = self.found.range(..=address).next_back()?;
        (address < found.end).then_some((*start, found))
    }

    /// Returns where a function ends at the latest that starts at an address.
    fn limit(&self, start: Address) -> Option<Address> {
        let range = self.around(start)?;
        let next = self.found.range(Address(start.0 + 1)..).next();
        Some(next.map_or(range.end, |(next, _)| (*next).min(range.end)))
    }

    fn add_called(&mut self, start: Address) {
        if let Some(found) = self.found.get_mut(&start) {
            found.evidence = Evidence::Call;
            return;
        }
        let Some(limit) = self.limit(start) else { return };
        let around = self.function_around(start).map(|(other, found)| {
            (other, found.evidence, found.instructions.contains(&((start.0 - other.0) as u32)))
        });
        match around {
            None => self.add(start, limit, Evidence::Call),
            // A call into the middle of an instruction is none.
            Some((.., false)) => {}
            Some((other, evidence, true)) => {
                self.found.remove(&other);
                self.add(start, limit, Evidence::Call);
                self.add(other, start, evidence);
            }
        }
    }

    /// Adds a function at an address that no other function contains.
    fn add_free(&mut self, start: Address, evidence: Evidence) {
        if self.function_around(start).is_some() {
            return;
        }
        if let Some(limit) = self.limit(start) {
            self.add(start, limit, evidence);
        }
    }

    /// Adds a function that ends before `limit`. Without other evidence, its code has to show that it is a function.
    fn add(&mut self, start: Address, limit: Address, evidence: Evidence) {
        if self.work == 0 {
            return;
        }
        let Some(mut paths) = self.paths(start, limit) else { return };
        self.work = self.work.saturating_sub(paths.decoded);
        if paths.end == 0 {
            return;
        }
        if evidence == Evidence::Code {
            let mut shown = self.shown(start, &paths);
            if !matches!(shown, Shown::Function)
                && let Some(before) = self.before_called(start, &paths)
            {
                (shown, paths) = (self.shown(start, &before), before);
            }
            match shown {
                Shown::Function => {}
                Shown::Compiled => {
                    self.ends.insert(start.offset(paths.end as i64));
                    return;
                }
                Shown::Nothing => return,
            }
        }
        let end = start.offset(paths.end as i64);
        self.ends.insert(end);
        if evidence != Evidence::Jump {
            self.suggested.extend(self.jumping.remove(&start).unwrap_or_default());
        }
        let (instructions, noreturn) =
            (std::mem::take(&mut paths.instructions), std::mem::take(&mut paths.noreturn));
        self.found.insert(start, Found { end, evidence, noreturn, instructions });
        self.keep(paths);
    }

    /// Returns the paths from `start` up to the first function that they call. It may follow without padding.
    fn before_called(&mut self, start: Address, paths: &Paths) -> Option<Paths> {
        let end = start.offset(paths.end as i64);
        let called = paths.calls.iter().filter(|called| start < **called && **called < end).min();
        let before = self.paths(start, *called?)?;
        self.work = self.work.saturating_sub(before.decoded);
        Some(before)
    }

    /// Returns whether code shows by itself that it is a function: every path from its start is known, and a path returns or
    /// ends in a jump to a function. A lone return or jump shows nothing, because bytes of data can look like it.
    fn shown(&mut self, start: Address, paths: &Paths) -> Shown {
        if paths.instructions.len() < 2 {
            return Shown::Nothing;
        }
        let Some((bytes, relocated)) = self.memory.code(start, paths.end) else { return Shown::Nothing };
        let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
        self.decoded.decode(&code);
        let is_compiled = match looks(self.arch, &code, &self.decoded) {
            Looks::Data => return Shown::Nothing,
            Looks::Plain if !self.is_aligned(start, start.offset(paths.end as i64)) => return Shown::Nothing,
            Looks::Saving if start.0.is_multiple_of(ALIGNMENT) => true,
            Looks::Saving | Looks::Plain => !self.returns.ends(&self.decoded).is_empty(),
        };
        let mut analysis = follow(code, &self.decoded, self.memory, &paths.noreturn);
        let leaves = analysis.leaves_like_a_function() && !calls_without_frame(&analysis);
        if leaves && analysis.returns() {
            return Shown::Function;
        }
        let is_followed = analysis.doubts().all(|(doubt, _)| doubt == Doubt::IndirectJump);
        let shown = if is_compiled && is_followed { Shown::Compiled } else { Shown::Nothing };
        let functions = if leaves { analysis.tail_calls() } else { BTreeSet::new() };
        drop(analysis);
        if functions.iter().any(|function| self.is_known(*function)) {
            return Shown::Function;
        }
        for function in functions {
            self.jumping.entry(function).or_default().push(start);
        }
        shown
    }

    /// Returns whether code without a call starts and ends as compilers align functions. Data can look like code that has no
    /// call and saves no register, but it mostly has other bytes before and after.
    fn is_aligned(&self, start: Address, end: Address) -> bool {
        let calls = self.decoded.iter().any(|one| matches!(one.flow, Flow::Call(_)));
        if calls || self.arch.family() != Family::X86 {
            return true;
        }
        let after = self.around(end).and_then(|range| self.memory.code(end, range.end.0 - end.0));
        let is_end = |(bytes, _): (&[u8], _)| {
            let padding = padding::len(self.arch, bytes);
            padding == bytes.len() || padding.to_u64() >= end.0.next_multiple_of(ALIGNMENT) - end.0
        };
        start.0.is_multiple_of(ALIGNMENT) && (self.found.contains_key(&end) || after.is_none_or(is_end))
    }

    /// Returns whether a function is known to start at an address.
    fn is_known(&self, start: Address) -> bool {
        let is_found = self.found.get(&start).is_some_and(|found| found.evidence != Evidence::Jump);
        is_found || self.memory.is_stub(start) || self.around(start).is_none() && self.returns.is_start(start)
    }

    /// Suggests the code after the padding that follows each end. Returns false if there is none that is new.
    fn suggest_after_padding(&mut self) -> bool {
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

    /// Returns whether a call of the decoded code surely returns.
    fn surely_returns(&self, call: u32) -> bool {
        let index = self.decoded.index_of(call);
        let flow = index.and_then(|index| self.decoded.get(index)).map(|call| call.flow);
        matches!(flow, Some(Flow::Call(Some(target))) if self.returns.surely(target))
    }

    /// Suggests the aligned prologues after code that no path leads to, for example after the landing pads of a function.
    /// Returns false if there is none that is new.
    fn suggest_prologues(&mut self) -> bool {
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

    /// Follows the code from an address to `limit` at most. Returns `None` if no code is there.
    fn paths(&mut self, start: Address, limit: Address) -> Option<Paths> {
        let most = (limit.0 - start.0).min(MAX_FUNCTION);
        let (mut window, mut decoded) = (most.min(WINDOW), 0);
        loop {
            decoded += window;
            let (bytes, relocated) = self.memory.code(start, window)?;
            let code = Code { arch: self.arch, start, bytes, relocated: &relocated };
            self.decoded.decode(&code);
            let mut noreturn = self.returns.ends(&self.decoded);
            let mut analysis = follow(code, &self.decoded, self.memory, &noreturn);
            // The end of a function is not known. So code after a call belongs to the function only if it leads back
            // into the function, or to a return, or if no other function can start there.
            let mut lost = lost_calls(&analysis, window < most);
            // A fragment may follow another function's fragment, and both need not be aligned.
            let is_fragment = !start.0.is_multiple_of(ALIGNMENT);
            lost.retain(|call| {
                is_fragment && !self.surely_returns(*call) || may_end(&code, &self.decoded, *call)
            });
            while !lost.is_empty() {
                let mut all = [&noreturn[..], &lost].concat();
                all.sort_unstable();
                all.dedup();
                analysis = follow(code, &self.decoded, self.memory, &all);
                let last = resumed(&analysis).last().copied().unwrap_or(0);
                let known = lost.len();
                lost.retain(|call| *call >= last || may_end(&code, &self.decoded, *call));
                if lost.len() == known {
                    noreturn = all;
                    break;
                }
                if lost.is_empty() {
                    analysis = follow(code, &self.decoded, self.memory, &noreturn);
                }
            }
            let mut paths = Paths { noreturn, decoded, ..Paths::default() };
            let nearest = paths.read(&analysis);
            let is_cut = paths.end + LONGEST > window || nearest < GROWTH * window;
            if !is_cut || window == most {
                return Some(paths);
            }
            window = most.min(GROWTH * window);
        }
    }
}
