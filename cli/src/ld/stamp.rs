//! Tells whether a file was written again.

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
    /// Returns the file's stamp, or `None` if it is no regular file (for example `/dev/null`) or does not exist.
    pub fn read(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Self { len: metadata.len(), modified: metadata.modified().ok() })
    }
}
