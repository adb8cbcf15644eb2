//! Opens directories by handles. The program stays in its directory, even if the directory is replaced with a symbolic
//! link while it runs.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

/// Opens a handle that can only be used to open files below a directory. On systems that have such handles, this works
/// for directories that are not readable.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
pub(super) const PATH_ONLY: OFlags = OFlags::PATH;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
pub(super) const PATH_ONLY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// The length of the longest path that Linux takes, in bytes. It also limits the depth of a tree.
const MAX_PATH: usize = 4095;

/// How many handles stay open. Files of the same directory usually follow each other. A tree can have more directories
/// than a process can have handles.
const MAX_HANDLES: usize = 64;

/// The handles that were opened last.
static RECENT: Mutex<VecDeque<Arc<File>>> = Mutex::new(VecDeque::new());

/// Device and inode. They identify a file independently of its names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// Returns the identity of the file with this metadata.
    pub fn from_metadata(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// A directory that was opened at least once.
///
/// Each handle to it is opened from its parent directory, without following links. It is an error if a different
/// directory is there by now.
#[derive(Debug)]
pub struct Directory {
    place: Place,
    identity: Identity,
    handle: Mutex<Weak<File>>,
}

#[derive(Debug)]
enum Place {
    /// A path. Symbolic links in it are followed.
    Path(PathBuf),
    /// A name in another directory.
    Below(Arc<Directory>, OsString),
}

impl Directory {
    /// Opens the directory at a path. Symbolic links are followed.
    pub fn at(path: &Path) -> io::Result<Arc<Self>> {
        let handle = open(CWD, path.as_os_str(), OFlags::empty())?;
        Self::seen(Place::Path(path.to_path_buf()), handle)
    }

    /// Opens a directory in this directory. A symbolic link is an error. `path` is the child's path in messages.
    pub fn child(self: &Arc<Self>, name: &OsStr, path: &Path) -> io::Result<Arc<Self>> {
        if path.as_os_str().len() > MAX_PATH {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let handle = open(&*self.open()?, name, OFlags::NOFOLLOW)?;
        Self::seen(Place::Below(self.clone(), name.to_os_string()), handle)
    }

    fn seen(place: Place, handle: File) -> io::Result<Arc<Self>> {
        let identity = Identity::from_metadata(&handle.metadata()?);
        let directory = Self { place, identity, handle: Mutex::default() };
        directory.keep(handle);
        Ok(Arc::new(directory))
    }

    /// Returns the identity of the directory.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns a handle to the directory.
    ///
    /// # Errors
    /// The directory cannot be opened, or a different directory is in its place.
    pub fn open(&self) -> io::Result<Arc<File>> {
        let (mut at, mut below) = (self, Vec::new());
        let mut handle = loop {
            if let Some(handle) = lock(&at.handle).upgrade() {
                break handle;
            }
            match &at.place {
                Place::Path(path) => break at.opened(open(CWD, path.as_os_str(), OFlags::empty())?)?,
                Place::Below(parent, name) => {
                    below.push((at, name));
                    at = parent;
                }
            }
        };
        for (directory, name) in below.into_iter().rev() {
            handle = directory.opened(open(&*handle, name, OFlags::NOFOLLOW)?)?;
        }
        Ok(handle)
    }

    /// Keeps a new handle, if it leads to this directory.
    fn opened(&self, handle: File) -> io::Result<Arc<File>> {
        if Identity::from_metadata(&handle.metadata()?) != self.identity {
            return Err(io::Error::other("another process changed the directory meanwhile"));
        }
        Ok(self.keep(handle))
    }

    fn keep(&self, handle: File) -> Arc<File> {
        let handle = Arc::new(handle);
        *lock(&self.handle) = Arc::downgrade(&handle);
        let mut recent = lock(&RECENT);
        if recent.len() == MAX_HANDLES {
            recent.pop_front();
        }
        recent.push_back(handle.clone());
        handle
    }

    /// Returns the identity of the directory that a path leads to from this directory.
    ///
    /// # Errors
    /// A part of the path is a symbolic link, or no directory.
    pub fn lead(&self, path: &Path) -> io::Result<Identity> {
        let mut handle = self.open()?;
        for part in path.components() {
            handle = Arc::new(match part {
                Component::CurDir => continue,
                Component::RootDir => open(CWD, part.as_os_str(), OFlags::empty())?,
                _ => open(&*handle, part.as_os_str(), OFlags::NOFOLLOW)?,
            });
        }
        Ok(Identity::from_metadata(&handle.metadata()?))
    }

    /// Returns the sorted names in the directory with the types of the files. Links are not followed.
    pub fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let handle = self.open()?;
        let mut entries = Vec::new();
        for entry in Dir::new(readable(&handle)?)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not list the types.
                FileType::Unknown => statat(&*handle, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            entries.push((name.to_os_string(), kind));
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }
}

/// Opens a handle to a directory for reading its names and for flushing it to the disk.
pub(super) fn readable(directory: &File) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(directory, ".", flags, Mode::empty())?.into())
}

/// Opens a handle to a directory, for opening files below it.
fn open(from: impl std::os::fd::AsFd, name: &OsStr, flags: OFlags) -> io::Result<File> {
    let flags = flags | PATH_ONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(from, name, flags, Mode::empty())?.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
