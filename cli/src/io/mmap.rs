//! Files in memory: mapped, so that only the pages that are looked at are read.

#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

use super::signals;
use crate::status;

/// The bytes of a file.
#[derive(Debug)]
pub enum Bytes {
    /// A regular file.
    Mapped(memmap2::Mmap),
    /// Anything else: a pipe, an empty file.
    Read(Vec<u8>),
}

impl Bytes {
    /// Maps a file, or reads what cannot be mapped: to its end only if `is_known` says of its first 8 bytes that
    /// somebody can read it.
    pub fn open(path: &Path, is_known: impl FnOnce(&[u8]) -> bool) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() != 0 {
            // SAFETY: the map is read-only, and nothing else here refers to its bytes mutably. If
            // another process shortens the file meanwhile, a read behind its new end raises SIGBUS,
            // which ends this process; if one rewrites it, bytes change between two reads of them.
            // No invariant of safe code hangs on two reads agreeing: everything that reads them
            // checks bounds against the map's length.
            let map = unsafe { memmap2::Mmap::map(&file)? };
            let addresses = map.as_ptr_range();
            let message = format!("{}: the file became shorter while it was read", path.display());
            signals::watch_map(
                addresses.start as usize..addresses.end as usize,
                status::error_line(&message),
            );
            return Ok(Self::Mapped(map));
        }
        if is_device(&metadata) {
            return Err(io::Error::other("a device, not a file or a pipe"));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut bytes)?;
        // A pipe need not end: of what nobody can read, these bytes are enough for the error.
        if is_known(&bytes) {
            file.read_to_end(&mut bytes)?;
        }
        Ok(Self::Read(bytes))
    }
}

/// As many bytes as say what a file is.
const HEAD: u64 = 8;

/// Whether it is a terminal, a disk, or one of those that never end.
#[cfg(unix)]
fn is_device(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &Metadata) -> bool {
    false
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}
