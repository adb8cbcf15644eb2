//! `cfi2sframe`: packs DWARF call frame information into `.sframe`, reads it back and proves it.
//!
//! Arguments in, reports and files out, nothing else: one file per verb, its options and its
//! reports beside it.

mod dump;
mod input;
mod lookup;
mod mmap;
mod output;
mod row;
mod status;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use status::Status;

/// Packs DWARF call frame information (CFI) into a .sframe unwind table, reads tables back and
/// proves that they say what the CFI says.
#[derive(Parser, Debug)]
#[command(
    name = "cfi2sframe",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = HELP
)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

const HELP: &str = "\
Exit status:
  0  done
  1  done, and something differs, is not covered, or fails the check that was asked for
  2  could not: usage, input or output, malformed input";

#[derive(Subcommand, Debug)]
enum Verb {
    Dump(dump::Arguments),
    Lookup(lookup::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().verb {
        Verb::Dump(arguments) => dump::run(&arguments),
        Verb::Lookup(arguments) => lookup::run(&arguments),
    };
    status::exit(result)
}
