//! A regular file that a changed version replaces: read by a map, written piece by piece.

use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cfipack_container::{Piece, Rewrite};

use super::attributes;
use super::mmap::Bytes;
use super::replace::{existing, sync_directory};
use super::temporary::Temporary;

/// How a file is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The new file has the times of the old one.
    pub keep_times: bool,
    /// It is on the disk before it has its name.
    pub sync: bool,
}

/// An open file.
#[derive(Debug)]
pub struct Original {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    bytes: Bytes,
}

/// Old bytes of this length are copied from file to file, by the kernel, which may share them.
const COPIED: usize = 1 << 16;

impl Original {
    /// Opens a regular file and maps it.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let bytes = Bytes::map(&file, path)?;
        Ok(Self { path: path.to_path_buf(), file, metadata, bytes })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many names (hard links) it has.
    pub fn links(&self) -> u64 {
        self.metadata.nlink()
    }

    /// Puts a changed version into the place of the file, after `judge` has accepted it as it stands on the disk.
    /// At every moment the name has the old file or the new one.
    ///
    /// Owner, group, mode and extended attributes are those of the old file. The result is what cannot be kept.
    ///
    /// # Errors
    /// The file is not writable or changes meanwhile; the new one cannot be written; `judge` refuses it. The old file
    /// stays as it is.
    pub fn replace<E: From<anyhow::Error>>(
        &self,
        new: &Rewrite<'_>,
        policy: Policy,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        existing(&self.path).map_err(anyhow::Error::from)?;
        // Until the file has its permissions, only the user has access.
        let temporary = self.written(&self.path, 0o600, new, judge)?;
        let kept = attributes::keep(&temporary.file, &self.file, &self.metadata);
        let warnings = kept.map_err(|error| temporary.named(&error)).map_err(anyhow::Error::from)?;
        self.check_unchanged(&self.path)?;
        self.finish(temporary, &self.path, policy)?;
        Ok(warnings)
    }

    /// Gives `name`, another name of the file that has been [replaced](Self::replace), to the new one; at every moment
    /// it leads to one of them.
    ///
    /// # Errors
    /// The name leads elsewhere by now, or cannot be changed.
    pub fn link(&self, name: &Path) -> anyhow::Result<()> {
        self.check_unchanged(name)?;
        Ok(Temporary::link_beside(name, &self.path)?.rename(name)?)
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
        let old = existing(target).map_err(anyhow::Error::from)?;
        let mode = if old.is_some() { 0o600 } else { self.metadata.mode() & 0o777 };
        let temporary = self.written(target, mode, new, judge)?;
        let warning = match old {
            Some(old) => super::replace::keep_mode(&temporary.file, &old).map_err(anyhow::Error::from)?,
            None => None,
        };
        self.finish(temporary, target, policy)?;
        Ok(Vec::from_iter(warning))
    }

    /// A temporary file with the changed version, which `judge` has accepted.
    fn written<E: From<anyhow::Error>>(
        &self,
        target: &Path,
        mode: u32,
        new: &Rewrite<'_>,
        judge: impl FnOnce(&[u8]) -> Result<(), E>,
    ) -> Result<Temporary, E> {
        let temporary = Temporary::beside(target, mode).map_err(anyhow::Error::from)?;
        let written = self.write(new, &temporary.file).and_then(|()| Bytes::map(&temporary.file, target));
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
                    self.copy(range.start as u64, range.len() as u64, out)?;
                }
                Piece::Old(range) => buffered.write_all(&self.bytes[range.clone()])?,
                Piece::New { bytes, .. } => buffered.write_all(bytes)?,
                Piece::Zeros { len, .. } => {
                    io::copy(&mut io::repeat(0).take(*len as u64), &mut buffered)?;
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

    /// Refuses to replace a file if another process has replaced or changed it.
    fn check_unchanged(&self, name: &Path) -> anyhow::Result<()> {
        let identity =
            |file: &Metadata| (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec());
        let now = fs::metadata(name)?;
        if identity(&now) != identity(&self.metadata) {
            bail!("another process changed the file meanwhile");
        }
        Ok(())
    }

    fn finish(&self, temporary: Temporary, target: &Path, policy: Policy) -> anyhow::Result<()> {
        let times =
            if policy.keep_times { attributes::keep_times(&temporary.file, &self.metadata) } else { Ok(()) };
        let synced = times.and_then(|()| if policy.sync { temporary.file.sync_all() } else { Ok(()) });
        synced.map_err(|error| temporary.named(&error))?;
        temporary.rename(target)?;
        if policy.sync { sync_directory(target).context("the directory") } else { Ok(()) }
    }
}
