//! Walks through a tree of directories, by their handles. Symbolic links are not followed, even if another process
//! creates them meanwhile.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;

use super::problem::Skip;
use crate::io::directory::{Directory, Identity};
use crate::io::entry::Location;

/// The directories that were searched.
pub type Searched = HashMap<Identity, Arc<Directory>>;

/// An entry that a walk meets.
#[derive(Debug)]
pub enum Seen {
    /// A regular file.
    File(Location),
    /// Something else.
    Skipped(PathBuf, Skip),
    /// An entry that cannot be read.
    Failed(PathBuf, io::Error),
}

/// Walks through a directory and all directories below it, in order of names. Calls `visit` for everything that is no
/// directory.
///
/// Directories that are in `searched` are skipped. All other directories are added to `searched`.
pub fn walk(path: &Path, searched: &mut Searched, mut visit: impl FnMut(Seen)) {
    let mut levels = Vec::new();
    match Directory::at(path).and_then(|directory| level(directory, path, searched)) {
        Ok(level) => levels.extend(level),
        Err(error) => visit(Seen::Failed(path.to_path_buf(), error)),
    }
    while let Some(Level { directory, path, entries }) = levels.last_mut() {
        let Some((name, kind)) = entries.next() else {
            levels.pop();
            continue;
        };
        let path = path.join(&name);
        if kind.is_dir() {
            let child = directory.child(&name, &path);
            match child.and_then(|child| level(child, &path, searched)) {
                Ok(below) => levels.extend(below),
                Err(error) => visit(Seen::Failed(path, error)),
            }
            continue;
        }
        visit(match kind {
            _ if kind.is_file() => Seen::File(Location::new(directory.clone(), path)),
            _ if kind.is_symlink() => Seen::Skipped(path, Skip::SymbolicLink),
            // Another process has removed the entry.
            FileType::Unknown => Seen::Failed(path, io::ErrorKind::NotFound.into()),
            _ => Seen::Skipped(path, Skip::Special),
        });
    }
}

/// A directory on the way down, with the entries that are not visited yet.
struct Level {
    directory: Arc<Directory>,
    path: PathBuf,
    entries: std::vec::IntoIter<(std::ffi::OsString, FileType)>,
}

/// Opens a directory for the walk, or returns `None` if it was searched before.
fn level(directory: Arc<Directory>, path: &Path, searched: &mut Searched) -> io::Result<Option<Level>> {
    if searched.insert(directory.identity(), directory.clone()).is_some() {
        return Ok(None);
    }
    let entries = directory.entries()?.into_iter();
    Ok(Some(Level { directory, path: path.to_path_buf(), entries }))
}
