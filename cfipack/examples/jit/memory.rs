//! Memory for code and tables.

use std::{io, ptr, slice};

/// Pages of memory, unmapped when dropped. First deregister everything that is registered in them.
pub struct Mapping {
    start: *mut u8,
    size: usize,
}

impl Mapping {
    /// Maps at least `size` bytes that are writable and not executable.
    pub fn new(size: usize) -> io::Result<Self> {
        let size = size.next_multiple_of(4096).max(4096);
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping replaces no other.
        let start = unsafe { libc::mmap(ptr::null_mut(), size, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), size })
    }

    pub fn address(&self) -> u64 {
        self.start as u64
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Copies bytes to an offset in the mapping.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.size, "the mapping has {} bytes", self.size);
        // SAFETY: the range lies in the mapping, which is writable until `make_executable`, and has no other
        // reference.
        unsafe { slice::from_raw_parts_mut(self.start.add(offset), bytes.len()) }.copy_from_slice(bytes);
    }

    /// Makes the memory executable. After this call it is not writable.
    pub fn make_executable(&mut self) -> io::Result<()> {
        // SAFETY: the pages are this mapping's.
        match unsafe { libc::mprotect(self.start.cast(), self.size, libc::PROT_READ | libc::PROT_EXEC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the pages are this mapping's, and nothing that refers to them is left.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}
