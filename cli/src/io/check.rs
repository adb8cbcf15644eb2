//! Checks the paths on a command line, before any work is done.

use std::path::{Path, PathBuf};

use anyhow::bail;

use super::destination::Destination;
use super::output;

/// Refuses an output that cannot be written: a directory, a file in no directory, or a loop of symbolic links.
pub fn output(path: &Path) -> anyhow::Result<()> {
    let target = match Destination::resolve(path) {
        Destination::File(target) if target.is_symlink() => {
            bail!("{}: a symbolic link that leads to itself; the output is a file", path.display())
        }
        Destination::File(target) => target,
        Destination::Special(target) if target.is_dir() => {
            bail!("{}: a directory; the output is a file", path.display())
        }
        Destination::Special(_) | Destination::Descriptor(_) => return Ok(()),
    };
    if let Some(directory) = target.parent().filter(|parent| *parent != Path::new(""))
        && !directory.exists()
    {
        bail!("{}: there is no directory {}", path.display(), directory.display());
    }
    Ok(())
}

/// Refuses an output that cannot be written, that is one of the inputs, or that is standard output where the JSON goes.
/// `option` is the option that names the output, and `way_out` ends the message about an input.
pub fn written<'p>(
    option: &str,
    path: &Path,
    inputs: impl IntoIterator<Item = &'p PathBuf>,
    json: bool,
    way_out: &str,
) -> anyhow::Result<()> {
    if json && output::is_standard(path) {
        bail!("{option} and --json both write to standard output");
    }
    if let Some(input) = inputs.into_iter().find(|input| output::is_same_file(path, input)) {
        bail!("{}: {option} would overwrite the input{way_out}", input.display());
    }
    output(path)
}

/// Refuses an output `-o` of a verb that changes a file, if it cannot be written or is not for a single other file.
/// `in_place` is how messages name the way to change each input.
pub fn copy(path: &Path, inputs: &[PathBuf], json: bool, in_place: &str) -> anyhow::Result<()> {
    if inputs.len() != 1 {
        bail!("-o: {} inputs, but one output: {in_place} changes each", inputs.len())
    }
    written("-o", path, inputs, json, &format!(": replace it in place ({in_place})"))
}
