//! The mutated copy of the tree, and its build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mutate::{Mutant, mutate};
use crate::suites::Suite;
use crate::{Result, source_of};

/// A mutant and its file.
pub struct Placed {
    /// Relative to the root.
    pub file: PathBuf,
    pub mutant: Mutant,
}

/// A test program of the mutated tree.
#[derive(Clone, Debug)]
pub struct Program {
    /// The directory of its package, in which cargo runs it.
    pub directory: PathBuf,
    pub name: String,
    /// Whether it has the unit tests of a library.
    pub is_unit: bool,
    pub path: PathBuf,
}

/// The lines that give a crate its switch.
const SWITCH: &str = "\n#[allow(warnings)]\nmod mutant_switch;\n";

/// A source file of the crates that get mutants.
struct Source {
    text: String,
    /// `false` for the root of a crate of which other files were named: it only gets the switch.
    has_mutants: bool,
}

/// A copy of the tree in which some files have mutants.
pub struct Tree {
    pub directory: PathBuf,
    sources: BTreeMap<PathBuf, Source>,
    placed: Vec<Placed>,
    /// Numbers of mutants that do not compile.
    dropped: BTreeSet<u32>,
}

impl Tree {
    /// Copies what git knows of the tree, and puts mutants into the named crates or files.
    pub fn make(root: &Path, paths: &[String]) -> Result<Self> {
        let directory = root.join("target/mutants/tree");
        let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output()?.stdout;
        let mut tree =
            Self { directory, sources: BTreeMap::new(), placed: Vec::new(), dropped: BTreeSet::new() };
        let wanted: Vec<_> = paths.iter().map(|path| source_of(path)).collect();
        let roots: BTreeSet<_> = wanted.iter().map(|path| root_of(path)).collect();
        let listed = String::from_utf8(listed)?;
        let names: BTreeSet<_> = listed.split('\0').filter(|name| !name.is_empty()).map(Path::new).collect();
        remove_others(&tree.directory, &tree.directory, &names)?;
        for name in names {
            let from = root.join(name);
            // What is a link belongs to the tests, which share it.
            let is_wanted = wanted.iter().any(|path| name.starts_with(path));
            let has_mutants = is_wanted && is_source(name) && !from.is_symlink();
            if has_mutants || roots.contains(name) {
                let text = fs::read_to_string(from)?;
                tree.sources.insert(name.to_owned(), Source { text, has_mutants });
            } else if from.is_file() {
                copy(&from, &tree.directory.join(name))?;
            }
        }
        if !tree.sources.values().any(|source| source.has_mutants) {
            return Err(format!("no source files in {}", paths.join(", ")).into());
        }
        tree.write()?;
        Ok(tree)
    }

    /// Writes the files with mutants, all but those that are dropped.
    fn write(&mut self) -> Result<()> {
        let mut next = 1;
        let mut roots = Vec::new();
        self.placed.clear();
        for (file, source) in &self.sources {
            let mut text = source.text.clone();
            if source.has_mutants {
                let dropped = |number: u32| self.dropped.contains(&number);
                let (mutated, after) =
                    mutate(&text, next, &dropped).map_err(|error| format!("{}: {error}", file.display()))?;
                let placed = |mutant| Placed { file: file.clone(), mutant };
                self.placed.extend(mutated.mutants.into_iter().map(placed));
                (text, next) = (mutated.text, after);
            }
            if *file == root_of(file) {
                text += SWITCH;
                roots.push(self.directory.join(file));
            }
            write_if_other(&self.directory.join(file), &text)?;
        }
        let switch = include_str!("switch.rs").replace("COUNT", &next.to_string());
        roots.iter().try_for_each(|root| write_if_other(&root.with_file_name("mutant_switch.rs"), &switch))
    }

