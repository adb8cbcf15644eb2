//! Input files in memory. Regular files are mapped, so that only the pages in use are read.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use cfipack_format::widen::ToU64;

use super::signals;
use crate::report::status;

/// The bytes of a file.
#[derive(Debug)]
pub enum Bytes {
    /// A regular file.
    Mapped(memmap2::Mmap),
    /// Anything else: a pipe, an empty file.
    Read(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file, or reads from any other file.
    ///
    /// `wanted` gets the bytes that are read so far, and returns how many bytes to read in total. It is called again
    /// when that many bytes are read.
    ///
    /// # Errors
    /// A read fails, the file is a device, or a file that is not mapped has more than [`MAX_READ`] bytes.
    pub fn open(path: &Path, wanted: impl FnMut(&[u8]) -> u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() != 0 {
            return Self::map(&file, path);
        }
        // Devices may never end.
        let kind = metadata.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(io::Error::other("the input is a device, not a file or a pipe"));
        }
        Self::read(file, wanted)
    }

    /// Maps a regular file with the name `path`. An empty file is not mapped.
    pub fn map(file: &File, path: &Path) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self::Read(Vec::new()));
        }
        // SAFETY: the map is read-only, and nothing else here refers to its bytes mutably. If another process shortens
        // the file meanwhile, a read after its new end raises SIGBUS, and SIGBUS ends this process. If another process
        // rewrites the file, bytes change between two reads. No invariant of safe code depends on two reads being
        // equal: every reader checks its bounds against the map's length.
        let map = unsafe { memmap2::Mmap::map(file)? };
        let addresses = map.as_ptr_range();
        let message = format!("{}: the file became shorter while it was read", path.display());
        signals::watch_map(addresses.start as usize..addresses.end as usize, status::error_line(&message));
        Ok(Self::Mapped(map))
    }

    /// Reads as many bytes as `wanted` returns.
    fn read(mut file: File, mut wanted: impl FnMut(&[u8]) -> u64) -> io::Result<Self> {
        let mut bytes = Vec::new();
        loop {
            let before = bytes.len().to_u64();
            let more = wanted(&bytes).min(MAX_READ + 1).saturating_sub(before);
            file.by_ref().take(more).read_to_end(&mut bytes)?;
            let read = bytes.len().to_u64();
            if read > MAX_READ {
                return Err(io::Error::other(
                    "the input is longer than 1 GiB and not a regular file: save it to one",
                ));
            }
            if more == 0 || read == before {
                return Ok(Self::Read(bytes));
            }
        }
    }
}

/// At most this many bytes are read from an input that cannot be mapped and may never end, for example a pipe.
pub const MAX_READ: u64 = 1 << 30;

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}
