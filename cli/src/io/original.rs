//! A regular file that a changed version replaces: read by a map, written piece by piece.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cfipack_edit::{Piece, Rewrite};
use cfipack_format::widen::ToU64;

use super::attributes;
use super::directory::Identity;
use super::entry::Entry;
use super::mmap::Bytes;
use super::temporary::Temporary;

/// The policy of replacing a file.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The new file has the times of the old one.
    pub keep_times: bool,
    /// `true` if it has to be on the disk before it has its name.
    pub sync: bool,
}

/// An open file.
#[derive(Debug)]
pub struct Original {
    entry: Entry,
    file: File,
    metadata: Metadata,
    bytes: Bytes,
}

/// The error about a file that is not what it was.
pub const CHANGED: &str = "another process changed the file meanwhile";

/// The outcome of replacing a file.
#[derive(Debug)]
pub struct Replaced {
    /// Warnings about what could not be kept of the old one.
    pub warnings: Vec<String>,
    /// The new file.
    pub identity: Identity,
}

/// Old bytes of this length are copied from file to file, by the kernel, which may share them.
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

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The identity of the file.
    pub fn identity(&self) -> Identity {
        Identity::of(&self.metadata)
    }

    /// The number of names (hard links) that it has.
    pub fn links(&self) -> u64 {
        self.metadata.nlink()
    }

    /// Puts a changed version into the place of the file, after `judge` has accepted it as it stands on the disk.
    /// At every moment the name has the old file or the new one.
    ///
    /// Owner, group, mode and extended attributes are those of the old file, which still has the name when the new one
    /// gets them.
    ///
    /// # Errors
    /// The file is not writable or changes meanwhile; the new one cannot be written; `judge` refuses it. The old file
    /// stays as it is.
    pub fn replace<E: From<anyhow::Error>>(
        &self,
        new: &Rewrite<'_>,
        policy: Policy,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Replaced, E> {
        self.entry.writable().map_err(anyhow::Error::from)?;
        // Until the file has its permissions, only the user has access.
        let temporary = self.written(&self.entry, 0o600, new, judge)?;
        self.check_untouched()?;
        let kept = attributes::keep(&temporary.file, &self.file, &self.metadata);
        let warnings = kept.map_err(|error| temporary.named(&error)).map_err(anyhow::Error::from)?;
        let new = temporary.file.metadata().map_err(anyhow::Error::from)?;
        self.check_untouched()?;
        self.finish(temporary, &self.entry, policy)?;
        Ok(Replaced { warnings, identity: Identity::of(&new) })
    }

    /// Gives `name`, another name of the file that has been [replaced](Self::replace), to the new one; at every moment
    /// it leads to one of them.
    ///
    /// # Errors
    /// One of the names leads elsewhere by now, or cannot be changed.
    pub fn link(&self, name: &Entry, new: Identity) -> anyhow::Result<()> {
        let now = name.metadata()?;
        if Identity::of(&now) == new {
            // The name in another spelling, where the file system takes several.
            return Ok(());
        }
        self.check_unchanged(&now)?;
        Ok(Temporary::link_beside(name, &self.entry, new)?.rename(name)?)
    }

    /// Writes a changed version to another file, which appears whole or not at all. One that exists keeps its owner,
    /// group and mode; else they are those of a new file, with the permissions of this one as far as the umask
    /// allows them.
    pub fn write_to<E: From<anyhow::Error>>(
        &self,
        target: &Path,
        new: &Rewrite<'_>,
        policy: Policy,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let target = Entry::of(target).map_err(anyhow::Error::from)?;
        let old = target.writable().map_err(anyhow::Error::from)?;
        let mode = if old.is_some() { 0o600 } else { self.metadata.mode() & 0o777 };
        let temporary = self.written(&target, mode, new, judge)?;
        let warning = match old {
            Some(old) => super::replace::keep_mode(&temporary.file, &old).map_err(anyhow::Error::from)?,
            None => None,
        };
        self.finish(temporary, &target, policy)?;
        Ok(Vec::from_iter(warning))
    }

    /// A temporary file with the changed version, which `judge` has accepted.
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

    /// Copies bytes of the file; on Linux the standard library uses `copy_file_range`.
    fn copy(&self, start: u64, len: u64, mut out: &File) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(start))?;
        if io::copy(&mut file.take(len), &mut out)? != len {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the old file became shorter"));
        }
        Ok(())
    }

    /// Refuses to replace a file if its name leads to another one by now, or if another process has changed it or what
    /// is kept of it.
    fn check_untouched(&self) -> anyhow::Result<()> {
        let changed = |file: &Metadata| (file.ctime(), file.ctime_nsec());
        if changed(&self.file.metadata()?) != changed(&self.metadata) {
            bail!(CHANGED);
        }
        self.check_unchanged(&self.entry.metadata()?)
    }

    /// Refuses to replace what is not this file as it was.
    fn check_unchanged(&self, now: &Metadata) -> anyhow::Result<()> {
        let state = |file: &Metadata| (Identity::of(file), file.len(), file.mtime(), file.mtime_nsec());
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
