//! Replaces regular files. The new file appears completely or not at all.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use super::entry::Entry;
use super::temporary::Temporary;
use crate::report::status;

/// Replaces a file.
///
/// At every moment, and after a failure of the machine, the name leads to the old file or to the new file. Owner, group
/// and mode are kept. Hard links and extended attributes are not.
///
/// # Errors
/// The old file is not writable, or the new file cannot be written. Then the old file stays as it is.
pub fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let entry = Entry::at_path(target)?;
    let old = entry.writable()?;
    // Until the file has its permissions, only the user has access.
    let mode = if old.is_some() { 0o600 } else { 0o666 };
    let mut temporary = Temporary::beside(&entry, mode)?;
    let written = temporary.file.write_all(bytes);
    let written = written.and_then(|()| match old {
        None => Ok(()),
        Some(old) => {
            if let Some(warning) = keep_mode(&temporary.file, &old)? {
                status::warn(&format_args!("{}: {warning}", target.display()));
            }
            Ok(())
        }
    });
    written.and_then(|()| temporary.file.sync_all()).map_err(|error| temporary.named(&error))?;
    temporary.rename(&entry)?;
    entry.sync_directory()
}

/// Gives a file the owner, group and mode of an old file. Returns a warning if the owner or group cannot be kept.
pub(super) fn keep_mode(file: &File, old: &Metadata) -> io::Result<Option<String>> {
    let owner = keep_owner(file, old)?;
    file.set_permissions(owner.mode)?;
    Ok(owner.warning)
}

/// The result of [`keep_owner`].
pub(super) struct Owner {
    /// The mode to set, after the owner, because a change of owner clears bits of the mode.
    pub mode: Permissions,
    /// A warning, if the owner and group could not be kept.
    pub warning: Option<String>,
}

/// Gives a file the owner and group of another file. If this is not permitted, set-user-ID and set-group-ID are removed
/// from the mode, because they were for the old owner's program.
pub(super) fn keep_owner(file: &File, old: &Metadata) -> io::Result<Owner> {
    let new = file.metadata()?;
    let mut owner = Owner { mode: Permissions::from_mode(old.mode() & 0o7777), warning: None };
    if (new.uid(), new.gid()) != (old.uid(), old.gid())
        && let Err(error) = fchown(file, Some(old.uid()), Some(old.gid()))
    {
        // The user may be a member of the group.
        let has_group = fchown(file, None, Some(old.gid())).is_ok();
        let gid = if has_group { old.gid() } else { new.gid() };
        let (old_uid, old_gid, uid) = (old.uid(), old.gid(), new.uid());
        owner.warning = Some(format!("owner and group {old_uid}:{old_gid} become {uid}:{gid}: {error}"));
        owner.mode = Permissions::from_mode(old.mode() & 0o1777);
    }
    Ok(owner)
}
