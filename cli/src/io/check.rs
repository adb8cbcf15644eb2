//! Checks the paths on a command line, before any work is done.

use std::path::Path;

use anyhow::bail;

use super::destination::Destination;

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
