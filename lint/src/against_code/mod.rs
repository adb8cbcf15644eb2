//! Compares the CFI of a whole file with its code.
//!
//! gimli evaluates the CFI (`cfipack-roundtrip`), and `cfipack-code` follows the code.
//!
//! - `function` compares one function.
//! - `targets` has the targets of calls and jumps.
//!
//! [`lint()`] compares all functions of a file, on several threads and in several rounds.

mod function;
mod outcome;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use cfipack_code::Finding;
use cfipack_container::{CallFrameSection, File, Kind, Symbols};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Family};
use cfipack_roundtrip::cfi::{Functions, Unreadable};

use self::function::Linter;
use self::outcome::{Leaving, Outcome, Pass, Way};
use self::targets::Targets;
use crate::FileMemory;
use crate::records::{self, RecordFinding, RecordKind};
use crate::returns::Imports;

/// The result for a file.
#[derive(Debug, Default)]
pub struct Lint {
    /// Functions with a disagreement, by address.
    pub functions: Vec<WrongFunction>,
    /// The number of functions in which every instruction was compared. A function with findings counts too.
    pub decided: u64,
    /// The number of functions with an instruction that was not compared, for each reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// The first few undecided functions of each reason, with their starts.
    pub examples: Vec<(&'static str, Address)>,
    /// The number of instructions with the right row.
    pub instructions: u64,
    /// The faults of the records themselves.
    pub records: Vec<RecordFinding>,
    /// True if only the rows at calls were judged, because the CFI of the file is exact at calls only, or on request
    /// ([`Lint::at_calls`]).
    pub is_at_calls: bool,
    /// True if no function has rows for the ends of its frame, and the file has too few functions to conclude that its
    /// CFI is exact at calls only.
    pub has_no_ends: bool,
}

/// A function with a disagreement.
#[derive(Debug)]
pub struct WrongFunction {
    /// The start.
    pub start: Address,
    /// The disagreements, by instruction.
    pub findings: Vec<Found>,
    /// The places where a disagreement changes or ends.
    pub ends: Vec<Found>,
    /// The calls with a wrong row.
    pub at_calls: Vec<Found>,
}

/// A disagreement.
#[derive(Debug)]
pub struct Found {
    /// The address of the instruction.
    pub pc: Address,
    /// The text of the instruction, and the target of a direct branch.
    pub text: cfipack_code::Text,
    /// The CFA of the CFI's row at the instruction, for example `rsp+8`.
    pub cfa: String,
    /// The kind of disagreement.
    pub finding: Finding,
}

/// How many example functions are listed for each reason.
const EXAMPLES: usize = 5;

/// Compares the CFI of a file with its code, on `threads` threads.
///
/// The result has the functions whose start `wanted` selects. `progress` is called now and then with the number of
/// functions that are done, and the number of all functions.
///
/// # Errors
/// The sections, the symbols or the relocations of the file cannot be read.
pub fn lint(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    threads: usize,
    wanted: &(dyn Fn(Address) -> bool + Sync),
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Lint, cfipack_container::Error> {
    let memory = FileMemory::new(file)?;
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let symbols = file.symbols()?;
    let imports = Imports::find(file, &symbols);
    let work = Work { memory: &memory, functions: &functions, arch: file.arch(), imports: &imports };
    let all: Vec<usize> = (0..functions.as_slice().len()).collect();
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(all.len(), || None);
    let (mut entries, mut targets) = (HashMap::<usize, Vec<Way>>::new(), Targets::default());
    // The first round follows all functions. Later rounds follow fragments and functions that are jumped into.
    let mut round = all.clone();
    for number in 0..ROUNDS {
        let progress = if number == 0 { progress } else { &|_, _| {} };
        let (done, found) = work.run(&round, &entries, threads, Pass::default(), progress);
        if number == 0 {
            targets = found;
        }
        let mut again = Vec::new();
        for (index, mut outcome) in round.drain(..).zip(done) {
            for Leaving { target, state, is_from_table, is_default } in std::mem::take(&mut outcome.exits) {
                let Some(other) = around(&functions, target) else { continue };
                let offset = (target.0 - functions.as_slice()[other].start.0) as u32;
                let was_entered = outcomes[other].as_ref().is_none_or(|outcome| outcome.is_entered);
                let is_start = was_entered && offset == 0 && !is_from_table && !is_default;
                let is_to_part = is_start && is_callable(&symbols, target) == Some(false);
                if is_to_part || outcomes_wait(&outcomes, other, index) {
                    let list = entries.entry(other).or_default();
                    let is_default = is_default && offset == 0;
                    let way = Way { from: index, offset, state, is_from_table, is_default, is_to_part };
                    // Most jumps from one function to another leave with the same state, and so they do in each round.
                    if list.len() < MAX_ENTRIES && !list.contains(&way) {
                        list.push(way);
                        again.push(other);
                    }
                }
            }
            // The ways into a function that is decided are not needed any more, and their states take much memory.
            if !outcome.waits && !is_entered_part(&outcome, entries.get(&index)) {
                entries.remove(&index);
            }
            outcomes[index] = Some(outcome);
        }
        again.sort_unstable();
        again.dedup();
        again.retain(|index| {
            let outcome = outcomes[*index].as_ref();
            outcome.is_none_or(|outcome| outcome.waits || is_entered_part(outcome, entries.get(index)))
        });
        if again.is_empty() {
            break;
        }
        round = again;
    }
    let is_object = file.kind() == Kind::Relocatable;
    // All ways into these functions are known. In an object, nothing is known about the called functions.
    let closed: Vec<_> = all
        .iter()
        .copied()
        .filter(|_| !is_object)
        .filter(|index| {
            let is_decided =
                |way: &Way| outcomes[way.from].as_ref().is_some_and(|outcome| outcome.doubt.is_none());
            let ways = entries.get(index).map_or(&[][..], Vec::as_slice);
            let is_last =
                |outcome: &Outcome| outcome.has_last_calls && (outcome.is_entered || !ways.is_empty());
            ways.len() < MAX_ENTRIES
                && ways.iter().all(is_decided)
                && outcomes[*index].as_ref().is_some_and(is_last)
        })
        .collect();
    let pass = Pass { is_closed: true, ..Pass::default() };
    let (done, _) = work.run(&closed, &entries, threads, pass, &|_, _| {});
    for (index, outcome) in closed.into_iter().zip(done) {
        outcomes[index] = Some(outcome);
    }
    // The row at the start of these functions is not the row after a call. Only a call shows that it should be.
    let needs_call = |outcome: &Option<Outcome>| outcome.as_ref().is_some_and(|outcome| outcome.needs_call);
    let is_exported = |start| symbols.is_global(start) && (is_object || symbols.is_function(start));
    let called = all.iter().copied().filter(|index| {
        let start = functions.as_slice()[*index].start;
        needs_call(&outcomes[*index])
            && targets.has_call_to(start, &is_exported)
            && is_callable(&symbols, start) == Some(true)
    });
    let called: Vec<_> = called.collect();
    let pass = Pass { is_called: true, is_closed: false };
    let (done, _) = work.run(&called, &entries, threads, pass, &|_, _| {});
    for (index, outcome) in called.into_iter().zip(done) {
        outcomes[index] = Some(outcome);
    }
    let mut lint = Lint::default();
    let (mut exact, mut inexact) = (0, 0);
    for outcome in outcomes.iter().flatten() {
        exact += u64::from(outcome.ends_frames == Some(true));
        inexact += u64::from(outcome.ends_frames == Some(false));
    }
    lint.records = records::check(file, sections, &symbols, &memory)?;
    // The code of a function runs into an FDE that starts late, so the start of the FDE is no entry.
    let uncovered = lint.records.iter().filter(|record| record.kind == RecordKind::Uncovered);
    let ends = uncovered.map(|record| record.wrong.end);
    let entered: HashSet<_> = ends.filter(|end| !symbols.is_function(*end)).collect();
    for (function, outcome) in functions.as_slice().iter().zip(outcomes) {
        let Some(mut outcome) = outcome.filter(|_| wanted(function.start)) else { continue };
        if entered.contains(&function.start) {
            outcome = Outcome::undecided("fragment");
        }
        lint.add(function.start, outcome);
    }
    // Unwinders for arm64e expect every saved x30 to be signed, so arm64e has no directive for it.
    if file.is_arm64e() {
        lint.functions.iter_mut().for_each(|function| {
            function.findings.retain(|found| found.finding.kind != cfipack_code::Kind::Signature);
        });
        lint.functions.retain(|function| !function.findings.is_empty());
    }
    for Unreadable { .. } in functions.unreadable() {
        *lint.undecided.entry("cfi").or_default() += 1;
    }
    lint.records.retain(|finding| wanted(finding.function));
    if inexact != 0 && exact * EXACT_SHARE <= inexact {
        // No compiler for macOS on x86 writes rows for epilogues.
        if inexact >= INEXACT || (file.as_elf().is_none() && file.arch().family() == Family::X86) {
            return Ok(lint.at_calls());
        }
        lint.has_no_ends = exact == 0;
    }
    Ok(lint)
}

/// A file's CFI is exact at calls only if at least this many functions have no rows for the ends of their frames, and a
/// wrong row at a return ...
const INEXACT: u64 = 4;

/// ... and functions with such rows are at most a share of one in this number. Compilers that write no rows for
/// epilogues write none in the whole file.
const EXACT_SHARE: u64 = 16;

/// Compares the CFI of the function that starts at `start` with its code. The result has the findings of [`lint()`], and
/// the places where a disagreement ends ([`Finding::continues`]).
///
/// Follows the whole file on `threads` threads if the rest of the file matters: for a function that is not clean by itself,
/// and for a fragment, which other functions jump into.
///
/// # Errors
/// The sections, the symbols or the relocations of the file cannot be read.
pub fn lint_function(
    file: &File<'_>,
    sections: &[CallFrameSection<'_>],
    threads: usize,
    start: Address,
) -> Result<Vec<Found>, cfipack_container::Error> {
    let memory = FileMemory::new(file)?;
    let cfi: Vec<_> = sections.iter().map(CallFrameSection::cfi).collect();
    let functions = Functions::find(&cfi);
    let symbols = file.symbols()?;
    let imports = Imports::find(file, &symbols);
    let all = functions.as_slice();
    let Ok(index) = all.binary_search_by_key(&start, |function| function.start) else {
        return Ok(Vec::new());
    };
    let mut linter = Linter::new(&memory, &functions, file.arch(), &imports);
    let outcome = linter.compare(&all[index], &[], Pass::default());
    if outcome.is_clean_alone() && is_callable(&symbols, start) != Some(false) {
        return Ok(Vec::new());
    }
    let lint = lint(file, sections, threads, &|function| function == start, &|_, _| {})?;
    let functions = lint.functions.into_iter();
    Ok(functions.flat_map(|function| [function.findings, function.ends]).flatten().collect())
}

/// The most rounds over a file. The first round compares all functions, the second the fragments that functions jump
/// into, and the third the functions that fragments jump back into. Further rounds are for functions of many parts.
const ROUNDS: usize = 16;

/// At most this many jumps into a function from other functions are followed.
const MAX_ENTRIES: usize = 256;

/// Returns the index of the function that contains an address.
fn around(functions: &Functions<'_>, pc: Address) -> Option<usize> {
    let all = functions.as_slice();
    let index = all.partition_point(|function| function.start <= pc).checked_sub(1)?;
    (pc < all[index].end).then_some(index)
}

/// Returns whether another way into the function `other` can decide more of its instructions.
fn outcomes_wait(outcomes: &[Option<Outcome>], other: usize, index: usize) -> bool {
    // In the first round, functions after `index` have no outcome yet.
    outcomes[other].as_ref().map_or(other > index, |outcome| outcome.waits)
}

/// The input that all threads share.
struct Work<'w, 'f> {
    memory: &'w FileMemory<'f>,
    functions: &'w Functions<'f>,
    arch: cfipack_format::Arch,
    imports: &'w Imports,
}

/// Returns whether a call can lead to an address, by its symbol, if it has one. A call enters neither a fragment, nor a
/// function of libgcc that gets more stack: its CFI omits a frame by intent.
fn is_callable(symbols: &Symbols<'_>, start: Address) -> Option<bool> {
    let symbol = symbols.lookup(start).filter(|symbol| symbol.offset == 0)?;
    Some(!symbol.name.contains(".cold") && !symbol.name.starts_with("__morestack"))
}

/// Returns whether a function was followed from its start as if a call leads there, and jumps with a frame lead there
/// instead.
fn is_entered_part(outcome: &Outcome, ways: Option<&Vec<Way>>) -> bool {
    outcome.is_entered && ways.is_some_and(|ways| ways.iter().any(|way| way.is_to_part))
}

impl Work<'_, '_> {
    /// Compares functions. Returns their outcomes in the order of `indexes`, and the targets of their calls and jumps.
    fn run(
        &self,
        indexes: &[usize],
        entries: &HashMap<usize, Vec<Way>>,
        threads: usize,
        pass: Pass,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> (Vec<Outcome>, Targets) {
        const CHUNK: usize = 64;
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut linter = Linter::new(self.memory, self.functions, self.arch, self.imports);
            let mut done = Vec::new();
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                let Some(rest) = indexes.get(chunk * CHUNK..).filter(|rest| !rest.is_empty()) else { break };
                for (number, index) in rest.iter().take(CHUNK).enumerate() {
                    let own = entries.get(index).map_or(&[][..], Vec::as_slice);
                    let function = &self.functions.as_slice()[*index];
                    let mut outcome = linter.compare(function, own, pass);
                    // States take much memory, so keep only those that another function can be followed from.
                    outcome.exits.retain(|leaving| {
                        around(self.functions, leaving.target).is_some_and(|other| other != *index)
                    });
                    done.push((chunk * CHUNK + number, outcome));
                }
                progress((chunk * CHUNK) as u64, indexes.len() as u64);
            }
            (done, linter.targets)
        };
        let (mut done, targets) = match threads {
            0 | 1 => worker(),
            _ => std::thread::scope(|scope| {
                let all: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
                let (mut done, mut targets) = (Vec::new(), Targets::default());
                for thread in all {
                    let (own, own_targets) =
                        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    done.extend(own);
                    targets.called.extend(own_targets.called);
                    targets.jumped.extend(own_targets.jumped);
                }
                (done, targets)
            }),
        };
        done.sort_unstable_by_key(|(number, _)| *number);
        (done.into_iter().map(|(_, outcome)| outcome).collect(), targets)
    }
}

impl Lint {
    fn add(&mut self, start: Address, outcome: Outcome) {
        self.instructions += outcome.right;
        match outcome.doubt {
            None => self.decided += 1,
            Some(reason) => {
                let count = self.undecided.entry(reason).or_default();
                *count += 1;
                if *count <= EXAMPLES as u64 {
                    self.examples.push((reason, start));
                }
            }
        }
        let Outcome { findings, at_calls, .. } = outcome;
        let (ends, findings): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|found| found.finding.continues);
        if !findings.is_empty() {
            self.functions.push(WrongFunction { start, findings, ends, at_calls });
        }
    }

    /// Keeps the faults that an unwinder meets at calls. These are the findings about CFI that is exact at calls only,
    /// as compilers write it for macOS on x86-64 and clang for `-Oz`.
    #[must_use]
    pub fn at_calls(mut self) -> Self {
        if std::mem::replace(&mut self.is_at_calls, true) {
            return self;
        }
        self.has_no_ends = false;
        for function in &mut self.functions {
            function.findings = std::mem::take(&mut function.at_calls);
            function.ends.clear();
        }
        self.functions.retain(|function| !function.findings.is_empty());
        self
    }

    /// Returns the number of functions with findings, in their rows or their records.
    pub fn wrong(&self) -> u64 {
        let rows = self.functions.iter().map(|function| function.start);
        let starts: BTreeSet<_> = rows.chain(self.records.iter().map(|record| record.function)).collect();
        starts.len().to_u64()
    }
}
