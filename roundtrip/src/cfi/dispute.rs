//! FDEs that start at the same address and disagree.
//!
//! A linker that discards functions can leave FDEs at the addresses of other functions. It is impossible to see which
//! FDE is meant. A table that agrees with the first FDE may be wrong about the code.

use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};

use cfipack_format::FunctionOffset;

use super::answer::{Answer, Flags};
use super::evaluate::Evaluator;
use super::functions::{Function, Functions};
use super::unevaluated::Unevaluated;

/// The rows of an FDE for a function. They are kept as a hash, because rows are not stored.
#[derive(PartialEq)]
struct Description {
    hash: u64,
    /// The reason why the rows end early, if they do.
    end: Result<(), Unevaluated>,
}

impl Evaluator<'_> {
    /// Returns whether another FDE with the same start disagrees about a PC of the function, or does not describe the
    /// PC. All registers count.
    pub fn is_disputed(&mut self, functions: &Functions<'_>, function: &Function) -> bool {
        self.is_disputed_by(functions, function, Self::description_of_all)
    }

    /// Returns whether FDEs disagree about the CFA, the return address or the frame pointer. If `signal` is true, they
    /// must also agree whether the function is a signal frame.
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
        // The keys are random for each run, so no file can be made with different rows of the same hash.
        let keys = RandomState::new();
        let by_this = description(self, function, &keys);
        duplicates.iter().any(|other| {
            let end = other.end.min(function.end);
            end != function.end || description(self, &Function { end, ..*other }, &keys) != by_this
        })
    }

    /// Hashes the rows of an FDE: the CFA, the return address and the frame pointer.
    fn description(&mut self, function: &Function, keys: &RandomState, signal: bool) -> Description {
        let mut rows = Changes::new(keys);
        let end = self.evaluate(function, |range, answer, flags| {
            let flags = Flags { signal: flags.signal.filter(|_| signal), ..flags };
            rows.add(range.start, (unplaced(answer), flags));
        });
        Description { hash: rows.hasher.finish(), end }
    }

    /// Hashes the rows of an FDE, with all other registers.
    fn description_of_all(&mut self, function: &Function, keys: &RandomState) -> [Description; 2] {
        let mut registers = Changes::new(keys);
        let end = self
            .evaluate_registers(function, |range, _, rules, _| registers.add(range.start, rules.to_vec()));
        [self.description(function, keys, true), Description { hash: registers.hasher.finish(), end }]
    }
}

/// Returns the answer with the start of its row set to 0.
fn unplaced(answer: &Answer) -> Answer {
    let mut answer = *answer;
    if let Answer::Row(row)
    | Answer::Plt { row, .. }
    | Answer::StackPointer { row, .. }
    | Answer::SignedWithPc { row, .. } = &mut answer
    {
        row.start = FunctionOffset(0);
    }
    answer
}

/// Hashes the answers for consecutive PCs. An answer that equals the answer before it is not hashed again.
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
