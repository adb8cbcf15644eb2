//! Writes a file for perf, which reads it after the process has ended.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{io, process, ptr};

use cfipack::assembler::region::Region;
use cfipack::assembler::region::jitdump::{self, Event, Function, Options};
use cfipack::format::Arch;

/// The open file `jit-PID.dump`.
pub struct Dump {
    file: File,
    mark: *mut libc::c_void,
    functions: u64,
}

const PAGE: usize = 4096;

impl Dump {
    /// Creates the file in a directory. Call this before you write the first function.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let path = directory.join(format!("jit-{}.dump", process::id()));
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.write_all(&jitdump::header(Arch::Amd64, process::id(), now()))?;
        // perf finds the file because it records that the file was mapped as executable.
        let (access, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
        // SAFETY: a new mapping replaces no other.
        let mark = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, private, file.as_raw_fd(), 0) };
        if mark == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { file, mark, functions: 0 })
    }

    /// Writes the functions of a region. `code` is the region's code.
    pub fn write(&mut self, region: &Region, code: &[u8]) -> Result<(), Box<dyn Error>> {
        for (index, (_, start, size)) in region.functions().enumerate() {
            let offset = (start.0 - region.base().0) as usize;
            // SAFETY: a system call without arguments.
            let tid = unsafe { libc::gettid() } as u32;
            let event = Event { pid: process::id(), tid, time: now(), code_index: self.functions };
            let function = Function::new(region, index, Options::new())?;
            self.file.write_all(&function.records(&code[offset..][..size as usize], event)?)?;
            self.functions += 1;
        }
        Ok(())
    }
}

impl Drop for Dump {
    fn drop(&mut self) {
        // perf also reads a file without its last record.
        let _ = self.file.write_all(&jitdump::close(Arch::Amd64, now()));
        // SAFETY: the mapping belongs to this value.
        unsafe { libc::munmap(self.mark, PAGE) };
    }
}

/// The clock of `perf record -k mono`, in nanoseconds.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
