//! `cfi2sframe-ld`: runs a linker, then puts a `.sframe` table into the linked file.
//!
//! Use it if your linker makes no `.sframe` table, or a different table than you want. All arguments go to the real
//! linker as they are, except `--strict`, because no linker has this option. So compilers and build systems do not have
//! to know about this command.
//!
//! - The name of this command decides which linker it runs. `cfi2sframe-ld`, or a link to it with the name `ld`, runs
//!   `ld`. `cfi2sframe-ld.lld` or `ld.lld` runs `ld.lld`. `cfi2sframe-cc` runs the compiler driver `cc`. The linker is
//!   the first program of its name in `PATH` that is not this command itself.
//! - `CFI2SFRAME_LD` names the linker, and overrides the command's own name.
//! - `CFI2SFRAME_LD_OPTIONS` has options of `cfi2sframe --in-place`, separated by blanks, for example `--for
//!   glibc-2.43`.
//! - `--strict` (`-Wl,--strict` for a compiler) makes it an error if the linked file has no table in the end.
//!   `CFI2SFRAME_LD_REQUIRED=1` does the same for a whole build.
//!
//! The exit status is the linker's. If the linked file cannot take a table, a warning names the reason, and the file
//! stays as the linker wrote it. Relocatable output (`-r`) stays as it is, because not every linker reads tables.
//!
//! `arguments` reads the linker's arguments, and `real` finds and starts the linker.

mod arguments;
mod real;

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use cfipack_container::Kind;
use clap::Parser as _;

use crate::CommandLine;
use crate::report::status::{self, Status};
use arguments::Arguments;

const OPTIONS: &str = "CFI2SFRAME_LD_OPTIONS";
const REQUIRED: &str = "CFI2SFRAME_LD_REQUIRED";

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    // Linkers and build systems print messages too.
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
    // Read response files now: the linker removes response files that a compiler driver wrote for it.
    let arguments = Arguments::read(given)?;
    let before = arguments.as_ref().and_then(|arguments| Stamp::read(&arguments.output));
    let linker = real::linker(name)?;
    let mut command = real::command(&linker)?;
    match &arguments {
        Some(arguments) => command.args(&arguments.passed),
        None => command.args(arguments::without_strict(given)),
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

/// Length and time of a regular file. A linker that writes the file changes one of them.
#[derive(PartialEq, Eq, Debug)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// Returns the file's stamp, or `None` if it is no regular file (for example `/dev/null`) or does not exist.
    fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self { len: metadata.len(), modified: metadata.modified().ok() })
    }
}

/// Puts a table into the file that the linker wrote.
///
/// `is_link` is true if success of the program means that it has linked a file. A compiler driver also succeeds after
/// it wrote text or objects.
fn change(arguments: &Arguments, before: Option<Stamp>, is_link: bool) -> anyhow::Result<Status> {
    let output = &arguments.output;
    let warn_without_table = |reason: &str| {
        status::warn(&format_args!("{}: {reason}: no table", output.display()));
        Ok(Status::Differs)
    };
    // Change the file only if this run has linked it. For example, `ld --version` does not write the `a.out` of an
    // earlier run.
    let after = Stamp::read(output);
    if after.is_none() || after == before {
        let is_missing = is_link && !arguments.is_question;
        let reason = "the linker has not written it";
        return if is_missing { warn_without_table(reason) } else { Ok(Status::Done) };
    }
    if !is_elf(output) {
        return if is_link { warn_without_table("not an ELF file") } else { Ok(Status::Done) };
    }
    let status = embed(output, &env::var(OPTIONS).unwrap_or_default())?;
    if is_link && status == Status::Done && lacks_table(output)? {
        return warn_without_table("no call frame information of functions that a table can represent");
    }
    Ok(status)
}

/// Returns true for the output of `--oformat elf64-…`, but not of `--oformat binary`.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// Returns true for a program or library without a table. The output of `-r` needs no table, because it will be linked
/// again.
fn lacks_table(path: &Path) -> anyhow::Result<bool> {
    let bytes = fs::read(path)?;
    let file = cfipack_container::File::parse(&bytes)?;
    Ok(file.kind() == Kind::Linked && file.sframe_sections()?.is_empty())
}

/// Puts a table into the linked file, and reports errors.
fn embed(output: &Path, options: &str) -> anyhow::Result<Status> {
    let command = ["cfi2sframe", "--in-place", "--quiet", "--linked-only", "--no-sync"];
    let words = command.into_iter().chain(options.split_whitespace()).chain(["--"]).map(OsString::from);
    let arguments = CommandLine::try_parse_from(words.chain([output.as_os_str().to_owned()]))
        .map_err(|error| anyhow!("{OPTIONS}={options}: {}", first_line(&error)))?;
    crate::run(&arguments)
}

/// Returns the first line of clap's message, without its prefix `error: `.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
}

/// Returns the linker's exit status. If a signal ended the linker, this is 128 plus the signal's number, as in a shell.
fn exit_code(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        return ExitCode::from((128 + signal) as u8);
    }
    ExitCode::from(status.code().map_or(1, |code| code as u8))
}
