//! `compact-unwind`: gives functions of Mach-O objects compact encodings in place of DWARF mode.

mod edit;
mod judge;
mod personalities;
mod plan;
mod report;
mod request;
mod together;

#[cfg(test)]
pub use report::SummaryJson;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use self::edit::Edited;
use self::judge::Judgement;
use self::report::Summary;
use self::request::Wishes;
use self::together::Together;
use crate::edit::many::IN_PLACE;
use crate::io::check;
use crate::io::entry::Entry;
use crate::io::original::{Original, Policy};
use crate::io::spool::Spool;
use crate::report::escaped::FileName;
use crate::report::status::{self, Status};

/// Gives functions of Mach-O objects compact encodings in place of DWARF mode
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Compilers keep DWARF mode for every personality but two, and write no row for functions
without directives. Rows in DWARF mode, and functions with an FDE and no row, get the
encoding that restores what the CFI restores, in the body of the function and at every
call, where there is one. FDEs stay in the object: ld64.lld removes those of functions with
compact rows. The price: such a row is not exact in prologues and epilogues, where the FDE
was; the summary counts these PCs. Rows that contradict the CFI, or break a rule of linkers,
are reported; --repair replaces them.

A linked file can have three personalities. --personality restricts the change to those
named, if the objects of a link have more.

Examples:
  cfi2sframe compact-unwind foo.o --dry-run              what would change, and why the rest stays
  cfi2sframe compact-unwind libfoo.a -o libfoo-small.a
  cfi2sframe compact-unwind --in-place *.o --personality _rust_eh_personality")]
pub struct Arguments {
    /// Mach-O objects for x86-64 or arm64, archives of them, and fat files of either
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the changed file to OUT
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["in_place", "dry_run"])]
    output: Option<PathBuf>,
    /// Replace each FILE
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Also replace files that have other names (hard links), which keep the old file
    #[arg(long, requires = "in_place")]
    break_links: bool,
    /// Write nothing
    #[arg(long, conflicts_with_all = ["output", "in_place"])]
    dry_run: bool,
    /// Leave functions with other personalities than SYMBOL in DWARF mode; may be repeated
    #[arg(long, value_name = "SYMBOL")]
    personality: Vec<String>,
    /// Replace rows that contradict the CFI or break a rule, by a right encoding or by DWARF mode
    #[arg(long)]
    repair: bool,
    /// Print the summary as JSON on standard output, one object for each file, one per line
    #[arg(long)]
    json: bool,
}

/// Changes every file. After a failure, the file stays as it is, and the next file is changed.
pub fn run(arguments: &Arguments) -> anyhow::Result<Status> {
    if let Some(output) = &arguments.output {
        check::copy(output, &arguments.files, arguments.json, IN_PLACE)?;
    }
    let (mut worst, mut together) = (Status::Done, Together::default());
    for path in &arguments.files {
        match change(path, arguments, &mut together) {
            Ok(status) => worst = worst.max(status),
            Err(error) if status::is_broken_pipe(&error) => return Ok(worst),
            Err(error) => {
                status::report_error(&format_args!("{error:#}"));
                worst = Status::Failed;
            }
        }
    }
    together.warn(&arguments.personality);
    Ok(worst)
}

fn change(path: &Path, arguments: &Arguments, together: &mut Together) -> anyhow::Result<Status> {
    let name = || path.display().to_string();
    let is_input = path == Path::new("-");
    if is_input && arguments.in_place {
        bail!("-: standard input cannot be replaced: write the result with -o");
    }
    let spool = is_input.then(Spool::read).transpose().with_context(name)?;
    let opened = spool.as_ref().map_or(path, Spool::path);
    let original = Entry::followed(opened).and_then(Original::open).with_context(name)?;
    let old = original.bytes();
    let wishes = Wishes { personalities: &arguments.personality, repair: arguments.repair };
    let edited = Edited::new(old, wishes, together.objects).with_context(name)?;
    let new = &edited.rewrite;
    let mut judgement = Judgement::default();
    let mut judge = |bytes: &[u8]| {
        judgement = Judgement::of(old, bytes)?;
        anyhow::Ok(())
    };
    let policy = Policy { keep_times: false, sync: true };
    let written = match &arguments.output {
        Some(output) => original.write_to(output, new, policy, judge),
        // A second run changes nothing, not even the file's date.
        None if arguments.in_place && !new.is_unchanged(old) => check_links(&original, arguments)
            .and_then(|()| Ok(original.replace(new, policy, judge)?.warnings)),
        None => judge(&new.to_vec(old)).map(|()| Vec::new()),
    };
    for warning in written.with_context(name)? {
        status::warn(&format_args!("{}: {warning}", path.display()));
    }
    together.absorb(&edited.objects);
    let status = Status::differs_if(judgement.is_faulty);
    let name = FileName::of_path(path);
    let summary = Summary { name, edited: &edited, judgement: &judgement, old_len: old.len() };
    status::judged(status, if arguments.json { summary.print_json() } else { summary.print() })
}

fn check_links(original: &Original, arguments: &Arguments) -> anyhow::Result<()> {
    let names = original.links();
    if names > 1 && !arguments.break_links {
        bail!("the file has {names} names (hard links); with --break-links the others keep the old file");
    }
    Ok(())
}
