//! What the check prints at its end.

use std::fmt;

use crate::check::Verdict;

/// Counts blocks that passed, and lists all other blocks with place and reason.
#[derive(Default)]
pub struct Summary {
    passed: usize,
    used: usize,
    elsewhere: Vec<(String, String)>,
    not_run: Vec<(String, String)>,
    pub not_tested: Vec<(String, String)>,
    pub failed: Vec<String>,
    /// How many numbers the pictures have.
    pub pictures: usize,
}

impl Summary {
    pub fn add(&mut self, place: String, verdict: Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Used => self.used += 1,
            Verdict::Elsewhere(by) => self.elsewhere.push((place, by)),
            Verdict::NotRun(reason) => self.not_run.push((place, reason)),
            Verdict::NotTested(what) => self.not_tested.push((place, what)),
            Verdict::Failed(_) => self.failed.push(place),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists =
            [("run by", &self.elsewhere), ("NOT TESTED:", &self.not_tested), ("not run:", &self.not_run)];
        for (what, list) in lists {
            for (place, reason) in list {
                writeln!(out, "    {place}: {what} {reason}")?;
            }
        }
        for place in &self.failed {
            writeln!(out, "    {place}: FAILED")?;
        }
        writeln!(
            out,
            "    {} blocks run, {} run by other checks, {} texts and files, {} not tested here, {} not run, {} failed; \
             {} numbers in pictures",
            self.passed,
            self.elsewhere.len(),
            self.used,
            self.not_tested.len(),
            self.not_run.len(),
            self.failed.len(),
            self.pictures
        )
    }
}
