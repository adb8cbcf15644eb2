//! Options of the verbs that change files.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::edit::Place;
use crate::io::input::number_in;
use crate::io::original::Policy;
use crate::io::output;
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
    /// Keep the times of last access and modification
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

impl ManyFiles {
    /// Whether directories are searched.
    pub fn recursive(&self) -> bool {
        self.recursive
    }

    /// Where changed files go: to `output`, or into their own place.
    pub fn destination(
        &self,
        inputs: &[PathBuf],
        output: Option<&Path>,
        json: bool,
    ) -> anyhow::Result<Place> {
        let Some(out) = output else { return Ok(Place::Own { break_links: self.break_links }) };
        self.check_unused_for_output()?;
        let [input] = inputs else { bail!("-o: {} inputs, but one output", inputs.len()) };
        if json && output::is_standard(out) {
            bail!("-o and --json both write to standard output");
        }
        if output::is_same_file(out, input) {
            bail!("{}: -o would overwrite the input: replace it in place", input.display());
        }
        Ok(Place::Other(out.to_path_buf()))
    }

    /// A run with these options.
    pub fn run(&self, place: Place) -> Run {
        let policy = Policy { keep_times: self.preserve_dates, sync: !self.no_sync };
        Run { place, policy, jobs: self.jobs.into(), verbose: self.verbose, quiet: self.quiet, json: false }
    }

    /// Refuses options that have no effect where no file is changed.
    pub fn check_unused(&self) -> anyhow::Result<()> {
        if self.preserve_dates || self.no_sync || self.verbose || self.quiet {
            bail!("--preserve-dates, --no-sync, --verbose and --quiet: need -o or --in-place");
        }
        self.check_unused_for_output()
    }

    /// Refuses options that have no effect for one output.
    fn check_unused_for_output(&self) -> anyhow::Result<()> {
        if self.recursive || self.jobs != 1 || self.break_links {
            bail!("--recursive, --jobs and --break-links: are for files that are changed in place");
        }
        Ok(())
    }
}
