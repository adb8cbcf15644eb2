//! Counts the costs of fixed jobs, and compares them with `tests/plots/figures/counted.tsv`. Start it by
//! `tests/counted/run`.
//!
//! callgrind counts instructions, which are the same in each run of a program. But glibc selects variants of `memcpy`
//! by processor (AVX). Memory is the kernel's `ru_maxrss`, which includes used pages of mapped files; page faults are
//! `ru_minflt`. Both depend on how many pages of a file the kernel maps at a fault.

mod figures;
mod jobs;
mod measure;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use figures::File;
use jobs::{JOBS, output};

const FILE: &str = "tests/plots/figures/counted.tsv";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let update = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [measure::CHILD, ..] => return measure::child(&arguments[1..]),
        [] => false,
        ["--update"] => true,
        _ => {
            eprintln!("usage: tests/counted/run [--update]");
            return ExitCode::from(2);
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match run(&root, update) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Counts and compares. Returns true if nothing differs too much.
fn run(root: &Path, update: bool) -> Result<bool, String> {
    let path = root.join(FILE);
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |path| root.join(path));
    let directory = target.join("counted");
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let old = match fs::read_to_string(&path) {
        Ok(text) => File::parse(&text).map_err(|error| format!("{FILE}: {error}"))?,
        Err(_) if update => File::default(),
        Err(error) => return Err(format!("{FILE}: {error}")),
    };
    let mut now = File { provenance: provenance(root)?, figures: Vec::new() };
    now.provenance.extend(jobs::prepare(root, &directory)?);
    if let Some(difference) = old.incomparable(&now).filter(|_| !update) {
        println!("NOT COMPARED: the counts of {FILE} were made elsewhere: {difference}");
        return Ok(true);
    }
    for (package, program) in [("cfi2sframe", "cfi2sframe"), ("cfipack-tests", "work")] {
        build(root, package, program)?;
        jobs::copy(&target.join("release").join(program), &directory.join(program))?;
    }
    jobs::prepare_tables(&directory)?;
    for job in &JOBS {
        let figures = measure::measure(job, &directory)?;
        let text: Vec<_> = figures.iter().map(|one| format!("{} {}", one.value, one.name)).collect();
        println!("{}: {}", job.name, text.join(", "));
        now.figures.extend(figures);
    }
    let differences = old.differences(&now);
    differences.iter().for_each(|difference| println!("{difference}"));
    if update {
        fs::write(&path, now.to_text()).map_err(|error| format!("{FILE}: {error}"))?;
        println!(
            "{FILE}: written; `cargo run --manifest-path tests/plots/Cargo.toml -- draw` writes the pages"
        );
        return Ok(true);
    }
    if !differences.is_empty() {
        println!("{FILE}: `tests/counted/run --update` writes it, if this is meant; the commit says why");
    }
    Ok(differences.is_empty())
}

/// Builds a program in the workspace's release profile. Variables of the environment do not change the profile.
fn build(root: &Path, package: &str, program: &str) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.current_dir(root).args([
        "build",
        "--release",
        "--locked",
        "--quiet",
        "-p",
        package,
        "--bin",
        program,
    ]);
    let overrides = |name: &String| {
        name.starts_with("CARGO_PROFILE_") || name.ends_with("RUSTFLAGS") || name == "CARGO_INCREMENTAL"
    };
    for (name, _) in env::vars().filter(|(name, _)| overrides(name)) {
        command.env_remove(name);
    }
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Returns the circumstances of counting: tools, machine and kernel.
fn provenance(root: &Path) -> Result<Vec<(String, String)>, String> {
    let first = |command: &mut Command| {
        output(command).map(|text| text.lines().next().unwrap_or_default().trim().to_owned())
    };
    let rustc = first(Command::new("rustc").arg("--version"))?;
    let git =
        |arguments: &[&str]| first(Command::new("git").args(arguments).current_dir(PathBuf::from(root)));
    let valgrind = first(Command::new("valgrind").arg("--version"))
        .map_err(|error| format!("valgrind is needed: {error}"))?;
    let values = [
        ("commit", git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|_| "unknown".into())),
        ("rustc", rustc),
        ("host", jobs::host()?),
        ("valgrind", valgrind),
        ("libc", first(Command::new("ldd").arg("--version"))?),
        ("kernel", first(Command::new("uname").arg("-r"))?),
    ];
    Ok(values.map(|(key, value)| (key.to_owned(), value)).into())
}
