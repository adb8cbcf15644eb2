//! FDEs that start at one address and disagree.
//!
//! Linkers leave FDEs of functions that they discarded where other functions are. Which of them is meant
//! cannot be seen, and a table that is right about one may be wrong about the code.

use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};

use cfipack_format::FunctionOffset;

use super::answer::{Answer, Flags};
use super::evaluate::Evaluator;
use super::functions::{Function, Functions};
use super::unevaluated::Unevaluated;

/// The reason why such a function is not judged.
pub(crate) const DISPUTED: &str = "FDEs that start at one address disagree";

/// The rows of an FDE for a function, as a hash, since no row is stored; and why it ends early, if it does.
#[derive(PartialEq)]
struct Description {
    hash: u64,
    end: Result<(), Unevaluated>,
}

impl Evaluator<'_> {
    /// Returns whether another FDE that starts where a function does describes one of its PCs differently, or
    /// nothing; of all registers.
    pub fn is_disputed(&mut self, functions: &Functions<'_>, function: &Function) -> bool {
        self.is_disputed_by(functions, function, Self::description_of_all)
    }

    /// Looks for disputed rows, but only of the CFA, the return address and the frame pointer; and of whether it is a signal
    /// frame, where `signal` asks for it.
    pub fn has_disputed_rows(
        &mut self,
        functions: &Functions<'_>,
        function: &Function,
        signal: bool,
    ) -> bool {
        self.is_disputed_by(functions, function, |evaluator, function, keys| {
            evaluator.description(function, keys, signal)
        })
    }

    fn is_disputed_by<T: PartialEq>(
        &mut self,
        functions: &Functions<'_>,
        function: &Function,
        mut description: impl FnMut(&mut Self, &Function, &RandomState) -> T,
    ) -> bool {
        let duplicates = functions.duplicates_of(function);
        if duplicates.is_empty() {
            return false;
        }
        let function = &functions.with_tails(function);
        // Keys of this run's own: no file can be made so that different rows have one hash.
        let keys = RandomState::new();
        let by_this = description(self, function, &keys);
        duplicates.iter().any(|other| {
            let end = other.end.min(function.end);
            end != function.end || description(self, &Function { end, ..*other }, &keys) != by_this
        })
    }

    /// Hashes what an FDE describes: the CFA, the return address and the frame pointer.
    fn description(&mut self, function: &Function, keys: &RandomState, signal: bool) -> Description {
        let mut rows = Changes::new(keys);
        let end = self.evaluate(function, |range, answer, flags| {
            let flags = Flags { signal: flags.signal.filter(|_| signal), ..flags };
            rows.add(range.start, (unplaced(answer), flags));
        });
        Description { hash: rows.hasher.finish(), end }
    }

    /// Hashes what an FDE describes, all other registers with it.
    fn description_of_all(&mut self, function: &Function, keys: &RandomState) -> [Description; 2] {
        let mut registers = Changes::new(keys);
        let end =
            self.evaluate_registers(function, |range, _, rules| registers.add(range.start, rules.to_vec()));
        [self.description(function, keys, true), Description { hash: registers.hasher.finish(), end }]
    }
}

/// An answer without the place that its row starts at.
fn unplaced(answer: &Answer) -> Answer {
    let mut answer = *answer;
    if let Answer::Row(row) | Answer::Plt { row, .. } = &mut answer {
        row.start = FunctionOffset(0);
    }
    answer
}

/// The answers for PCs that follow each other, hashed where it changes.
struct Changes<T> {
    hasher: DefaultHasher,
    last: Option<T>,
}

impl<T: Hash + PartialEq> Changes<T> {
    fn new(keys: &RandomState) -> Self {
        Self { hasher: keys.build_hasher(), last: None }
    }

    fn add(&mut self, start: u64, description: T) {
        if self.last.as_ref() != Some(&description) {
            (start, &description).hash(&mut self.hasher);
            self.last = Some(description);
        }
    }
}
