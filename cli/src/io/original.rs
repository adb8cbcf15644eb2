//! Replaces a regular file with a changed version. The old file is mapped, and the new file is written piece by piece.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cfipack_edit::{Piece, Rewrite};
use cfipack_format::widen::ToU64;

use super::attributes;
use super::destination::Destination;
use super::directory::Identity;
use super::entry::Entry;
use super::mmap::Bytes;
use super::output;
use super::temporary::Temporary;

/// How a file is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// True if the new file keeps the times of the old file.
    pub keep_times: bool,
    /// True if the new file has to be on the disk before it gets its name.
    pub sync: bool,
}

/// The open old file.
#[derive(Debug)]
pub struct Original {
    entry: Entry,
    file: File,
    metadata: Metadata,
    bytes: Bytes,
}

/// The error if another process changed or replaced the file.
pub const CHANGED: &str = "another process changed the file meanwhile";

/// The outcome of replacing a file.
#[derive(Debug)]
pub struct Replaced {
    /// Warnings about attributes of the old file that could not be kept.
    pub warnings: Vec<String>,
    /// The new file.
    pub identity: Identity,
}

/// The kernel copies pieces of at least this many old bytes from file to file. It may let both files share blocks.
const COPIED: usize = 1 << 16;

impl Original {
    /// Opens a regular file and maps it.
    pub fn open(entry: Entry) -> io::Result<Self> {
        let file = entry.open()?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let bytes = Bytes::map(&file, entry.path())?;
        Ok(Self { entry, file, metadata, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn identity(&self) -> Identity {
        Identity::from_metadata(&self.metadata)
    }

    /// Returns the number of names (hard links) of the file.
    pub fn links(&self) -> u64 {
        self.metadata.nlink()
    }

    /// Replaces the file with a changed version, after `judge` has accepted the new file's bytes.
    ///
    /// At every moment the name leads to the old file or to the new file. The new file gets the owner, group, mode and
    /// extended attributes of the old file before it gets the name.
    ///
    /// # Errors
    /// The file is not writable, it changes meanwhile, the new file cannot be written, or `judge` refuses it. Then the
    /// old file stays as it is.
    pub fn replace<E: From<anyhow::Error>>(
        &self,
        new: &Rewrite<'_>,
        policy: Policy,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Replaced, E> {
        self.entry.writable().map_err(anyhow::Error::from)?;
        // Until the new file has its permissions, only the user has access.
        let temporary = self.written(&self.entry, 0o600, new, judge)?;
        self.check_untouched()?;
        let kept = attributes::keep(&temporary.file, &self.file, &self.metadata);
        let warnings = kept.map_err(|error| temporary.named(&error)).map_err(anyhow::Error::from)?;
        let new = temporary.file.metadata().map_err(anyhow::Error::from)?;
        self.check_untouched()?;
        self.finish(temporary, &self.entry, policy)?;
        Ok(Replaced { warnings, identity: Identity::from_metadata(&new) })
    }

    /// Gives another name of a [replaced](Self::replace) file to the new file.
    ///
    /// `name` is a hard link to the old file. At every moment it leads to the old file or to the new file.
    ///
    /// # Errors
    /// A name leads to a different file by now, or cannot be changed.
    pub fn link(&self, name: &Entry, new: Identity) -> anyhow::Result<()> {
        let now = name.metadata()?;
        if Identity::from_metadata(&now) == new {
            // Some file systems take several spellings of a name, so this name is already changed.
            return Ok(());
        }
        self.check_unchanged(&now)?;
        Ok(Temporary::link_beside(name, &self.entry, new)?.rename(name)?)
    }

    /// Writes a changed version to an output, after `judge` has accepted its bytes. A file appears completely or not at
    /// all.
    ///
    /// If the target exists, it keeps its owner, group and mode. A new file gets the permissions of this file, as far
    /// as the umask allows them. Returns warnings about attributes that could not be kept.
    pub fn write_to<E: From<anyhow::Error>>(
        &self,
        output: &Path,
        new: &Rewrite<'_>,
        policy: Policy,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let Destination::File(target) = Destination::resolve(output) else {
            let bytes = new.to_vec(self.bytes());
            judge(&bytes)?;
            output::binary(output, &bytes)?;
            return Ok(Vec::new());
        };
        // The caller names the input in errors.
        let name = || target.display().to_string();
        let entry = Entry::at_path(&target).with_context(name)?;
        let old = entry.writable().with_context(name)?;
        let target = entry;
        let mode = if old.is_some() { 0o600 } else { self.metadata.mode() & 0o777 };
        let temporary = self.written(&target, mode, new, judge)?;
        let warning = match old {
            Some(old) => super::replace::keep_mode(&temporary.file, &old).map_err(anyhow::Error::from)?,
            None => None,
        };
        self.finish(temporary, &target, policy)?;
        Ok(Vec::from_iter(warning))
    }

    /// Writes the changed version to a temporary file, and lets `judge` check it.
    fn written<E: From<anyhow::Error>>(
        &self,
        target: &Entry,
        mode: u32,
        new: &Rewrite<'_>,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Temporary, E> {
        let temporary = Temporary::beside(target, mode).map_err(anyhow::Error::from)?;
        let written =
            self.write(new, &temporary.file).and_then(|()| Bytes::map(&temporary.file, target.path()));
        let bytes = written.map_err(|error| temporary.named(&error)).map_err(anyhow::Error::from)?;
        judge(&bytes)?;
        Ok(temporary)
    }

    /// Writes the pieces of a changed version.
    pub fn write(&self, new: &Rewrite<'_>, out: &File) -> io::Result<()> {
        let mut buffered = BufWriter::with_capacity(COPIED, out);
        for (_, piece) in new.pieces() {
            match piece {
                Piece::Old(range) if range.len() >= COPIED => {
                    buffered.flush()?;
                    self.copy(range.start.to_u64(), range.len().to_u64(), out)?;
                }
                Piece::Old(range) => buffered.write_all(&self.bytes[range.clone()])?,
                Piece::New { bytes, .. } => buffered.write_all(bytes)?,
                Piece::Zeros { len, .. } => {
                    io::copy(&mut io::repeat(0).take((*len).to_u64()), &mut buffered)?;
                }
                _ => return Err(io::Error::other("a piece of an unknown kind")),
            }
        }
        buffered.flush()
    }

    /// Copies bytes of the file to another file. On Linux the standard library uses `copy_file_range`.
    fn copy(&self, start: u64, len: u64, mut out: &File) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        if io::copy(&mut file.take(len), &mut out)? != len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the old file became shorter"));
        }
        Ok(())
    }

    /// Refuses to replace the file if its name leads to a different file by now, or if another process has changed its
    /// bytes or attributes.
    fn check_untouched(&self) -> anyhow::Result<()> {
        let now = self.file.metadata()?;
        if (now.ctime(), now.ctime_nsec()) != (self.metadata.ctime(), self.metadata.ctime_nsec()) {
            bail!(CHANGED);
        }
        self.check_unchanged(&self.entry.metadata()?)
    }

    /// Fails if `now` is not the metadata of this file, or if the file has changed.
    fn check_unchanged(&self, now: &Metadata) -> anyhow::Result<()> {
        let state =
            |file: &Metadata| (Identity::from_metadata(file), file.len(), file.mtime(), file.mtime_nsec());
        if state(now) != state(&self.metadata) {
            bail!(CHANGED);
        }
        Ok(())
    }

    fn finish(&self, temporary: Temporary, target: &Entry, policy: Policy) -> anyhow::Result<()> {
        let times =
            if policy.keep_times { attributes::keep_times(&temporary.file, &self.metadata) } else { Ok(()) };
        let synced = times.and_then(|()| if policy.sync { temporary.file.sync_all() } else { Ok(()) });
        synced.map_err(|error| temporary.named(&error))?;
        temporary.rename(target)?;
        if policy.sync { target.sync_directory().context("the directory") } else { Ok(()) }
    }
}
