//! Compares a table's rows with the rows that a tool prints.

use std::collections::BTreeSet;

use cfipack_cfi as cfi;
use cfipack_decoder::sframe::Section;
use cfipack_format::{Address, Arch, Cfa, Register, Row, Rule};

use super::expression::{Value, evaluate};
use super::{Column, Fdes, Printed};
use crate::convert::Converted;

/// Counts of what was compared.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Functions with compared rows.
    pub functions: u64,
    /// Functions that the table omits.
    pub omitted: u64,
    /// Functions without rows in the tool's output.
    pub without_rows: u64,
    /// Equal rows. They are counted at places where a row of either side changes.
    pub rows: u64,
    /// Equal rows of which the tool prints only a part.
    pub partly: u64,
    /// Descriptions of rows that differ.
    pub differences: Vec<String>,
}

impl Compared {
    /// Adds the counts of another comparison.
    pub fn add(&mut self, other: Self) {
        self.functions += other.functions;
        self.omitted += other.omitted;
        self.without_rows += other.without_rows;
        self.rows += other.rows;
        self.partly += other.partly;
        self.differences.extend(other.differences);
    }
}

/// The result of comparing a printed row with a table's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Alike,
    /// Equal as far as the tool prints the row.
    AlikeInPart,
    Different,
}

/// Compares a table with what a tool prints for the section of CFI that the table was made of.
pub fn compare(section: &cfi::Section<'_>, converted: &Converted, fdes: &Fdes) -> Compared {
    let table = converted.table();
    let omitted: BTreeSet<_> = converted.omitted.iter().map(|unsupported| unsupported.function).collect();
    let mut compared = Compared::default();
    for function in
        cfipack_cfi::Functions::new(section).filter_map(Result::ok).filter(|function| function.size != 0)
    {
        if omitted.contains(&function.key) {
            compared.omitted += 1;
            continue;
        }
        let Some(fde) = fdes.get(&(function.fde.0 as u64)) else {
            compared.without_rows += 1;
            continue;
        };
        compared.functions += 1;
        for at in places(&table, function.key.address(), function.size, fde.rows.iter().map(|row| row.at)) {
            let pc = Address(function.key.0.wrapping_add(at));
            let ours = table.lookup(pc).expect("a table that was just written");
            let theirs = fde.row(at);
            let outcome = match (&ours, theirs) {
                (Some(ours), Some(theirs)) => alike(ours, theirs, section.arch, pc.0),
                (None, None) => Outcome::Alike,
                // Without a CFA, the tool's row says nothing.
                (None, Some(theirs)) if theirs.cfa == Column::Unset => Outcome::Alike,
                _ => Outcome::Different,
            };
            match outcome {
                Outcome::Different => {
                    let place = format!("FDE {:#x}, {} +{at:#x}", function.fde.0, function.key.address());
                    compared.differences.push(format!("{place}: table {ours:?}; printed {theirs:?}"));
                }
                Outcome::Alike => compared.rows += 1,
                Outcome::AlikeInPart => {
                    compared.rows += 1;
                    compared.partly += 1;
                }
            }
        }
    }
    compared
}

/// Returns the places to compare: starts and ends of rows of either side, from the function's start. For a PLT, every
/// PC of three stubs.
fn places(
    table: &Section<'_>,
    start: Address,
    size: u64,
    printed: impl Iterator<Item = u64>,
) -> impl Iterator<Item = u64> {
    let mut places: BTreeSet<u64> = printed.flat_map(|at| [at.saturating_sub(1), at]).collect();
    places.extend([0, size - 1]);
    if let Some(function) = table.find(start).expect("a table that was just written") {
        let base = start.0 - function.start().0;
        let rows = function.rows().filter_map(Result::ok).map(|row| u64::from(row.start.0));
        places
            .extend(rows.filter(|&at| at >= base).flat_map(|at| [(at - base).saturating_sub(1), at - base]));
        places.extend(0..if function.is_pc_mask() { 48 } else { 0 });
    }
    places.into_iter().take_while(move |&at| at < size)
}

