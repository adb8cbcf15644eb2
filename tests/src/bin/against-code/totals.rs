//! Counts what was compared, for a file or for all files.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use cfipack_format::Address;
use cfipack_tests::figures;

/// Counts of what was compared.
#[derive(Default)]
pub struct Totals {
    pub files: u64,
    /// Functions with CFI.
    pub functions: u64,
    /// Functions in which every instruction was compared.
    pub decided: u64,
    pub instructions: u64,
    /// Functions that were not fully compared, by reason.
    pub undecided: BTreeMap<&'static str, u64>,
    /// The first functions of each reason.
    pub examples: Vec<(&'static str, Address)>,
    /// Descriptions of functions that differ or are accused.
    pub named: Vec<String>,
    pub number_named: u64,
}

impl Totals {
    /// Adds the counts of a file, without its descriptions.
    pub fn add(&mut self, other: &Self) {
        self.files += other.files;
        self.functions += other.functions;
        self.decided += other.decided;
        self.instructions += other.instructions;
        self.number_named += other.number_named;
        for (reason, count) in &other.undecided {
            *self.undecided.entry(reason).or_default() += count;
        }
    }

    /// Returns the lines to print for a file.
    pub fn text(&self, path: &str) -> String {
        let mut text = String::new();
        if self.functions != 0 {
            let Self { decided, functions, undecided, .. } = self;
            let _ = writeln!(text, "{path}: {decided} of {functions} functions");
            for (reason, count) in undecided {
                let examples = self.examples.iter().filter(|example| example.0 == *reason);
                let examples: String = examples.map(|(_, start)| format!(" {start}")).collect();
                let _ = writeln!(text, "  {count} {reason}:{examples}");
            }
        }
        for named in &self.named {
            let _ = writeln!(text, "  {named}");
        }
        text
    }

    /// Records the totals for programs.
    pub fn figures(&self, arch: &str) {
        let number = |name: &str, value, unit| figures::number(arch, name, value, unit);
        number("files", self.files, "files");
        number("functions", self.functions, "functions");
        number("functions decided", self.decided, "functions");
        number("instructions compared", self.instructions, "instructions");
        number("functions named", self.number_named, "functions");
        for (reason, &count) in &self.undecided {
            number(&format!("undecided: {reason}"), count, "functions");
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, count: u64, note: &str| writeln!(f, "{name:<26}{count:>12}  {note}");
        line("  files", self.files, "")?;
        line("  functions", self.functions, "")?;
        let share = self.decided as f64 * 100.0 / self.functions.max(1) as f64;
        line("  decided", self.decided, &format!("{share:.2} %"))?;
        line("  instructions", self.instructions, "compared")?;
        line("  named", self.number_named, "functions")?;
        let mut reasons: Vec<_> = self.undecided.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            line("", *count, reason)?;
        }
        Ok(())
    }
}
