//! Metadata of a file, which tells whether it was written again.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Length and time of a regular file. A linker that writes the file changes one of them.
#[derive(PartialEq, Eq, Debug)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    /// The file's stamp; none if there is no file, or it is a device such as `/dev/null`.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self { len: metadata.len(), modified: metadata.modified().ok() })
    }
}