fn alike(ours: &Row, theirs: &Printed, arch: Arch, pc: u64) -> Outcome {
    let outermost = Column::Is(Rule::Undefined);
    if ours.return_address == Rule::Undefined || theirs.return_address == outermost {
        // In an outermost frame only the return address matters.
        return match &theirs.return_address {
            Column::Is(Rule::Undefined) if ours.return_address == Rule::Undefined => Outcome::Alike,
            Column::Unset if ours.return_address == Rule::Undefined => Outcome::AlikeInPart,
            _ => Outcome::Different,
        };
    }
    let cfa = match &theirs.cfa {
        Column::Is(cfa) => Some(*cfa),
        Column::Expression(text) => match evaluate(text, arch, pc) {
            Some(Value::Register(register, offset)) => Some(Cfa::Register { register, offset }),
            Some(Value::Memory(register, offset)) => Some(Cfa::Memory { register, offset }),
            _ => return Outcome::Different,
        },
        Column::Hidden | Column::Value(_) | Column::Unset => None,
    };
    // The tool's `register 0 + 0` may be a real CFA.
    let cfa = cfa.or_else(|| {
        let zero = Cfa::Register { register: Register(0), offset: 0 };
        (theirs.cfa == Column::Unset).then_some(zero)
    });
    let own = if theirs.narrow { narrowed(ours.cfa) } else { ours.cfa };
    if cfa.is_some_and(|cfa| cfa != own) || theirs.signed.is_some_and(|signed| signed != ours.signed) {
        return Outcome::Different;
    }
    let pushed = if arch == Arch::Amd64 { Rule::Cfa(-8) } else { Rule::SameValue };
    let return_address = rule(&theirs.return_address, ours.return_address, pushed, ours.cfa, arch, pc);
    let frame_pointer = rule(&theirs.frame_pointer, ours.frame_pointer, Rule::SameValue, ours.cfa, arch, pc);
    match (return_address, frame_pointer) {
        (Outcome::Different, _) | (_, Outcome::Different) => Outcome::Different,
        (Outcome::Alike, Outcome::Alike) if cfa.is_some() => Outcome::Alike,
        _ => Outcome::AlikeInPart,
    }
}

fn narrowed(cfa: Cfa) -> Cfa {
    match cfa {
        Cfa::Register { register, offset } => Cfa::Register { register, offset: i64::from(offset as i32) },
        cfa => cfa,
    }
}

/// `unset` is the rule of a register that the CFI does not mention.
fn rule(theirs: &Column<Rule>, ours: Rule, unset: Rule, cfa: Cfa, arch: Arch, pc: u64) -> Outcome {
    let theirs = match theirs {
        Column::Is(rule) => *rule,
        Column::Expression(text) => match evaluate(text, arch, pc) {
            Some(Value::Register(register, offset)) => Rule::Memory { register, offset },
            _ => return Outcome::Different,
        },
        Column::Value(text) => match evaluate(text, arch, pc) {
            Some(Value::Register(register, offset)) => Rule::Register { register, offset },
            Some(Value::Memory(register, offset)) => Rule::Memory { register, offset },
            _ => return Outcome::Different,
        },
        Column::Hidden => return Outcome::AlikeInPart,
        Column::Unset if ours == unset || ours == Rule::Undefined => return Outcome::AlikeInPart,
        Column::Unset => return Outcome::Different,
    };
    if from_cfa(theirs, cfa) == from_cfa(ours, cfa) { Outcome::Alike } else { Outcome::Different }
}

/// Rewrites places and values that count from the CFA's register, so that they count from the CFA.
fn from_cfa(rule: Rule, cfa: Cfa) -> Rule {
    match (rule, cfa) {
        (Rule::Memory { register, offset }, Cfa::Register { register: base, offset: of_cfa })
            if register == base =>
        {
            Rule::Cfa(offset.wrapping_sub(of_cfa))
        }
        (Rule::ValCfa(offset), Cfa::Register { register, offset: of_cfa }) => {
            Rule::Register { register, offset: of_cfa.wrapping_add(offset) }
        }
        (rule, _) => rule,
    }
}
