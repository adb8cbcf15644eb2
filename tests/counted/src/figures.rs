//! Reads and compares files of figures. `tests/src/figures.rs` describes their lines.

use std::fmt::Write;

pub const INSTRUCTIONS: &str = "instructions";
pub const MEMORY: &str = "peak memory";
pub const FAULTS: &str = "page faults";

/// A figure may change by this part of its value.
const TOLERANCE: f64 = 0.02;
/// The tolerance for memory and page faults if the file was made on another kernel. Kernels differ in how many pages of
/// a file they map at a page fault.
const TOLERANCE_OTHER_KERNEL: f64 = 0.10;
/// Memory (in kB) and page faults may differ by this much more. Linux counts pages on each processor and adds the
/// counts up now and then: two runs of one small process differed by 600 kB.
const SLACK_MEMORY: f64 = 1024.0;
const SLACK_FAULTS: f64 = 32.0;

/// A figure of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    pub job: String,
    pub name: String,
    pub value: u64,
}

/// All figures, with the circumstances of counting as keys and values.
#[derive(Default)]
pub struct File {
    pub provenance: Vec<(String, String)>,
    pub figures: Vec<Figure>,
}

impl File {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut file = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let fields: Vec<_> = line.split('\t').collect();
            if let Some((key, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(": ")) {
                file.provenance.push((key.into(), value.into()));
            } else if let [job, name, value, ..] = fields[..] {
                let value = value.parse().map_err(|_| format!("line {number}: {value}"))?;
                file.figures.push(Figure { job: job.into(), name: name.into(), value });
            } else {
                return Err(format!("line {number}: no figure: {line}"));
            }
        }
        Ok(file)
    }

    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.provenance {
            let _ = writeln!(text, "# {key}: {value}");
        }
        for Figure { job, name, value } in &self.figures {
            let unit = if name == MEMORY { "kB" } else { name };
            let _ = writeln!(text, "{job}\t{name}\t{value}\t{unit}\t\t");
        }
        text
    }

    pub fn is_same(&self, other: &Self, key: &str) -> bool {
        let of = |file: &Self| file.provenance.iter().find(|one| one.0 == key).map(|one| one.1.clone());
        of(self) == of(other)
    }

    /// Returns the first circumstance that differs and changes counts.
    pub fn incomparable(&self, now: &Self) -> Option<String> {
        let decides = |key: &str| key == "rustc" || key == "host" || key.starts_with("input ");
        let mut keys = self.provenance.iter().filter(|(key, _)| decides(key));
        keys.find(|(key, _)| !self.is_same(now, key)).map(|(key, value)| format!("{key} is not {value}"))
    }

    /// Describes each figure that differs too much.
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let of = |file: &Self, one: &Figure| {
            file.figures.iter().find(|it| it.job == one.job && it.name == one.name).map(|it| it.value)
        };
        let same_kernel = self.is_same(now, "kernel");
        let mut differences: Vec<_> = now
            .figures
            .iter()
            .filter_map(|new| {
                let Some(old) = of(self, new) else {
                    return Some(format!("NEW: {}: {}: {}", new.job, new.name, new.value));
                };
                let verdict = verdict(&new.name, old, new.value, same_kernel)?;
                let percent = 100.0 * (new.value as f64 / old as f64 - 1.0);
                Some(format!(
                    "{verdict}: {}: {}: {old} became {} ({percent:+.1} %)",
                    new.job, new.name, new.value
                ))
            })
            .collect();
        let gone = self.figures.iter().filter(|old| of(now, old).is_none());
        differences.extend(gone.map(|old| format!("GONE: {}: {}", old.job, old.name)));
        differences
    }
}

fn verdict(name: &str, old: u64, new: u64, same_kernel: bool) -> Option<&'static str> {
    let slack = match name {
        MEMORY => SLACK_MEMORY,
        FAULTS => SLACK_FAULTS,
        _ => 0.0,
    };
    let depends_on_kernel = name != INSTRUCTIONS && !same_kernel;
    let tolerance = if depends_on_kernel { TOLERANCE_OTHER_KERNEL } else { TOLERANCE };
    let (old, new) = (old as f64, new as f64);
    let room = old * tolerance + slack;
    if new > old + room {
        return Some("WORSE");
    }
    (new < old - room).then_some("BETTER")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(kernel: &str, figures: &[(&str, u64)]) -> File {
        let figures =
            figures.iter().map(|&(name, value)| Figure { job: "job".into(), name: name.into(), value });
        File { provenance: vec![("kernel".into(), kernel.into())], figures: figures.collect() }
    }

    #[test]
    fn what_is_written_is_read() {
        let old = file("6", &[(INSTRUCTIONS, 7), (MEMORY, 8)]);
        let read = File::parse(&old.to_text()).unwrap();
        assert_eq!((read.figures, read.provenance), (old.figures, old.provenance));
    }

    #[test]
    fn more_than_two_percent_is_named() {
        let old = file("6", &[(INSTRUCTIONS, 1000), (MEMORY, 100_000), (FAULTS, 1000)]);
        let found = |kernel, figures: &[_]| old.differences(&file(kernel, figures)).join("; ");
        assert_eq!(found("6", &[(INSTRUCTIONS, 1020), (MEMORY, 103_024), (FAULTS, 948)]), "");
        let worse = found("6", &[(INSTRUCTIONS, 1021), (MEMORY, 96_975), (FAULTS, 1000)]);
        let expected = "WORSE: job: instructions: 1000 became 1021 (+2.1 %); \
                        BETTER: job: peak memory: 100000 became 96975 (-3.0 %)";
        assert_eq!(worse, expected);
        let other = found("5", &[(INSTRUCTIONS, 1021), (MEMORY, 110_000), (FAULTS, 900)]);
        assert_eq!(other, "WORSE: job: instructions: 1000 became 1021 (+2.1 %)");
        assert_eq!(
            found("6", &[(INSTRUCTIONS, 1000), (MEMORY, 100_000), ("more", 5)]),
            "NEW: job: more: 5; GONE: job: page faults"
        );
    }

    #[test]
    fn another_compiler_or_input_is_not_compared() {
        let of = |rustc: &str, input: &str| File {
            provenance: vec![("rustc".into(), rustc.into()), ("input a".into(), input.into())],
            figures: Vec::new(),
        };
        assert_eq!(of("1", "x").incomparable(&of("1", "x")), None);
        assert_eq!(of("1", "x").incomparable(&of("2", "x")).unwrap(), "rustc is not 1");
        assert_eq!(of("1", "x").incomparable(&of("1", "y")).unwrap(), "input a is not x");
    }
}
