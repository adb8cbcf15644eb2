//! `cfi2sframe`: the command that converts DWARF call frame information to `.sframe`, reads tables and verifies them.
//!
//! The command turns arguments into reports and files. The libraries do the rest.
//!
//! - `verbs/` has a folder or a file for each verb, with its options. No verb calls another verb.
//! - `report/` prints text and JSON, and `instructions/` prints a function's code beside its rows.
//! - `io/` reads and writes files.
//! - `edit/` finds and replaces many files. The verbs that change files use it.
//! - `conversion`, `synthesized`, `kept` and `unjudged` build `.sframe` sections in memory by `table_options`, and
//!   `compact/` builds `__unwind_info`.
//! - `ld/` is the second command, `cfi2sframe-ld`, which runs a linker.
//!
//! This is a library only so that the example `manual` can read the command's definition. The example writes man pages
//! and shell completions. If you want to use a library, take `cfipack`.

mod compact;
mod conversion;
mod edit;
mod instructions;
mod io;
mod kept;
pub mod ld;
mod missing;
mod report;
mod synthesized;
mod table_options;
mod unjudged;
mod verbs;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use report::status::{self, Status};
use verbs::{
    annotate, compact_unwind, convert, diff, dump, explain, gaps, lint, lookup, merge, stats, strip,
    unwind_info, verify,
};

/// Converts DWARF call frame information (CFI) to a .sframe unwind table,
/// reads tables back, and verifies them against the CFI.
#[derive(Parser, Debug)]
#[command(
    name = "cfi2sframe",
    version,
    verbatim_doc_comment,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    term_width = 100
)]
struct CommandLine {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    convert: convert::Arguments,
}

const HELP: &str = "\
Without a command, cfi2sframe converts INPUT's CFI and prints a summary to standard error.
-o writes a copy of INPUT with the table in it, --in-place puts tables into files; both read the
new file back, verify its table and check its structure before it has its name.
--section writes the table alone, for memory at --address, because starts of functions are relative
to their fields; for a relocatable object it writes the bytes before relocation, and --json
lists the relocations. Without -o, --in-place and --section, only the summary is printed.
Several INPUTs have a summary each; --section takes one.
Every command reads all architectures of a fat Mach-O file, one after the other, and diff compares
like with like; --arch selects one, which --section and a table in another file need. Files that
are changed keep all of their architectures.
Addresses are decimal, or hexadecimal with the prefix 0x. An input - is standard input.";

const EXAMPLES: &str = "\
Examples:
  cfi2sframe libfoo.so                             the table's size, and what it omits
  cfi2sframe libfoo.so -o libfoo.new.so            the library with its table
  cfi2sframe --in-place -r --jobs 4 build-root     tables into all programs, libraries and objects
  cfi2sframe libfoo.so --section table --verify    write the table and verify it
  cfi2sframe foo.o --section foo.sframe --json     write the table and list its relocations
  cfi2sframe dump a.out                            the table in a.out, as readelf prints it
  cfi2sframe help verify                           the options of a command";

/// The text at the end of the help that `-h` prints.
const SHORT_HELP: &str = "\
Examples:
  cfi2sframe libfoo.so                             the table's size, and what it omits
  cfi2sframe libfoo.so -o libfoo.new.so            the library with its table
  cfi2sframe verify libfoo.new.so                  its table against its CFI
  cfi2sframe dump libfoo.new.so                    the table, as readelf prints it

--help lists all options of the conversion; cfi2sframe help COMMAND those of a command.";

/// The options that `-h` lists.
const SHORT_OPTIONS: [&str; 7] = ["inputs", "output", "in_place", "section", "consumer", "verify", "json"];

#[derive(Subcommand, Debug)]
enum Verb {
    Dump(dump::Arguments),
    Lookup(lookup::Arguments),
    Verify(verify::Arguments),
    Diff(diff::Arguments),
    Stats(stats::Arguments),
    Explain(explain::Arguments),
    Merge(merge::Arguments),
    Strip(strip::Arguments),
    Gaps(gaps::Arguments),
    Lint(lint::Arguments),
    UnwindInfo(unwind_info::Arguments),
    Annotate(annotate::Arguments),
    CompactUnwind(compact_unwind::Arguments),
}

/// Returns the command's definition with all of its help.
pub fn command() -> clap::Command {
    let help = format!("{HELP}\n\n{}\n\n{EXAMPLES}", status::table());
    let mut command = CommandLine::command().after_help(help);
    for verb in command.get_subcommands_mut() {
        let Some(status) = status::difference(verb.get_name()) else { continue };
        let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        *verb = std::mem::take(verb).after_help(format!("{help}\n\n{status}"));
    }
    command
}

/// Returns the command's definition with the help of `-h`. clap's own short help would change the form of `--help`.
fn command_with_short_help() -> clap::Command {
    command().after_help(SHORT_HELP).mut_args(|option| {
        let is_shown = SHORT_OPTIONS.contains(&option.get_id().as_str());
        option.hide(!is_shown)
    })
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let has = |wanted: &str| std::env::args_os().any(|argument| argument == wanted);
    let command = if has("-h") {
        command_with_short_help()
    } else if has("--help") || has("help") || std::env::args_os().len() < 2 {
        command()
    } else {
        // The texts of the help take longer than some commands.
        CommandLine::command()
    };
    let arguments = CommandLine::from_arg_matches(&command.get_matches());
    status::exit(run(&arguments.unwrap_or_else(|error| error.exit())))
}

fn run(arguments: &CommandLine) -> anyhow::Result<Status> {
    match &arguments.verb {
        None => convert::run(&arguments.convert),
        Some(Verb::Dump(arguments)) => dump::run(arguments),
        Some(Verb::Lookup(arguments)) => lookup::run(arguments),
        Some(Verb::Verify(arguments)) => verify::run(arguments),
        Some(Verb::Diff(arguments)) => diff::run(arguments),
        Some(Verb::Stats(arguments)) => stats::run(arguments),
        Some(Verb::Explain(arguments)) => explain::run(arguments),
        Some(Verb::Strip(arguments)) => strip::run(arguments),
        Some(Verb::Merge(arguments)) => merge::run(arguments),
        Some(Verb::Gaps(arguments)) => gaps::run(arguments),
        Some(Verb::Lint(arguments)) => lint::run(arguments),
        Some(Verb::UnwindInfo(arguments)) => unwind_info::run(arguments),
        Some(Verb::Annotate(arguments)) => annotate::run(arguments),
        Some(Verb::CompactUnwind(arguments)) => compact_unwind::run(arguments),
    }
}
