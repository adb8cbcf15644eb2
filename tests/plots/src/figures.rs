//! Figures that were measured, as `tests/plots/figures/` has them: a file for each bench.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The yardstick of tables: all that they replace for a profiler.
pub const CFI: &str = ".eh_frame and .eh_frame_hdr";

/// A line of `tests/src/figures.rs`.
#[derive(Clone, Debug)]
pub struct Figure {
    pub subject: String,
    pub name: String,
    pub value: f64,
    pub unit: String,
    pub yardstick: Option<Yardstick>,
}

/// What was measured by turns with it.
#[derive(Clone, Debug)]
pub struct Yardstick {
    pub name: String,
    pub value: f64,
}

/// The figures of a bench, and how they were measured: keys and values.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    pub provenance: Vec<(String, String)>,
    pub figures: Vec<Figure>,
}

/// All of them, by bench.
pub type All = BTreeMap<String, Measured>;

impl Figure {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.split('\t').collect();
        let [subject, name, value, unit, yardstick, its_value] = fields[..] else { return None };
        let yardstick = match yardstick {
            "" => None,
            name => Some(Yardstick { name: name.into(), value: its_value.parse().ok()? }),
        };
        let value = value.parse().ok()?;
        Some(Self { subject: subject.into(), name: name.into(), value, unit: unit.into(), yardstick })
    }

    /// How many times the yardstick's value is this one.
    pub fn times_less(&self) -> f64 {
        self.yardstick.as_ref().map_or(f64::NAN, |yardstick| yardstick.value / self.value)
    }
}

impl Measured {
    /// Reads a file of figures.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut measured = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(comment) = line.strip_prefix("# ") {
                let (key, value) =
                    comment.split_once(": ").ok_or(format!("line {number}: no provenance: {line}"))?;
                measured.provenance.push((key.into(), value.into()));
            } else {
                let figure = Figure::parse(line).ok_or(format!("line {number}: no figure: {line}"))?;
                measured.figures.push(figure);
            }
        }
        Ok(measured)
    }

    /// Whether twice as many processes as the processor has threads were waiting for it when it was measured.
    pub fn is_disturbed(&self) -> bool {
        let of =
            |key: &str| self.provenance.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        let load: Option<f64> = of("load at the start").and_then(|load| load.parse().ok());
        let threads =
            of("processor").and_then(|name| name.strip_suffix(" threads")?.rsplit_once(' ')?.1.parse().ok());
        load.zip(threads).is_some_and(|(load, threads): (f64, f64)| load > 2.0 * threads)
    }

    /// The only figure of a name, of a subject and beside a yardstick that start so.
    pub fn find(&self, subject: &str, name: &str, yardstick: &str) -> Result<&Figure, String> {
        let is_it = |figure: &&Figure| {
            let its = figure.yardstick.as_ref().map_or("", |yardstick| &yardstick.name);
            figure.subject == subject && figure.name == name && its.starts_with(yardstick)
        };
        let missing = || format!("no figure of {subject}: {name}, beside \"{yardstick}\"");
        self.figures.iter().find(is_it).ok_or_else(missing)
    }

    /// A figure of all subjects that have it: the one with the median ratio, the lower of two.
    pub fn median(&self, name: &str, yardstick: &str) -> Result<&Figure, String> {
        let found =
            self.subjects().into_iter().filter_map(|subject| self.find(subject, name, yardstick).ok());
        let mut found: Vec<_> = found.collect();
        found.sort_by(|a, b| a.times_less().total_cmp(&b.times_less()));
        let middle = found.len().saturating_sub(1) / 2;
        found.get(middle).copied().ok_or_else(|| format!("no figure {name}, beside \"{yardstick}\""))
    }

    /// Subjects in the order in which they were measured.
    pub fn subjects(&self) -> Vec<&str> {
        let mut subjects: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !subjects.contains(&&*figure.subject) {
                subjects.push(&figure.subject);
            }
        }
        subjects
    }

    /// Whether a subject has a figure of this name, and its value.
    pub fn value(&self, subject: &str, name: &str) -> Option<f64> {
        let is_it = |figure: &&Figure| figure.subject == subject && figure.name == name;
        self.figures.iter().find(is_it).map(|figure| figure.value)
    }
}

/// Reads all files of a directory.
pub fn read(directory: &Path) -> Result<All, String> {
    let mut all = All::new();
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.extension().is_none_or(|extension| extension != "tsv") {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let measured = Measured::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        all.insert(name, measured);
    }
    Ok(all)
}

/// Those of the benches that have not been measured.
pub fn missing<'a>(all: &All, benches: &[&'a str]) -> Vec<&'a str> {
    benches.iter().copied().filter(|bench| !all.contains_key(*bench)).collect()
}

/// The figures of a bench.
pub fn figures_of<'a>(all: &'a All, bench: &str) -> Result<&'a Measured, String> {
    all.get(bench).ok_or_else(|| format!("{bench} has not been measured"))
}
