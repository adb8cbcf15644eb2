//! Runs a page's blocks and judges them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::compare;
use crate::listing;
use crate::page::{Block, Kind, Page};
use crate::session::{Done, Session, Step};

/// The result of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// The block has neither a command nor an output: it is text, or a file that other blocks use.
    Used,
    /// Another check runs the block; the text names it.
    Elsewhere(String),
    NotRun(String),
    /// This machine lacks a program, or its input differs from the one whose output the page shows.
    NotTested(String),
    Failed(String),
}

/// The verdict on each block, in order, and the page with its outputs updated.
pub struct Report {
    pub verdicts: Vec<Verdict>,
    pub updated: String,
}

/// Answers the check's questions about the machine and the tree.
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
    let transcripts: Vec<_> = page.blocks.iter().map(|block| transcript(&block.text)).collect();
    let missing: Vec<_> = page
        .blocks
        .iter()
        .map(|block| block.needs.iter().find(|program| !surroundings.has_program(program)))
        .collect();
    let mut steps = Vec::new();
    for (number, block) in page.blocks.iter().enumerate().filter(|(number, _)| missing[*number].is_none()) {
        let in_source_tree = block.is_in_source_tree;
        match &block.kind {
            Kind::Commands => steps.push(Step::Run { id: (number, 0), text: &block.text, in_source_tree }),
            Kind::Console => {
                steps.extend(transcripts[number].iter().enumerate().map(|(nth, it)| Step::Run {
                    id: (number, nth),
                    text: &it.command,
                    in_source_tree,
                }))
            }
            Kind::File(path) => steps.push(Step::Write { path, text: &block.text }),
            Kind::Bytes(path) | Kind::Lines(path) => steps.push(Step::Keep { id: (number, 0), path }),
            Kind::DocTest | Kind::Text | Kind::NotRun(_) | Kind::RunBy(_) => {}
        }
    }
    let done = session.run(&steps).map_err(|error| format!("{}: {error}", page.path))?;

    let mut report = Report { verdicts: Vec::new(), updated: page.text.clone() };
    let mut made = Vec::new();
    for (number, block) in page.blocks.iter().enumerate() {
        if let Some(program) = missing[number] {
            report.verdicts.push(Verdict::NotTested(format!("there is no {program}")));
            continue;
        }
        report.verdicts.push(match &block.kind {
            Kind::Commands => sh(&done[&(number, 0)]),
            Kind::Console => {
                let other = another_input(block, session, surroundings);
                let done: Vec<_> = done.range((number, 0)..(number + 1, 0)).map(|(_, done)| done).collect();
                let (verdict, text) =
                    console(&transcripts[number], &done, &session.directory, other.as_deref());
                made.push((block.place.clone(), text));
                verdict
            }
            Kind::Bytes(_) => {
                let (verdict, text) = bytes(block, &done[&(number, 0)]);
                made.push((block.place.clone(), text));
                verdict
            }
            Kind::Lines(file) => lines(block, file, &done[&(number, 0)]),
            Kind::File(_) | Kind::Text => Verdict::Used,
            Kind::NotRun(reason) => Verdict::NotRun(reason.clone()),
            Kind::DocTest if surroundings.has_doc_tests(page) => Verdict::Elsewhere("doc tests".into()),
            Kind::DocTest => {
                Verdict::Failed("no doc tests include this page: `rust` needs `file=PATH`".into())
            }
            Kind::RunBy(program) => run_by(program, page, block, surroundings),
        });
    }
    for (place, text) in made.into_iter().rev() {
        report.updated.replace_range(place, &text);
    }
    update_hashes(&mut report.updated, page, session, surroundings);
    Ok(report)
}

/// Writes the hashes of this machine's inputs into the page.
fn update_hashes(text: &mut String, page: &Page, session: &Session, surroundings: &dyn Surroundings) {
    let inputs: BTreeSet<_> = page.blocks.iter().flat_map(|block| &block.inputs).collect();
    for (file, hash) in inputs {
        let real = surroundings.hash(&session.directory.join(file));
        if let Some(new) = real.as_deref().and_then(|real| real.get(..hash.len())) {
            let comment = |hash: &str| format!("<!-- outputs of {file} {hash} -->");
            *text = text.replace(&comment(hash), &comment(new));
        }
    }
}

fn run_by(program: &str, page: &Page, block: &Block, surroundings: &dyn Surroundings) -> Verdict {
    let text = surroundings.program(program).unwrap_or_default();
    // The commands without comments.
    let mut commands = block.text.lines().map(|line| line.split(" #").next().unwrap_or_default().trim_end());
    if text.contains(&page.path) || commands.all(|command| text.contains(command)) {
        Verdict::Elsewhere(program.into())
    } else {
        Verdict::Failed(format!("{program} has neither this page's path nor these commands"))
    }
}

/// Names an input of the block's outputs that is different on this machine.
fn another_input(block: &Block, session: &Session, surroundings: &dyn Surroundings) -> Option<String> {
    let (file, _) = block.inputs.iter().find(|(file, hash)| {
        let real = surroundings.hash(&session.directory.join(file));
        real.is_some_and(|real| !real.starts_with(hash.as_str()))
    })?;
    Some(format!("the output, since {file} is another one than the page's"))
}

fn sh(done: &Done) -> Verdict {
    if done.status == Some(0) && done.failed.is_empty() {
        return Verdict::Passed;
    }
    let status =
        done.status.map_or("has ended the terminal".into(), |status| format!("ends with status {status}"));
    let output = shortened(&String::from_utf8_lossy(&done.output));
    Verdict::Failed(format!("{status}; failed:\n{}it prints:\n{output}", done.failed))
}

/// Keeps the first and the last lines of an output.
fn shortened(output: &str) -> String {
    const EACH: usize = 20;
    let lines: Vec<_> = output.lines().collect();
    if lines.len() <= 2 * EACH {
        return output.into();
    }
    let omitted = format!("[{} lines]", lines.len() - 2 * EACH);
    [&lines[..EACH], &[&omitted], &lines[lines.len() - EACH..]].concat().join("\n")
}

/// A command of a `console` block.
struct Shown {
    /// As it stands in the page.
    lines: String,
    command: String,
    output: String,
}

/// Splits a block into its commands and their outputs. After a line that ends with a backslash, a line `> ` continues
/// the command.
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

/// Judges a console block. Returns the verdict, and the block with its outputs updated.
fn console(commands: &[Shown], done: &[&Done], directory: &Path, other: Option<&str>) -> (Verdict, String) {
    let mut failures = String::new();
    let mut not_compared = false;
    let mut made = String::new();
    for (shown, done) in commands.iter().zip(done) {
        let mut real = compare::shown(&String::from_utf8_lossy(&done.output), directory);
        if !real.is_empty() && !real.ends_with('\n') {
            real.push('\n');
        }
        let agrees = compare::agrees(&shown.output, &real);
        made += &shown.lines;
        made += if agrees { &shown.output } else { &real };
        // If a command shows no output, only its status counts.
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
        (true, Some(other)) => Verdict::NotTested(other.into()),
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
