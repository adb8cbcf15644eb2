//! Searches code without symbols for functions.
//!
//! A call shows that a function starts at its target, if execution can reach the call: if the call lies on a path from
//! a known function. Bytes of data can look like a call too, but no path leads to them.
//!
//! Other addresses only suggest a function: a pointer in the data, an address that an instruction computes, the target
//! of a jump, the code after other code and padding, an aligned prologue. Such an address starts a function only if all
//! paths from it are known, and one returns to a caller or ends in a jump to a function. Calls on these paths then lead to further functions.
//!
//! - `suggestions` finds such addresses.
//! - `extent` follows the code from an address to the end of its function.
//! - `proof` decides whether this code shows that it is a function.

mod extent;
mod proof;
mod suggestions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cfipack_code::{Code, Instructions};
use cfipack_format::{Address, Arch};

use self::proof::Shown;
use super::jumps::Into;
use super::paths::{Paths, follow, has_other_function};
use super::uncovered::Evidence;
use crate::returns::Returns;
use crate::{FileMemory, padding};

/// The largest function that is found, in bytes.
const MAX_FUNCTION: u64 = 1 << 20;
/// Compilers align functions to this many bytes.
pub const ALIGNMENT: u64 = 16;
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
        let is_done = paths.end == 0 || is_large || padding::is_padding(self.arch, rest);
        let whole = if is_done { None } else { self.whole(function) };
        let rest = (!is_done && whole.is_none()).then(|| (end, paths.noreturn.clone()));
        self.keep(whole.unwrap_or(paths));
        rest
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
}
