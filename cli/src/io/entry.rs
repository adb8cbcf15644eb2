//! Names in directories. All operations on a name happen in the directory that was found, even if its path changes
//! meanwhile.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Mode, OFlags, RawMode, accessat, linkat, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Identity, PATH_ONLY, readable};

/// A name in a directory that is opened when it is needed.
#[derive(Clone, Debug)]
pub struct Location {
    directory: Arc<Directory>,
    path: PathBuf,
}

impl Location {
    /// Creates a location: the last name of `path`, in a directory.
    pub fn new(directory: Arc<Directory>, path: PathBuf) -> Self {
        Self { directory, path }
    }

    /// Returns the path, as messages name it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the directory's identity and the name. They are the same for every path that leads to this entry.
    pub fn key(&self) -> io::Result<(Identity, OsString)> {
        Ok((self.directory.identity(), last_name(&self.path)?))
    }

    /// Opens the directory, and returns the name in it.
    ///
    /// # Errors
    /// The directory cannot be opened, or another directory is in its place.
    pub fn entry(&self) -> io::Result<Entry> {
        let (directory, name) = (self.directory.open()?, last_name(&self.path)?);
        Ok(Entry { directory, name, path: self.path.clone() })
    }
}

/// A name in an open directory. None of its functions follows a symbolic link.
#[derive(Clone, Debug)]
pub struct Entry {
    directory: Arc<File>,
    name: OsString,
    path: PathBuf,
}

impl Entry {
    /// Opens the directory of a path, and returns the path's last name in it.
    pub fn at_path(path: &Path) -> io::Result<Self> {
        Location::new(Directory::at(directory_of(path))?, path.to_path_buf()).entry()
    }

    /// Follows the symbolic links of a path, and returns the name of the file that it leads to.
    pub fn followed(path: &Path) -> io::Result<Self> {
        if path.is_symlink() { Self::at_path(&fs::canonicalize(path)?) } else { Self::at_path(path) }
    }

    /// Returns another name in the same directory.
    pub fn sibling(&self, name: &str) -> Self {
        let (directory, path) = (self.directory.clone(), self.path.with_file_name(name));
        Self { directory, name: name.into(), path }
    }

    /// Returns the path, as messages name it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory's descriptor and the name. The descriptor is valid as long as this entry or a clone of it.
    pub fn raw(&self) -> io::Result<(RawFd, CString)> {
        Ok((self.directory.as_raw_fd(), CString::new(self.name.as_bytes())?))
    }

    /// Opens the file for reading.
    pub fn open(&self) -> io::Result<File> {
        self.open_with(OFlags::RDONLY, Mode::empty())
    }

    /// Creates a file with this name for reading and writing. The name must be free. The umask is applied to `mode`.
    pub fn create(&self, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.open_with(flags, Mode::from_raw_mode(mode as RawMode))
    }

    /// Returns the metadata of the file that the name leads to.
    pub fn metadata(&self) -> io::Result<Metadata> {
        let metadata = self.open_with(PATH_ONLY, Mode::empty())?.metadata()?;
        if metadata.is_symlink() { Err(not_followed()) } else { Ok(metadata) }
    }

    /// Returns the metadata of the file, or `None` if there is no file. It is an error if the file is not writable,
    /// even if it could be renamed.
    ///
    /// This function does not open the file, because overlayfs would make a copy of it with new times.
    pub fn writable(&self) -> io::Result<Option<Metadata>> {
        let flags = AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW;
        match accessat(&*self.directory, &*self.name, Access::WRITE_OK, flags) {
            Ok(()) => self.metadata().map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the file another name too.
    pub fn link(&self, new: &Self) -> io::Result<()> {
        Ok(linkat(&*self.directory, &*self.name, &*new.directory, &*new.name, AtFlags::empty())?)
    }

    /// Gives the file another name, and replaces the file that has it.
    pub fn rename(&self, new: &Self) -> io::Result<()> {
        Ok(renameat(&*self.directory, &*self.name, &*new.directory, &*new.name)?)
    }

    /// Removes the name.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&*self.directory, &*self.name, AtFlags::empty())?)
    }

    /// Flushes the directory, and with it the name, to the disk.
    pub fn sync_directory(&self) -> io::Result<()> {
        // A directory that is not readable cannot be opened.
        let Ok(directory) = readable(&self.directory) else { return Ok(()) };
        match directory.sync_all() {
            // Some file systems do not support it.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            result => result,
        }
    }

    fn open_with(&self, flags: OFlags, mode: Mode) -> io::Result<File> {
        // If a FIFO has replaced the file, do not wait for a writer.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(&*self.directory, &*self.name, flags, mode) {
            Ok(file) => Ok(file.into()),
            Err(Errno::LOOP) => Err(not_followed()),
            Err(error) => Err(error.into()),
        }
    }
}

fn not_followed() -> io::Error {
    io::Error::other("a symbolic link, which is not followed")
}

/// Returns the directory of a path.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."))
}

fn last_name(path: &Path) -> io::Result<OsString> {
    let name = path.file_name().filter(|_| !path.as_os_str().as_bytes().ends_with(b"/"));
    name.map(OsStr::to_os_string).ok_or_else(|| io::ErrorKind::NotADirectory.into())
}
