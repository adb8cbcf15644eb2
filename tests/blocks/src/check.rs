//! A page's blocks, run and judged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::compare;
use crate::listing;
use crate::page::{Block, Kind, Page};
use crate::session::{Done, Session, Step};

/// What came of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// It is no command, and has no output: text, or a file that other blocks use.
    Used,
    /// Another check runs it.
    Elsewhere(String),
    NotRun(String),
    /// It runs, but its output is of an input that this machine has not.
    NotCompared(String),
    Failed(String),
}

/// The verdict on each block in order, and the page with outputs as they are now.
pub struct Report {
    pub verdicts: Vec<Verdict>,
    pub updated: String,
}

/// What the check has to know of the machine and the tree.
pub trait Surroundings {
    /// Whether the program is in the `PATH` of the blocks.
    fn has_program(&self, name: &str) -> bool;
    /// The SHA-256 of a file in hexadecimal, if it can be read.
    fn hash(&self, file: &Path) -> Option<String>;
    /// Whether doc tests of a crate include the page.
    fn has_doc_tests(&self, page: &Page) -> bool;
    /// The text of a program of the source tree.
    fn program(&self, path: &str) -> Option<String>;
}

/// Runs the blocks of the page in the session.
pub fn check(page: &Page, session: &Session, surroundings: &dyn Surroundings) -> Result<Report, String> {
    let missing: Vec<_> = page
        .blocks
        .iter()
        .map(|block| block.needs.iter().find(|program| !surroundings.has_program(program)))
        .collect();
    let commands: Vec<_> = page.blocks.iter().map(|block| transcript(&block.text)).collect();
    let mut steps = Vec::new();
    for (number, block) in page.blocks.iter().enumerate().filter(|(number, _)| missing[*number].is_none()) {
        let in_source_tree = block.is_in_source_tree;
        match &block.kind {
            Kind::Commands => {
                steps.push(Step::Run { id: number.to_string(), text: &block.text, in_source_tree })
            }
            Kind::Console => steps.extend(commands[number].iter().enumerate().map(|(nth, it)| Step::Run {
                id: format!("{number}.{nth}"),
                text: &it.command,
                in_source_tree,
            })),
            Kind::File(path) => steps.push(Step::Write { path, text: &block.text }),
            Kind::Bytes(path) | Kind::Lines(path) => steps.push(Step::Keep { id: number.to_string(), path }),
            Kind::DocTest | Kind::Text | Kind::NotRun(_) | Kind::RunBy(_) => {}
        }
    }
    let done = session.run(&steps).map_err(|error| format!("{}: {error}", page.path))?;
    let hashes: Vec<_> = page
        .inputs
        .iter()
        .map(|(file, _)| surroundings.hash(&session.directory.join(file)).unwrap_or_default())
        .collect();
    let mut inputs = page.inputs.iter().zip(&hashes);
    let other = inputs.find(|((_, hash), real)| !real.starts_with(hash.as_str()));
    let other = other.map(|((file, _), _)| format!("{file} is another one than the page's"));

    let mut report = Report { verdicts: Vec::new(), updated: page.text.clone() };
    let mut made = Vec::new();
    for (number, block) in page.blocks.iter().enumerate() {
        let verdict = match (&block.kind, missing[number]) {
            (_, Some(program)) => Verdict::NotRun(format!("there is no {program}")),
            (Kind::Commands, _) => sh(&done[&number.to_string()]),
            (Kind::Console, _) => {
                let all =
                    judge_console(number, &commands[number], &done, &session.directory, other.as_deref());
                made.push((block.place.clone(), all.1));
                all.0
            }
            (Kind::Bytes(_), _) => {
                let (verdict, listing) = bytes(block, &done[&number.to_string()]);
                made.push((block.place.clone(), listing));
                verdict
            }
            (Kind::Lines(file), _) => lines(block, file, &done[&number.to_string()]),
            (Kind::File(_) | Kind::Text, _) => Verdict::Used,
            (Kind::NotRun(reason), _) => Verdict::NotRun(reason.clone()),
            (Kind::DocTest, _) if surroundings.has_doc_tests(page) => Verdict::Elsewhere("doc tests".into()),
            (Kind::DocTest, _) => {
                Verdict::Failed("no doc tests include this page: `rust` needs `file=PATH`".into())
            }
            (Kind::RunBy(program), _) => {
                let text = surroundings.program(program).unwrap_or_default();
                if text.contains(&page.path) || commands_of(block).all(|command| text.contains(command)) {
                    Verdict::Elsewhere(program.clone())
                } else {
                    Verdict::Failed(format!("{program} has neither this page's path nor these commands"))
                }
            }
        };
        report.verdicts.push(verdict);
    }
    replace(&mut report.updated, made);
    for ((file, hash), real) in page.inputs.iter().zip(&hashes) {
        let Some(real) = real.get(..hash.len()) else { continue };
        let new = format!("<!-- outputs of {file} {real} -->");
        report.updated = report.updated.replace(&format!("<!-- outputs of {file} {hash} -->"), &new);
    }
    Ok(report)
}

