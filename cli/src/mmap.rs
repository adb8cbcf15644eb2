//! Files in memory: mapped, so that only the pages that are looked at are read.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file.
#[derive(Debug)]
pub enum Bytes {
    /// A regular file.
    Mapped(memmap2::Mmap),
    /// Anything else: a pipe, a device, an empty file.
    Read(Vec<u8>),
}

impl Bytes {
    /// Maps a file, or reads what cannot be mapped.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() != 0 {
            // SAFETY: the map is read-only, and nothing else here refers to its bytes mutably. If
            // another process shortens the file meanwhile, a read behind its new end kills this
            // process with SIGBUS, as it does every program that maps its input; if one rewrites
            // it, bytes change between two reads of them. No invariant of safe code hangs on two
            // reads agreeing: everything that reads them checks bounds against the map's length.
            return Ok(Self::Mapped(unsafe { memmap2::Mmap::map(&file)? }));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self::Read(bytes))
    }
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
