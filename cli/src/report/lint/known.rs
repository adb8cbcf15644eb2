//! Findings that are not reported: the findings of a baseline, and findings that a file of `--ignore` names.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{LintFinding, kinds};

/// Known findings: the number of findings with each fingerprint.
#[derive(Debug, Default)]
pub struct Baseline(HashMap<String, u64>);

impl Baseline {
    /// Reads reports of `lint --json`, one on each line.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut known = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let report: Value = serde_json::from_str(line).with_context(|| format!("line {}", number + 1))?;
            let findings = report["findings"].as_array();
            let findings =
                findings.with_context(|| format!("line {}: no report of lint --json", number + 1))?;
            for finding in findings {
                let fingerprint = finding["fingerprint"].as_str().unwrap_or_default();
                *known.entry(fingerprint.to_owned()).or_default() += 1;
            }
        }
        Ok(Self(known))
    }

    /// Returns whether a finding is known, and removes it once from the baseline.
    pub fn takes(&mut self, finding: &LintFinding) -> bool {
        match self.0.get_mut(&finding.fingerprint) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

/// A file of findings to ignore. Each line is `KIND SYMBOL`. `*` stands for any text in both, and a line with `#` at its
/// start is a comment.
#[derive(Debug, Default)]
pub struct Ignored(Vec<Line>);

#[derive(Debug)]
struct Line {
    /// The number of the line, from 1.
    number: usize,
    kind: String,
    symbol: String,
    is_used: bool,
}

impl Ignored {
    /// Reads the lines of a file.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((kind, symbol)) = line.split_once(char::is_whitespace) else {
                bail!("line {number}: {line}: a line is KIND SYMBOL");
            };
            if !kinds().any(|(name, _)| matches(kind, name)) {
                bail!("line {number}: {kind}: no kind of finding has this name");
            }
            let (kind, symbol) = (kind.to_owned(), symbol.trim_start().to_owned());
            all.push(Line { number, kind, symbol, is_used: false });
        }
        Ok(Self(all))
    }

    /// Returns whether a line matches the finding's kind, and the symbol of its function as the file or the source has
    /// it. Notes all lines that do.
    pub fn takes(&mut self, finding: &LintFinding) -> bool {
        let names = [finding.name.linkage(), finding.name.text()];
        let mut is_taken = false;
        for line in &mut self.0 {
            let is_match = matches(&line.kind, finding.kind)
                && names.iter().flatten().any(|name| matches(&line.symbol, name));
            line.is_used |= is_match;
            is_taken |= is_match;
        }
        is_taken
    }

    /// Returns the number and the text of each line that matched no finding.
    pub fn unused(&self) -> impl Iterator<Item = (usize, String)> {
        let unused = self.0.iter().filter(|line| !line.is_used);
        unused.map(|line| (line.number, format!("{} {}", line.kind, line.symbol)))
    }
}

/// Returns whether a text matches a pattern, in which `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::{Ignored, matches};

    #[test]
    fn a_star_stands_for_any_text() {
        let right =
            [("f", "f"), ("*", "f"), ("f*", "f"), ("*f*", "of it"), ("a*b*c", "a b b c"), ("a*a", "aa")];
        assert!(right.iter().all(|(pattern, text)| matches(pattern, text)));
        let wrong = [("f", "fg"), ("f", "gf"), ("a*a", "a"), ("a*b*c", "a c b"), ("*g", "gf")];
        assert!(!wrong.iter().any(|(pattern, text)| matches(pattern, text)));
    }

    #[test]
    fn lines_have_a_kind_and_a_symbol() {
        assert_eq!(Ignored::parse("# none\n\nno-row  f\n* g(int, char)\n").unwrap().0.len(), 2);
        assert!(Ignored::parse("no-row").is_err() && Ignored::parse("wrong f").is_err());
    }
}