    /// Builds all test programs, and drops mutants that do not compile.
    pub fn build(&mut self, suites: &BTreeMap<String, Vec<Suite>>) -> Result<Vec<Program>> {
        let targets = self.targets(suites)?;
        loop {
            let output = Command::new("cargo")
                .args(["test", "--no-run", "--locked", "--message-format", "json"])
                .args(&targets)
                .current_dir(&self.directory)
                .env("CARGO_TARGET_DIR", self.directory.join("../build"))
                .env("RUSTFLAGS", "-Awarnings")
                .output()?;
            let text = String::from_utf8(output.stdout)?;
            let messages: Vec<_> =
                text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).collect();
            if output.status.success() {
                return Ok(messages.iter().filter_map(|message| self.program(message)).collect());
            }
            let before = self.dropped.len();
            for message in &messages {
                self.drop_named(message)?;
            }
            if self.dropped.len() == before {
                let rendered =
                    messages.iter().filter_map(|message| message.get("message")?.get("rendered")?.as_str());
                let rendered = rendered.collect::<String>();
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("the mutated tree does not compile:\n{rendered}{said}").into());
            }
            self.write()?;
        }
    }

    /// The arguments by which cargo builds the suites of the crates with mutants, and nothing else.
    fn targets(&self, suites: &BTreeMap<String, Vec<Suite>>) -> Result<Vec<String>> {
        let mut targets = vec!["--lib".to_owned()];
        for name in self.crates().keys() {
            targets.extend(["-p".to_owned(), format!("cfipack-{name}")]);
            for suite in
                suites.get(name).ok_or_else(|| format!("no suite of {name} in tests/mutants/suites"))?
            {
                if suite.program != "own" {
                    targets.extend(["-p", "cfipack-tests", "--test", &suite.program].map(str::to_owned));
                    continue;
                }
                for own in fs::read_dir(self.directory.join(name).join("tests")).into_iter().flatten() {
                    let own = own?.path();
                    if own.join("main.rs").exists()
                        || own.extension().is_some_and(|extension| extension == "rs")
                    {
                        let test = own.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                        targets.extend(["--test".to_owned(), test]);
                    }
                }
            }
        }
        Ok(targets)
    }

    /// Drops the mutants on the lines that an error names; those between the lines if there are none on them: a statement
    /// that may be left out may have ended a borrow.
    fn drop_named(&mut self, message: &Value) -> Result<()> {
        let Some(message) = message.get("message").filter(|message| message["level"] == "error") else {
            return Ok(());
        };
        let mut between: BTreeMap<PathBuf, Range<usize>> = BTreeMap::new();
        let before = self.dropped.len();
        for span in message["spans"].as_array().into_iter().flatten() {
            let file = Path::new(span["file_name"].as_str().unwrap_or_default());
            let file = file.strip_prefix(&self.directory).unwrap_or(file);
            if !self.sources.contains_key(file) {
                continue;
            }
            let line =
                |name: &str| span[name].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(1);
            let lines = line("line_start")..line("line_end") + 1;
            self.drop_lines(file, lines.clone())?;
            let all = between.entry(file.to_owned()).or_insert(lines.clone());
            *all = all.start.min(lines.start)..all.end.max(lines.end);
        }
        if self.dropped.len() == before {
            between.into_iter().try_for_each(|(file, lines)| self.drop_lines(&file, lines))?;
        }
        Ok(())
    }

    fn drop_lines(&mut self, file: &Path, lines: Range<usize>) -> Result<()> {
        let text = fs::read_to_string(self.directory.join(file))?;
        for line in text.lines().skip(lines.start - 1).take(lines.len()) {
            self.dropped.extend(switches(line));
        }
        Ok(())
    }

    fn program(&self, message: &Value) -> Option<Program> {
        let path = message.get("executable")?.as_str()?;
        let target = message.get("target")?;
        if !message.get("profile")?.get("test")?.as_bool()? {
            return None;
        }
        let manifest = PathBuf::from(message.get("manifest_path")?.as_str()?);
        let kind = target.get("kind")?.get(0)?.as_str()?;
        Some(Program {
            directory: manifest.parent()?.to_owned(),
            name: target.get("name")?.as_str()?.to_owned(),
            is_unit: kind != "test",
            path: path.into(),
        })
    }

    /// The mutants of each crate.
    pub fn crates(&self) -> BTreeMap<String, Vec<&Placed>> {
        let mut crates: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for placed in &self.placed {
            crates.entry(crate_of(&placed.file)).or_default().push(placed);
        }
        crates
    }
}

/// The numbers of the mutants that are switched in a line.
fn switches(line: &str) -> impl Iterator<Item = u32> {
    let numbers =
        |mark: &'static str| line.split(mark).skip(1).filter_map(|rest| rest.split(')').next()?.parse().ok());
    numbers("mutant_switch::on(").chain(numbers(".mutated("))
}

/// The root of the crate that a path is in.
fn root_of(path: &Path) -> PathBuf {
    Path::new(&crate_of(path)).join("src/lib.rs")
}

/// The directory of a file's crate.
fn crate_of(file: &Path) -> String {
    file.iter().next().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns whether a file is one of the library's, not of its tests alone.
fn is_source(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default();
    let is_test = stem == "tests" || file.iter().any(|part| part == "tests");
    file.extension().is_some_and(|extension| extension == "rs") && !is_test
}

/// Removes the files below a directory of the tree that are none of these: the last run may have had others.
fn remove_others(tree: &Path, directory: &Path, names: &BTreeSet<&Path>) -> Result<()> {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(tree, &path, names)?;
        } else if !path.ends_with("mutant_switch.rs") && !names.contains(path.strip_prefix(tree)?) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().ok_or("a file has a directory")?)?;
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::copy(from, to)?;
    Ok(())
}

/// Writes a file unless it has this text: cargo looks at times.
fn write_if_other(file: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(file.parent().ok_or("a file has a directory")?)?;
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(file, text)?;
    Ok(())
}
