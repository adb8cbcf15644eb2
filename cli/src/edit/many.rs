//! Options of the verbs that change files.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::edit::{Found, Place, find};
use crate::io::check;
use crate::io::original::Policy;
use crate::io::spool::Spool;
use crate::io::values::number_in;
use crate::report::edits::Run;

/// Options for many files
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Options for files that are changed")]
pub struct ManyFiles {
    /// Process the files in directories; symbolic links there are not followed
    #[arg(short, long)]
    recursive: bool,
    /// Process N files at once; the order of reports does not depend on it
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true, value_parser = number_in(1..=256_u16))]
    jobs: u16,
    /// Also change files that have other names (hard links) than those given, which keep the old file
    #[arg(long)]
    break_links: bool,
    /// Keep the time of the last modification
    #[arg(short, long)]
    preserve_dates: bool,
    /// Do not wait until files are on the disk: if the machine fails, files may be empty
    #[arg(long)]
    no_sync: bool,
    /// Print a line for each file, those that are skipped too
    #[arg(short, long)]
    verbose: bool,
    /// Print warnings and errors, and no summary
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
}

/// How messages name the option of a verb that replaces files on request.
pub const IN_PLACE: &str = "--in-place";
/// How messages name the absence of `-o`, with which a verb replaces files.
pub const WITHOUT_OUTPUT: &str = "no -o";

/// The files to change.
#[derive(Debug)]
pub struct Targets {
    /// The files, and then the thin archives.
    pub found: [Vec<Found>; 2],
    /// The copy of standard input, if it is among the files. It is removed when this is dropped.
    _input: Option<Spool>,
}

impl ManyFiles {
    /// Finds the files. Standard input cannot be replaced, so it needs another destination.
    pub fn find(&self, inputs: &[PathBuf], place: &Place) -> anyhow::Result<Targets> {
        let input = Path::new("-");
        if !inputs.iter().any(|path| path == input) {
            return Ok(Targets { found: find(inputs, self.recursive), _input: None });
        }
        if matches!(place, Place::Own { .. }) {
            bail!("-: standard input cannot be replaced: write the result with -o");
        }
        let spool = Spool::read().context("-")?;
        let mut found = find(&[spool.path().to_path_buf()], false);
        for found in found.iter_mut().flatten() {
            match found {
                Found::File(target) => target.name = input.to_path_buf(),
                Found::Skipped { name, .. } | Found::Failed { name, .. } => *name = input.to_path_buf(),
            }
        }
        Ok(Targets { found, _input: Some(spool) })
    }

    /// Returns the destination of changed files: `output`, or the place of the old file if the command line has the
    /// option `in_place`.
    pub fn destination(
        &self,
        inputs: &[PathBuf],
        output: Option<&Path>,
        json: bool,
        in_place: &str,
    ) -> anyhow::Result<Place> {
        let Some(out) = output else { return Ok(Place::Own { break_links: self.break_links }) };
        self.check_unused_for_output(in_place)?;
        check::copy(out, inputs, json, in_place)?;
        Ok(Place::Other(out.to_path_buf()))
    }

    /// Creates a run with these options.
    pub fn run(&self, place: Place) -> Run {
        let policy = Policy { keep_times: self.preserve_dates, sync: !self.no_sync };
        let (json, strict) = (false, false);
        let jobs = self.jobs.into();
        Run { place, policy, jobs, verbose: self.verbose, quiet: self.quiet, json, strict }
    }

    /// Refuses options that have no effect if no file is changed.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        let options = [
            ("--preserve-dates", self.preserve_dates),
            ("--no-sync", self.no_sync),
            ("--verbose", self.verbose),
            ("--quiet", self.quiet),
        ];
        if let Some((name, _)) = options.iter().find(|(_, is_given)| *is_given) {
            bail!("{name}: needs -o or --in-place, without which no file is written");
        }
        self.check_unused_for_output(IN_PLACE)
    }

    /// Refuses options that have no effect if there is a single output.
    fn check_unused_for_output(&self, in_place: &str) -> anyhow::Result<()> {
        let options = [
            ("--recursive", self.recursive),
            ("--jobs", self.jobs != 1),
            ("--break-links", self.break_links),
        ];
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => bail!("{name}: needs {in_place}: it is for files that are changed in place"),
            None => Ok(()),
        }
    }
}
