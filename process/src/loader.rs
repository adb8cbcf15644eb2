//! Asks the dynamic loader for the loaded files, and reads the memory of this process.

use core::mem::offset_of;
use core::ops::{ControlFlow, Range};
use core::slice;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cfipack_format::widen::ToU64;
use libc::{Elf64_Phdr, PF_R, PF_X, PT_LOAD, c_int, c_void, dl_iterate_phdr, dl_phdr_info, iovec};

/// The segment of `.sframe`.
pub(crate) const PT_GNU_SFRAME: u32 = 0x6474_e554;

/// How many files the loader has loaded and unloaded since the process started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Changes {
    adds: u64,
    pub(crate) subs: u64,
}

/// A loaded file. It stays loaded while [`each_file`] visits it.
pub(crate) struct LoadedFile<'l> {
    bias: u64,
    segments: &'l [Elf64_Phdr],
    /// `None` if the loader does not count.
    pub(crate) changes: Option<Changes>,
}

impl<'l> LoadedFile<'l> {
    /// Returns where the file's program headers are.
    pub(crate) fn headers(&self) -> u64 {
        self.segments.as_ptr().addr().to_u64()
    }

    /// Returns the ranges of the file's code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> {
        let code =
            self.segments.iter().filter(|segment| segment.p_type == PT_LOAD && segment.p_flags & PF_X != 0);
        code.filter_map(|segment| {
            let start = self.start(segment);
            Some(start..start.checked_add(segment.p_memsz)?)
        })
    }

    /// Returns the address and the bytes of the segment of a kind.
    pub(crate) fn segment(&self, kind: u32) -> Option<(u64, &'l [u8])> {
        let segment = self.segments.iter().find(|segment| segment.p_type == kind)?;
        let start = self.start(segment);
        Some((start, self.bytes_from(start)?.get(..usize::try_from(segment.p_filesz).ok()?)?))
    }

    /// Returns the bytes from an address to the end of the loaded segment that contains the address.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<&'l [u8]> {
        let loaded =
            self.segments.iter().filter(|segment| segment.p_type == PT_LOAD && segment.p_flags & PF_R != 0);
        let mut ends = loaded.filter_map(|segment| {
            let offset = address.checked_sub(self.start(segment))?;
            segment.p_filesz.checked_sub(offset)
        });
        let len = ends.next().and_then(|len| usize::try_from(len).ok())?;
        // SAFETY: the loader has mapped these bytes for reading, and the file stays loaded for `'l`.
        Some(unsafe { slice::from_raw_parts(core::ptr::with_exposed_provenance(address as usize), len) })
    }

    fn start(&self, segment: &Elf64_Phdr) -> u64 {
        self.bias.wrapping_add(segment.p_vaddr)
    }
}

/// Calls a function with each loaded file, the program first, until it breaks. The loader loads and unloads no file
/// meanwhile.
pub(crate) fn each_file<F: FnMut(&LoadedFile<'_>) -> ControlFlow<()>>(visit: F) {
    struct State<F> {
        visit: F,
        result: std::thread::Result<ControlFlow<()>>,
    }
    unsafe extern "C" fn visit_one<F: FnMut(&LoadedFile<'_>) -> ControlFlow<()>>(
        info: *mut dl_phdr_info,
        size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `each_file` gives this function and its data to the loader, which gives them back with a file. An old
        // loader has no counts, so that no reference to all of the structure is made.
        let (state, bias, segments, len) = unsafe {
            let state = &mut *data.cast::<State<F>>();
            (state, (*info).dlpi_addr, (*info).dlpi_phdr, (*info).dlpi_phnum.into())
        };
        let has_counts = size >= offset_of!(dl_phdr_info, dlpi_subs) + size_of::<u64>();
        // SAFETY: the loader's array of program headers, and its counts if it has them.
        let (segments, changes) = unsafe {
            let segments: &[Elf64_Phdr] = if len == 0 { &[] } else { slice::from_raw_parts(segments, len) };
            let counts = || Changes { adds: (*info).dlpi_adds, subs: (*info).dlpi_subs };
            (segments, has_counts.then(counts))
        };
        let file = LoadedFile { bias, segments, changes };
        // A panic must not go through the loader.
        state.result = catch_unwind(AssertUnwindSafe(|| (state.visit)(&file)));
        c_int::from(!matches!(state.result, Ok(ControlFlow::Continue(()))))
    }
    let mut state = State { visit, result: Ok(ControlFlow::Continue(())) };
    // SAFETY: the function and its data belong together.
    unsafe { dl_iterate_phdr(Some(visit_one::<F>), (&raw mut state).cast()) };
    if let Err(panic) = state.result {
        resume_unwind(panic);
    }
}

/// Returns the number of this process.
pub(crate) fn process() -> c_int {
    // SAFETY: no conditions.
    unsafe { libc::getpid() }
}

/// Copies memory of this process that may be unmapped at any time. Returns whether all of it was copied.
/// Async-signal-safe.
pub(crate) fn read(address: u64, out: &mut [u8]) -> bool {
    let local = iovec { iov_base: out.as_mut_ptr().cast(), iov_len: out.len() };
    let remote = iovec { iov_base: core::ptr::without_provenance_mut(address as usize), iov_len: out.len() };
    // SAFETY: the kernel writes to `out`, and checks the other range. What a handler interrupts sees its own `errno`.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        // The process has no memory under its own number any more once its first thread has ended.
        let thread = libc::syscall(libc::SYS_gettid) as c_int;
        let copied = libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0);
        *errno = before;
        usize::try_from(copied) == Ok(out.len())
    }
}
