//! Compares the CFI of a whole file with its code.
//!
//! gimli evaluates the CFI (`cfipack-roundtrip`), and `cfipack-code` follows the code.
//!
//! - `function` compares one function.
//! - `records` finds FDEs that contradict each other or describe no code.
//! - `returns` finds calls of functions that never return.
//!
//! [`lint()`] runs them over all functions of a file, on several threads and in several rounds.

mod function;
mod records;
mod returns;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use cfipack_code::Finding;
use cfipack_container::{CallFrameSection, File};
use cfipack_format::Address;
use cfipack_roundtrip::cfi::{Functions, Unreadable};

use self::function::{Leaving, Linter, Outcome, Way};
use self::returns::Imports;
use crate::FileMemory;

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
}

/// A function with a disagreement.
#[derive(Debug)]
pub struct WrongFunction {
    /// The start.
    pub start: Address,
    /// The disagreements, by instruction.
    pub findings: Vec<Found>,
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
    let starts = file.symbols()?;
    let is_function = |start: Address| {
        let symbol = starts.lookup(start);
        symbol.is_some_and(|symbol| symbol.offset == 0 && !symbol.name.contains(".cold"))
    };
    let imports = Imports::find(file, &starts);
    let work = Work {
        memory: &memory,
        functions: &functions,
        arch: file.arch(),
        imports: &imports,
        is_function: &is_function,
    };
    let all: Vec<usize> = (0..functions.as_slice().len()).collect();
    let mut outcomes: Vec<Option<Outcome>> = Vec::new();
    outcomes.resize_with(all.len(), || None);
    let mut entries = HashMap::<usize, Vec<Way>>::new();
    // The first round follows all functions. Later rounds follow fragments and functions that are jumped into.
    let mut round = all.clone();
    for number in 0..ROUNDS {
        let done = work.run(&round, &entries, threads, if number == 0 { progress } else { &|_, _| {} });
        let mut again = Vec::new();
        for (index, mut outcome) in round.drain(..).zip(done) {
            for Leaving { target, state, is_from_table } in std::mem::take(&mut outcome.exits) {
                let Some(other) = around(&functions, target) else { continue };
                let offset = (target.0 - functions.as_slice()[other].start.0) as u32;
                if other != index && outcomes_wait(&outcomes, other, index) {
                    let list = entries.entry(other).or_default();
                    if list.len() < MAX_ENTRIES {
                        list.push(Way { offset, state, is_from_table });
                        again.push(other);
                    }
                }
            }
            outcomes[index] = Some(outcome);
        }
        again.sort_unstable();
        again.dedup();
        again.retain(|index| outcomes[*index].as_ref().is_none_or(|outcome| outcome.waits));
        if again.is_empty() {
            break;
        }
        round = again;
    }
    let mut lint = Lint::default();
    let mut disputed = records::disputed(sections);
    for (function, outcome) in functions.as_slice().iter().zip(outcomes) {
        let Some(mut outcome) = outcome.filter(|_| wanted(function.start)) else { continue };
        outcome.findings.extend(disputed.remove(&function.start));
        if outcome.doubt == Some(function::NO_CODE) && memory.is_nowhere(function.start) {
            outcome.findings.push(records::no_code(sections, function));
        }
        lint.add(function.start, outcome);
    }
    for Unreadable { .. } in functions.unreadable() {
        *lint.undecided.entry("cfi").or_default() += 1;
    }
    Ok(lint)
}

/// The number of rounds over a file. The first round compares all functions, the second the fragments that functions
/// jump into, and the third the functions that fragments jump back into.
const ROUNDS: usize = 3;

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
    is_function: &'w (dyn Fn(Address) -> bool + Sync),
}

impl Work<'_, '_> {
    /// Compares functions, and returns their outcomes in the order of `indexes`.
    fn run(
        &self,
        indexes: &[usize],
        entries: &HashMap<usize, Vec<Way>>,
        threads: usize,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Vec<Outcome> {
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
                    let outcome = linter.compare(function, own, self.is_function);
                    done.push((chunk * CHUNK + number, outcome));
                }
                progress((chunk * CHUNK) as u64, indexes.len() as u64);
            }
            done
        };
        let mut done = match threads {
            0 | 1 => worker(),
            _ => std::thread::scope(|scope| {
                let all: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
                let joined = all.into_iter().map(|thread| match thread.join() {
                    Ok(done) => done,
                    Err(panic) => std::panic::resume_unwind(panic),
                });
                joined.flatten().collect()
            }),
        };
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, outcome)| outcome).collect()
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
        if !outcome.findings.is_empty() {
            self.functions.push(WrongFunction { start, findings: outcome.findings });
        }
    }
}
