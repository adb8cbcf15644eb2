//! `cfi2sframe`: packs DWARF call frame information into `.sframe`, reads it back and proves it.
//!
//! Arguments in, reports and files out, nothing else: one file per verb, its options and its
//! reports beside it.
//!
//! This is a library only so that the command's definition can be read by the example `manual`, which writes
//! man pages and shell completions. The libraries that the command uses are those of `cfipack`.

mod asm;
mod cfi_bytes;
mod comparison;
mod conversion;
mod convert;
mod count;
mod diff;
mod difference;
mod dump;
mod each;
mod escaped;
mod excluded;
mod explain;
mod explanation;
mod fault;
mod input;
mod io;
mod lookup;
mod missing;
mod place;
mod reach;
mod reasons;
mod row;
mod same_code;
mod stats;
mod status;
mod unwind_info;
mod verdict;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use io::{mmap, output};

/// Packs DWARF call frame information (CFI) into a .sframe unwind table,
/// reads tables back, and proves that they say what the CFI says.
#[derive(Parser, Debug)]
#[command(
    name = "cfi2sframe",
    version,
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    term_width = 100,
    after_help = HELP
)]
struct CommandLine {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    convert: convert::Arguments,
}

const HELP: &str = "\
Without a command, INPUT's CFI is converted; a summary goes to standard error.
The bytes of --section are for memory at --address, since starts are relative to their
own place; of a relocatable object they are those before relocation, and --json gives
the relocations. Without --section there is only the summary.
Addresses are decimal, or hexadecimal behind 0x.

Exit status:
  0  done; functions that the table cannot express are left out, counted, and no failure
  1  done, and something differs, is not covered, or fails the check that was asked for
     (in a conversion: --min-coverage or --verify)
  2  could not: usage, input or output, malformed input

Examples:
  cfi2sframe libfoo.so                             how large it would be, and what is left out
  cfi2sframe libfoo.so --section table --verify    write it, and prove it
  cfi2sframe foo.o --section foo.sframe --json     with its relocations
  cfi2sframe dump a.out                            the table in a.out, as readelf prints it
  cfi2sframe help verify                           more about a command";

#[derive(Subcommand, Debug)]
enum Verb {
    Dump(dump::Arguments),
    Lookup(lookup::Arguments),
    Verify(verify::Arguments),
    Diff(diff::Arguments),
    Stats(stats::Arguments),
    Explain(explain::Arguments),
    UnwindInfo(unwind_info::build::Arguments),
    Asm(asm::Arguments),
}

/// The command's definition.
pub fn command() -> clap::Command {
    CommandLine::command()
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let arguments = CommandLine::parse();
    let result = match &arguments.verb {
        None => convert::run(&arguments.convert),
        Some(Verb::Dump(arguments)) => dump::run(arguments),
        Some(Verb::Lookup(arguments)) => lookup::run(arguments),
        Some(Verb::Verify(arguments)) => verify::run(arguments),
        Some(Verb::Diff(arguments)) => diff::run(arguments),
        Some(Verb::Stats(arguments)) => stats::run(arguments),
        Some(Verb::Explain(arguments)) => explain::run(arguments),
        Some(Verb::UnwindInfo(arguments)) => unwind_info::build::run(arguments),
        Some(Verb::Asm(arguments)) => asm::run(arguments),
    };
    status::exit(result)
}
