//! Measures a job: instructions by callgrind, memory and page faults by the kernel.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use nix::sys::resource::{UsageWho, getrusage};

use crate::figures::{FAULTS, Figure, INSTRUCTIONS, MEMORY};
use crate::jobs::{Job, Measured};

/// The number of runs. The least memory and the fewest page faults count.
const RUNS: usize = 5;

/// With this argument, the program runs a command and prints what the command used.
pub const CHILD: &str = "child";

/// Runs a job in a directory. Returns its figures.
pub fn measure(job: &Job, directory: &Path) -> Result<Vec<Figure>, String> {
    let figure = |name: &'static str, value| Figure { job: job.name.into(), name: name.into(), value };
    let count = |last: &str| instructions(directory, &format!("{} {last}", job.command));
    if job.measured == Measured::Call {
        let (never, once) = (count("0")?, count("1")?);
        return Ok(vec![figure(INSTRUCTIONS, once.saturating_sub(never))]);
    }
    let mut figures = Vec::new();
    if job.measured == Measured::All {
        figures.push(figure(INSTRUCTIONS, count("")?));
    }
    let runs = (0..RUNS).map(|_| usage(directory, job.command)).collect::<Result<Vec<_>, _>>()?;
    let least = |of: fn(&(u64, u64)) -> u64| runs.iter().map(of).min().unwrap_or(0);
    figures.push(figure(MEMORY, least(|run| run.0)));
    figures.push(figure(FAULTS, least(|run| run.1)));
    Ok(figures)
}

/// Returns a command without environment variables, because their size changes the stack.
fn bare(program: &str, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").current_dir(directory);
    command
}

fn instructions(directory: &Path, line: &str) -> Result<u64, String> {
    let mut command = bare("valgrind", directory);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(line.split_whitespace());
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    check_status(line, output.status.code(), &text)?;
    if let Some((_, collected)) = text.split_once("Collected : ")
        && let Some(count) = collected.split_whitespace().next()
        && let Ok(count) = count.parse()
    {
        return Ok(count);
    }
    Err(format!("{line}: no count: {text}"))
}

/// Returns peak memory in kB and minor page faults of a command.
fn usage(directory: &Path, line: &str) -> Result<(u64, u64), String> {
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut command = bare(&program.to_string_lossy(), directory);
    let output = command.arg(CHILD).args(line.split_whitespace()).output();
    let output = output.map_err(|error| format!("{line}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    check_status(line, output.status.code(), &text)?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = printed.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let [memory, faults] = numbers[..] else { return Err(format!("{line}: {printed}")) };
    Ok((memory, faults))
}

/// `lint` returns status 1 if it has findings, which is no error here.
fn check_status(line: &str, status: Option<i32>, text: &str) -> Result<(), String> {
    match status {
        Some(0 | 1) => Ok(()),
        status => Err(format!("{line}: status {status:?}: {text}")),
    }
}

/// Runs a command, the only child of this process. Prints its memory and page faults.
pub fn child(line: &[String]) -> ExitCode {
    let Some((program, arguments)) = line.split_first() else { return ExitCode::from(3) };
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
    let (Ok(status), Ok(usage)) = (status, getrusage(UsageWho::RUSAGE_CHILDREN)) else {
        return ExitCode::from(3);
    };
    println!("{} {}", usage.max_rss(), usage.minor_page_faults());
    ExitCode::from(status.code().and_then(|code| code.try_into().ok()).unwrap_or(3))
}