/// The lines of a block without comments.
fn commands_of(block: &Block) -> impl Iterator<Item = &str> {
    block.text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim_end())
}

/// Puts texts into the places, which ascend.
fn replace(page: &mut String, made: Vec<(Range<usize>, String)>) {
    for (place, text) in made.into_iter().rev() {
        page.replace_range(place, &text);
    }
}

fn sh(done: &Done) -> Verdict {
    if done.status == Some(0) && done.failed.is_empty() {
        return Verdict::Passed;
    }
    let output = String::from_utf8_lossy(&done.output);
    let last: Vec<_> = output.lines().rev().take(30).collect();
    let last: Vec<_> = last.into_iter().rev().collect();
    let status =
        done.status.map_or("has ended the terminal".into(), |status| format!("ends with status {status}"));
    Verdict::Failed(format!("{status}; failed:\n{}it prints:\n{}", done.failed, last.join("\n")))
}

/// A command of a `console` block.
struct Shown {
    /// As it stands in the page.
    lines: String,
    command: String,
    output: String,
}

/// The commands of a block with what they print. A line that starts with `> ` continues one that ends with a backslash.
fn transcript(block: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in block.split_inclusive('\n') {
        match all.last_mut() {
            _ if line.starts_with("$ ") => {
                all.push(Shown { lines: line.into(), command: line[2..].into(), output: String::new() });
            }
            Some(last) if last.command.ends_with("\\\n") && line.starts_with("> ") => {
                last.lines += line;
                last.command += &line[2..];
            }
            Some(last) => last.output += line,
            None => all.push(Shown { lines: String::new(), command: String::new(), output: line.into() }),
        }
    }
    all
}

/// The verdict, and the block as it is now.
fn judge_console(
    number: usize,
    commands: &[Shown],
    done: &BTreeMap<String, Done>,
    directory: &Path,
    other: Option<&str>,
) -> (Verdict, String) {
    let mut failures = String::new();
    let mut not_compared = false;
    let mut made = String::new();
    for (nth, shown) in commands.iter().enumerate() {
        let done = &done[&format!("{number}.{nth}")];
        let mut real = compare::shown(&String::from_utf8_lossy(&done.output), directory);
        if !real.is_empty() && !real.ends_with('\n') {
            real.push('\n');
        }
        let agrees = compare::agrees(&shown.output, &real);
        made += &shown.lines;
        made += if agrees { &shown.output } else { &real };
        // What prints nothing that is shown has only its status.
        let says_nothing = shown.output.lines().all(|line| line == "...");
        let failed =
            shown.command.is_empty() || done.status.is_none() || (says_nothing && done.status != Some(0));
        if agrees && !failed {
            continue;
        }
        if !failed && other.is_some() && done.status < Some(126) {
            not_compared = true;
            continue;
        }
        failures += &format!("$ {}", shown.command);
        if let Some(status) = done.status.filter(|status| *status != 0) {
            failures += &format!("(status {status})\n");
        }
        if !agrees {
            failures += &format!("--- the page\n{}+++ now\n{real}", shown.output);
        }
    }
    let verdict = match (failures.is_empty(), not_compared.then_some(other).flatten()) {
        (false, _) => Verdict::Failed(failures),
        (true, Some(other)) => Verdict::NotCompared(other.into()),
        (true, None) => Verdict::Passed,
    };
    (verdict, made)
}

fn bytes(block: &Block, done: &Done) -> (Verdict, String) {
    if done.status != Some(0) {
        return (Verdict::Failed(done.failed.clone()), block.text.clone());
    }
    let listing = listing::listing(&done.output);
    let verdict = if listing == block.text {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("the listing is now\n{listing}"))
    };
    (verdict, listing)
}

fn lines(block: &Block, file: &str, done: &Done) -> Verdict {
    if done.status != Some(0) {
        Verdict::Failed(done.failed.clone())
    } else if String::from_utf8_lossy(&done.output).contains(&block.text) {
        Verdict::Passed
    } else {
        Verdict::Failed(format!("{file} has not these lines"))
    }
}

#[cfg(test)]
mod tests;
