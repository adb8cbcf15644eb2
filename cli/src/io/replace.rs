//! Regular files that are written as a whole or not at all.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use super::temporary::Temporary;
use crate::status;

/// Writes a file, in place of what has its name: at every moment there is the old one or the new one, after a
/// failure of the machine too. Owner, group and mode stay; hard links and extended attributes do not.
///
/// # Errors
/// The file may not be written, or the new one cannot be: the old one stays as it is.
pub fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let old = existing(target)?;
    // Until its permissions are known, the file is the user's alone.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let mut temporary = Temporary::beside(target, mode)?;
    let written = temporary.file.write_all(bytes);
    let written = written.and_then(|()| old.map_or(Ok(()), |old| keep(&temporary.file, &old, target)));
    written.and_then(|()| temporary.file.sync_all()).map_err(|error| temporary.named(&error))?;
    temporary.rename(target)?;
    sync_directory(target)
}

/// The file that is there already, if it may be written: a directory's permission to rename is not the file's to be written.
fn existing(target: &Path) -> io::Result<Option<Metadata>> {
    match OpenOptions::new().write(true).open(target) {
        Ok(file) => file.metadata().map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory(target).metadata().map(|_| None),
        // A program that runs may not be written, but replaced.
        Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => target.metadata().map(Some),
        Err(error) => Err(error),
    }
}

/// Gives a file the owner, the group and the mode of another; warns where the owner or the group must change.
fn keep(file: &File, old: &Metadata, target: &Path) -> io::Result<()> {
    let new = file.metadata()?;
    let mut mode = old.mode() & 0o7777;
    if (new.uid(), new.gid()) != (old.uid(), old.gid())
        && let Err(error) = fchown(file, Some(old.uid()), Some(old.gid()))
    {
        // The group alone may be one of the user's.
        let has_group = fchown(file, None, Some(old.gid())).is_ok();
        let gid = if has_group { old.gid() } else { new.gid() };
        status::warn(&format_args!(
            "{}: owner and group {}:{} become {}:{gid}: {error}",
            target.display(),
            old.uid(),
            old.gid(),
            new.uid(),
        ));
        // Set-user-ID and set-group-ID are for the old owner's program.
        mode &= 0o1777;
    }
    // After the owner, whose change takes bits from the mode.
    file.set_permissions(Permissions::from_mode(mode))
}

fn directory(target: &Path) -> &Path {
    target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

/// Has the directory of a file written to its disk, and with it the file's name.
fn sync_directory(target: &Path) -> io::Result<()> {
    // One that may be written but not read cannot be opened.
    let Ok(directory) = File::open(directory(target)) else { return Ok(()) };
    match directory.sync_all() {
        // Some file systems cannot.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        result => result,
    }
}
