//! Standard input as a file, for verbs that copy parts of their input by their offsets.

use std::fs::Permissions;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::entry::Entry;
use super::mmap::MAX_READ;
use super::temporary::Temporary;

/// A copy of standard input in a file. The file is removed when this value is dropped.
#[derive(Debug)]
pub struct Spool(Temporary);

impl Spool {
    /// Copies all of standard input into a temporary file.
    ///
    /// # Errors
    /// Standard input has more than [`MAX_READ`] bytes, or they do not fit into the directory of temporary files.
    pub fn read() -> io::Result<Self> {
        let mut temporary = Temporary::beside(&Entry::at_path(&std::env::temp_dir().join("input"))?, 0o600)?;
        let read = io::copy(&mut io::stdin().lock().take(MAX_READ + 1), &mut temporary.file)?;
        if read > MAX_READ {
            return Err(io::Error::other("standard input is longer than 1 GiB: save it to a file"));
        }
        // The mode of a new file, before the umask.
        temporary.file.set_permissions(Permissions::from_mode(0o666))?;
        Ok(Self(temporary))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}
