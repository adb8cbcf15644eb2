//! Limits on the functions that a table may omit, and the warnings that are printed without a limit.

use cfipack_lint::coverage::CodeBytes;
use std::fmt;

use crate::report::code;
use crate::report::count::Number;
use crate::report::excluded::Unplaced;
use crate::report::status::{self, Status};

/// A table that covers less than this percentage of the code gets a warning. Most programs lose less than a tenth.
const LITTLE_CODE: f64 = 50.0;

/// The code without CFI that every program runs before and after `main` has fewer bytes than this.
const STARTUP_CODE: u64 = 1024;

/// Limits of what a table omits.
#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Limits {
    /// Exit status 1 if less than PERCENT of the functions is converted
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    min_coverage: Option<f64>,
    /// Exit status 1 if rows cover less than PERCENT of the code, which has functions without CFI too
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    min_code_coverage: Option<f64>,
    /// Exit status 1 for omitted functions, for FDEs of unknown functions, for warnings about files that
    /// stay as they are, and about code without rows
    #[arg(long)]
    strict: bool,
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number".to_string())?;
    (0.0..=100.0).contains(&percent).then_some(percent).ok_or_else(|| "not between 0 and 100".to_string())
}

/// The coverage of a table.
#[derive(Clone, Copy, Debug)]
pub struct Covered<'a> {
    /// Functions of the CFI.
    pub functions: u64,
    /// Functions in the table.
    pub converted: u64,
    /// The code, if it was counted.
    pub code: Option<CodeBytes>,
    /// FDEs of unknown functions.
    pub unplaced: &'a [Unplaced],
}

/// A remark about a table.
#[derive(PartialEq, Eq, Debug)]
pub struct Remark {
    /// A description.
    pub words: String,
    /// True if the exit status is 1.
    pub fails: bool,
}

impl Limits {
    /// Returns whether the exit status depends on how much code is covered.
    pub fn count_code(&self) -> bool {
        self.min_code_coverage.is_some() || self.strict
    }

    /// Returns whether a table may cover so little code that a warning is due.
    ///
    /// `functions` is the size of the table's functions in bytes, and `code` the size of the code with its padding.
    /// Without padding, the covered part of the code is larger.
    pub fn may_be_little(functions: u64, code: u64) -> bool {
        (functions as f64) * 100.0 < LITTLE_CODE * code as f64
    }

    /// Returns remarks about results that are below a limit, or remarkably low.
    pub fn remarks(&self, covered: &Covered<'_>) -> Vec<Remark> {
        let Covered { functions, converted, code, unplaced } = *covered;
        let unplaced =
            unplaced.iter().map(|unplaced| Remark { words: unplaced.to_string(), fails: self.strict });
        let mut remarks: Vec<_> = unplaced.collect();
        if let Some(percent) = self.min_coverage
            && (converted as f64) * 100.0 < percent * functions as f64
        {
            let words = format!("less than {percent} % of the functions are converted");
            remarks.push(Remark { words, fails: true });
        }
        if self.strict && converted != functions {
            let words = format!("{} omitted", Number(functions - converted, "function"));
            remarks.push(Remark { words, fails: true });
        }
        let Some(code) = code else { return remarks };
        if let Some(percent) = self.min_code_coverage.filter(|percent| code.is_below(*percent)) {
            let words = format!("less than {percent} % of the code is covered: {}", code::percent(&code));
            remarks.push(Remark { words, fails: true });
        } else if code.is_below(LITTLE_CODE) && code.gap_bytes > STARTUP_CODE {
            let words = format!(
                "only {} of the code is covered: gaps --cfi lists the functions without call frame information",
                code::percent(&code)
            );
            remarks.push(Remark { words, fails: self.strict });
        }
        remarks
    }

    /// Prints the remarks about the table of a file as warnings.
    pub fn status(&self, name: &dyn fmt::Display, covered: &Covered<'_>) -> Status {
        let remarks = self.remarks(covered);
        for Remark { words, .. } in &remarks {
            status::warn(&format_args!("{name}: {words}"));
        }
        Status::differs_if(remarks.iter().any(|remark| remark.fails))
    }

    /// Returns whether warnings have exit status 1.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Refuses limits. Call it if the verb counts no `.sframe` table.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.min_coverage.is_some() || self.min_code_coverage.is_some() {
            anyhow::bail!("--min-coverage and --min-code-coverage: are for one .sframe table");
        }
        Ok(())
    }
}
