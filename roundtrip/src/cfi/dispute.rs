//! FDEs that start at one address and do not say the same.
//!
//! Linkers leave FDEs of functions that they discarded where other functions are. Which of them is meant
//! cannot be seen, and a table that is right about one may be wrong about the code.

use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};

use cfipack_format::FunctionOffset;

use super::answer::Answer;
use super::evaluate::Evaluator;
use super::functions::{Function, Functions};
use super::unevaluated::Unevaluated;

/// Why such a function is not judged.
pub(crate) const DISPUTED: &str = "FDEs that start at one address say different things";

/// All that an FDE says of a function's PCs, as hashes, for no row is kept; and why it ends early, if it
/// does.
#[derive(PartialEq)]
struct Said {
    rows: u64,
    registers: u64,
    ends: [Result<(), Unevaluated>; 2],
}

impl Evaluator<'_> {
    /// Whether another FDE that starts where a function does says something else of one of its PCs, or
    /// nothing.
    pub fn is_disputed(&mut self, functions: &Functions<'_>, function: &Function) -> bool {
        let duplicates = functions.duplicates_of(function);
        if duplicates.is_empty() {
            return false;
        }
        // Keys of this run's own: no file can be made so that different rows have one hash.
        let keys = RandomState::new();
        let said = self.said(function, &keys);
        duplicates.iter().any(|other| {
            let end = other.end.min(function.end);
            end != function.end || self.said(&Function { end, ..*other }, &keys) != said
        })
    }

    fn said(&mut self, function: &Function, keys: &RandomState) -> Said {
        let (mut rows, mut registers) = (Changes::new(keys), Changes::new(keys));
        let of_rows =
            self.evaluate(function, |range, answer, flags| rows.add(range.start, (unplaced(answer), flags)));
        let of_registers =
            self.evaluate_registers(function, |range, _, rules| registers.add(range.start, rules.to_vec()));
        let [rows, registers] = [rows.hasher, registers.hasher].map(|hasher| hasher.finish());
        Said { rows, registers, ends: [of_rows, of_registers] }
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

/// What is said of PCs that follow each other, hashed where it changes.
struct Changes<T> {
    hasher: DefaultHasher,
    last: Option<T>,
}

impl<T: Hash + PartialEq> Changes<T> {
    fn new(keys: &RandomState) -> Self {
        Self { hasher: keys.build_hasher(), last: None }
    }

    fn add(&mut self, start: u64, said: T) {
        if self.last.as_ref() != Some(&said) {
            (start, &said).hash(&mut self.hasher);
            self.last = Some(said);
        }
    }
}
