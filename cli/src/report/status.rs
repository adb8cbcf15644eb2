//! Exit statuses, and lines for errors and warnings.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::builder::styling::Style;

use crate::report::escaped::Escaped;
use crate::report::style;

/// The result of a verb. Two results combine to the greater result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    Done,
    /// Done, and something differs, is not covered, or fails the requested check.
    Differs,
    /// An error that is already reported.
    Failed,
}

impl Status {
    /// Returns `Differs` if something differs, and `Done` otherwise.
    pub fn differs_if(differs: bool) -> Self {
        if differs { Self::Differs } else { Self::Done }
    }
}

/// What exit status 1 means, for each command. The conversion has no command. The help prints this table, and so does the
/// page `tour.md`.
const DIFFERENCES: [(&str, &str); 12] = [
    (
        "conversion",
        "a file is refused; an FDE cannot be read; no function can be in the table of -o;
--verify does not pass, as with verify; --min-coverage or --min-code-coverage is
missed; with --strict, a function is omitted, an FDE is of an unknown function, or
a named file, its member or much code has no rows",
    ),
    (
        "verify",
        "a PC differs; a function is missing that the table could have; a row cannot be
judged; an FDE cannot be read; nothing was compared; a table comes after another,
where readers do not find it; a rule of --profile or of the readers of
__unwind_info is broken; --lint finds a fault; an archive has members with a table
and members without it that could have one; with --strict, a function is omitted,
or an FDE is of an unknown function",
    ),
    ("lookup", "an address has no row"),
    ("diff", "the tables differ at a PC"),
    ("stats", "--min-coverage or --min-code-coverage is missed; --strict as in a conversion"),
    ("explain", "no function contains ADDRESS"),
    ("strip", "a file is refused; with --strict, a warning about a file that stays as it is"),
    ("gaps", "there is a gap"),
    (
        "lint",
        "something differs that neither --baseline nor --ignore has; no function is named
as --function says; with --fail-undecided, a function is undecided",
    ),
    (
        "unwind-info",
        "a function has no unwind information, as its personality would be the fourth;
--from-cfi omits functions without an FDE, since linkers remove the FDEs of
functions with compact rows; the file's table has functions after its sentinel,
where no reader finds them, and they are omitted; --verify does not pass, as with
verify; with --strict, a warning",
    ),
    ("compact-unwind", "verify of the changed objects would end with 1"),
    ("annotate", "with --strict, a function is omitted"),
];

/// Returns the exit statuses as the help prints them.
pub fn table() -> String {
    let mut table =
        "Exit status:\n  0  done; functions that a table cannot represent are omitted, with a reason\n"
            .to_string();
    table += "  1  done, and\n";
    for (command, words) in DIFFERENCES {
        let words = words.replace('\n', &format!("\n{:18}", ""));
        table += &format!("     {command:12} {words}\n");
    }
    table + "  2  error: usage, input or output, malformed input, or nothing to do: no table, no CFI"
}

/// Returns the line about exit status 1 of a command, or `None` if it does not have that status.
pub fn difference(command: &str) -> Option<String> {
    let (_, words) = DIFFERENCES.iter().find(|(name, _)| *name == command)?;
    Some(format!("Exit status 1: {words}."))
}

/// Returns the status of a result that is known before it is written. A reader that closes the pipe does not change it.
pub fn judged(status: Status, written: anyhow::Result<()>) -> anyhow::Result<Status> {
    match written {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(status),
    }
}

/// Returns the program's exit code. A reader that closes the pipe (`| head`) is no error.
pub fn exit(result: anyhow::Result<Status>) -> ExitCode {
    match result {
        Ok(Status::Done) => ExitCode::SUCCESS,
        Ok(Status::Differs) => ExitCode::from(1),
        Ok(Status::Failed) => ExitCode::from(2),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report_error(&format_args!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Prints an error as a single line.
pub fn report_error(error: &dyn fmt::Display) {
    write(&error_line(error));
}

pub fn error_line(error: &dyn fmt::Display) -> String {
    line("error", style::ERROR, error)
}

/// Prints a warning as a single line.
pub fn warn(warning: &dyn fmt::Display) {
    write(&warning_line(warning));
}

pub fn warning_line(warning: &dyn fmt::Display) -> String {
    line("warning", style::WARNING, warning)
}

/// The program's name in messages, if they are mixed with messages of other programs.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Names the program in all messages from now on.
pub fn name_program(name: &'static str) {
    // A second name changes nothing.
    let _ = PROGRAM.set(name);
}

fn line(kind: &str, style: Style, text: &dyn fmt::Display) -> String {
    let program = PROGRAM.get().map(|program| format!("{program}: ")).unwrap_or_default();
    format!("{} {program}{}\n", style::on(&io::stderr(), style, &format!("{kind}:")), Escaped(text))
}

/// Writes to standard error. A failure cannot be reported; the exit status remains.
fn write(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Returns whether the reader of standard output closed it.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        cause == Some(io::ErrorKind::BrokenPipe)
    })
}
