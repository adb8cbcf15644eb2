//! `cfi2sframe-ld`: runs a linker that makes no `.sframe`, or another one than wanted, then puts a table into what it
//! linked.
//!
//! Arguments but `--strict`, which no linker has, go to the real linker as they are, so that compilers and build systems
//! need to know nothing of it:
//!
//! - Its name decides which linker is run: `cfi2sframe-ld` and a link to it named `ld` run `ld`, one named `ld.lld` or
//!   `cfi2sframe-ld.lld` runs `ld.lld`, one named `cfi2sframe-cc` runs the compiler driver `cc`: the next program of
//!   that name in `PATH`.
//! - `CFI2SFRAME_LD` names the linker, whatever the own name is.
//! - `CFI2SFRAME_LD_OPTIONS` has options of `cfi2sframe --in-place`, separated by blanks, such as `--for glibc-2.43`.
//! - `--strict` (`-Wl,--strict` for a compiler), or `CFI2SFRAME_LD_REQUIRED=1` for a whole build, makes it an error that a
//!   linked file has no table in the end.
//!
//! The exit status is the linker's. If the linked file cannot take a table, a warning has the reason, and the file stays
//! as the linker wrote it. Relocatable output (`-r`) stays as it is, because not every linker reads tables.

mod arguments;
mod real;
mod stamp;

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::{Context as _, anyhow};
use cfipack_container::Kind;
use clap::Parser as _;

use crate::CommandLine;
use crate::report::status::{self, Status};
use arguments::Arguments;
use stamp::Stamp;

const OPTIONS: &str = "CFI2SFRAME_LD_OPTIONS";
const REQUIRED: &str = "CFI2SFRAME_LD_REQUIRED";

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    // Linkers and build systems print too.
    status::name_program("cfi2sframe-ld");
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let arguments: Vec<_> = arguments.collect();
    run(Path::new(&name), &arguments).unwrap_or_else(|error| {
        status::report_error(&format_args!("{error:#}"));
        ExitCode::from(2)
    })
}

fn run(name: &Path, given: &[OsString]) -> anyhow::Result<ExitCode> {
    let is_required = env::var_os(REQUIRED).is_some_and(|value| !value.is_empty() && value != "0");
    // Before the linker removes the response files that a compiler driver wrote for it.
    let arguments = Arguments::read(given)?;
    let before = arguments.as_ref().and_then(|arguments| Stamp::of(&arguments.output));
    let linker = real::linker(name)?;
    let mut command = real::command(&linker)?;
    match &arguments {
        Some(arguments) => command.args(&arguments.passed),
        None => command.args(arguments::others(given)),
    };
    let linked = command.status().with_context(|| linker.display().to_string())?;
    if !linked.success() {
        return Ok(exit_code(linked));
    }
    let Some(arguments) = arguments else {
        status::warn(&"too many @-files: the linked file is not known, and gets no table");
        return Ok(status::exit(Ok(Status::differs_if(is_required))));
    };
    let is_required = is_required || arguments.is_strict;
    let status = change(&arguments, before, is_required && real::is_linker(&linker))?;
    Ok(if is_required { status::exit(Ok(status)) } else { ExitCode::SUCCESS })
}

/// Puts a table into what the linker wrote. `is_link` if its success means that it has linked a file which has to have
/// one: a compiler driver succeeds with text and objects too.
fn change(arguments: &Arguments, before: Option<Stamp>, is_link: bool) -> anyhow::Result<Status> {
    let output = &arguments.output;
    let none = |reason: &str| {
        status::warn(&format_args!("{}: {reason}: no table", output.display()));
        Ok(Status::Differs)
    };
    // Only what this run linked: `ld --version` leaves the `a.out` of another run alone.
    let after = Stamp::of(output);
    if after.is_none() || after == before {
        let is_missing = is_link && !arguments.is_question;
        return if is_missing { none("the linker has not written it") } else { Ok(Status::Done) };
    }
    if !is_elf(output) {
        return if is_link { none("not an ELF file") } else { Ok(Status::Done) };
    }
    let status = embed(output, &env::var(OPTIONS).unwrap_or_default())?;
    if is_link && status == Status::Done && lacks_table(output)? {
        return none("no call frame information of functions that a table can represent");
    }
    Ok(status)
}

/// True for the output of `--oformat elf64-…`, and not of `binary`.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// True for a program or library without a table; the output of `-r` is to be linked again, and has none.
fn lacks_table(path: &Path) -> anyhow::Result<bool> {
    let bytes = fs::read(path)?;
    let file = cfipack_container::File::parse(&bytes)?;
    Ok(file.kind() == Kind::Linked && file.sframe_sections()?.is_empty())
}

/// Puts a table into the linked file. Faults are reported.
fn embed(output: &Path, options: &str) -> anyhow::Result<Status> {
    let command = ["cfi2sframe", "--in-place", "--quiet", "--linked-only", "--no-sync"];
    let words = command.into_iter().chain(options.split_whitespace()).chain(["--"]).map(OsString::from);
    let arguments = CommandLine::try_parse_from(words.chain([output.as_os_str().to_owned()]))
        .map_err(|error| anyhow!("{OPTIONS}={options}: {}", one_line(&error)))?;
    crate::run(&arguments)
}

/// The first line of clap's message, without its own prefix.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// The linker's exit status; of one that a signal ended, what shells give.
fn exit_code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return ExitCode::from((128 + signal) as u8);
    }
    ExitCode::from(status.code().map_or(1, |code| code as u8))
}
