//! Mutation testing: changes one operator, condition, statement or result of the libraries at a time, and runs the nearest
//! tests, of which one should fail. All mutants are in one build, which has a switch for each.
//!
//!     cargo run --manifest-path tests/mutants/Cargo.toml -- [--sample N] [--seed N] [--least PERCENT] PATH...
//!
//! PATH is a crate's directory or a source file of one. A mutant that no test detects is printed as MISSED, with whether a
//! test reaches it. The nearest tests of each crate are listed in `tests/mutants/suites`. The status is 1 if fewer than
//! `--least PERCENT` are detected. The mutated tree is `target/mutants/tree`.

mod judge;
mod mutate;
mod suites;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

struct Arguments {
    /// Mutants of each crate that are run.
    sample: usize,
    seed: u64,
    /// The share of mutants, in percent, that have to be detected.
    least: f64,
    paths: Vec<String>,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments> {
    let mut found = Arguments { sample: usize::MAX, seed: 0, least: 0.0, paths: Vec::new() };
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        let mut value = || all.next().ok_or_else(|| format!("{argument} needs a number"));
        match argument.as_str() {
            "--sample" => found.sample = value()?.parse()?,
            "--seed" => found.seed = value()?.parse()?,
            "--least" => found.least = value()?.parse()?,
            option if option.starts_with('-') => return Err(format!("{option} is no option").into()),
            _ => found.paths.push(argument.trim_end_matches('/').to_owned()),
        }
    }
    if found.paths.is_empty() {
        return Err("name crates' directories or source files".into());
    }
    Ok(found)
}

/// Runs the mutants; returns whether enough of each crate were detected.
fn run(arguments: &Arguments) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let suites = suites::read(&root.join("tests/mutants/suites"))?;
    let mut tree = tree::Tree::make(&root, &arguments.paths)?;
    let programs = tree.build(&suites)?;
    let mut is_enough = true;
    for (name, mutants) in &tree.crates() {
        let suite = suites.get(name).ok_or_else(|| format!("no suite of {name} in tests/mutants/suites"))?;
        let judge = judge::Judge::new(&tree, &programs, name, suite)?;
        let result = judge.run(&sample(mutants, arguments));
        let share = result.share();
        println!(
            "{name}: {share:.0} % of {} mutants detected, {} of the others reached by no test; {} in all",
            result.count,
            result.unreached,
            mutants.len(),
        );
        is_enough &= share >= arguments.least;
    }
    Ok(is_enough)
}

/// The mutants that are run: as many as were asked for, chosen by a hash of the place's text and the seed, so that a change
/// of a file leaves those of others as they are.
fn sample<'m>(mutants: &[&'m tree::Placed], arguments: &Arguments) -> Vec<&'m tree::Placed> {
    let hash = |mutant: &tree::Placed| {
        let text = format!("{}{}{}", mutant.file.display(), mutant.mutant.words, arguments.seed);
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let mut all = mutants.to_vec();
    all.sort_by_key(|mutant| (hash(mutant), mutant.mutant.number));
    all.truncate(arguments.sample);
    all
}

fn source_of(path: &str) -> PathBuf {
    if path.ends_with(".rs") { path.into() } else { Path::new(path).join("src") }
}
