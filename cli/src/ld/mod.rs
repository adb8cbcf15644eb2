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
//!   linked file cannot take a table.
//!
//! The exit status is the linker's. If the linked file cannot take a table, a warning has the reason, and the file stays
//! as the linker wrote it. Relocatable output (`-r`) stays as it is, because not every linker reads tables.

mod output;
mod real;
mod stamp;

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use anyhow::Context as _;
use clap::Parser as _;

use crate::CommandLine;
use crate::report::status::{self, Status};
use stamp::Stamp;

/// The only argument that is not the linker's.
const STRICT: &str = "--strict";
const OPTIONS: &str = "CFI2SFRAME_LD_OPTIONS";
const REQUIRED: &str = "CFI2SFRAME_LD_REQUIRED";

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let (own, arguments): (Vec<_>, Vec<_>) = arguments.partition(|argument| argument == STRICT);
    let is_required = env::var_os(REQUIRED).is_some_and(|value| !value.is_empty() && value != "0");
    run(Path::new(&name), &arguments, is_required || !own.is_empty()).unwrap_or_else(|error| {
        status::report_error(&format_args!("{error:#}"));
        ExitCode::from(2)
    })
}

fn run(name: &Path, arguments: &[OsString], is_required: bool) -> anyhow::Result<ExitCode> {
    // Before the linker removes the response files that a compiler driver wrote for it.
    let output = output::of(arguments);
    let before = output.as_deref().and_then(Stamp::of);
    let linker = real::linker(name)?;
    let linked =
        real::command(&linker)?.args(arguments).status().with_context(|| linker.display().to_string())?;
    if !linked.success() {
        return Ok(exit_code(linked));
    }
    let Some(output) = output else {
        status::warn(&"too many @-files: the linked file is not known, and gets no table");
        return Ok(status::exit(Ok(Status::differs_if(is_required))));
    };
    // Only what this run linked: `ld --version` leaves the `a.out` of another run alone.
    let after = Stamp::of(&output);
    if after.is_none() || after == before || !is_elf(&output) {
        return Ok(ExitCode::SUCCESS);
    }
    let status = embed(&output)?;
    if is_required { Ok(status::exit(Ok(status))) } else { Ok(ExitCode::SUCCESS) }
}

/// Whether it is an ELF file, not the output of `--oformat binary`.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Puts a table into the linked file. Faults are reported.
fn embed(output: &Path) -> anyhow::Result<Status> {
    let options = env::var(OPTIONS).unwrap_or_default();
    let command = ["cfi2sframe", "--in-place", "--quiet", "--linked-only", "--no-sync"];
    let words = command.into_iter().chain(options.split_whitespace()).chain(["--"]).map(OsString::from);
    let arguments = CommandLine::try_parse_from(words.chain([output.as_os_str().to_owned()]))
        .with_context(|| format!("{OPTIONS}={options}"))?;
    crate::run(&arguments)
}

/// The linker's exit status; of one that a signal ended, what shells give.
fn exit_code(status: ExitStatus) -> ExitCode {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return ExitCode::from((128 + signal) as u8);
    }
    ExitCode::from(status.code().map_or(1, |code| code as u8))
}
