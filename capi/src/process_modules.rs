//! The loaded files of this process, for a profiler in it.

use cfipack_assembler::registry::Reader;
use cfipack_decoder::sframe::{Error, Frame};
use cfipack_decoder::walk::{AddressSpace, Generation, StackFrame};
use cfipack_format::widen::ToU64;
use cfipack_format::{Address, Arch};
use cfipack_process::{CurrentModules, Options, ProcessModules};

use crate::arguments::{flag, write_optional};
use crate::cfipack_message;
use crate::cfipack_status::{self, InvalidArgument, Refused};
use crate::handle::{self, Opaque};
use crate::registry::cfipack_registry_reader;
use crate::sized_options::{SizedOptions, options};
use crate::status::call;
use crate::walk::{cfipack_frame, cfipack_thread, walk_in};

/// The files that this process has loaded, with their tables. Any number of threads and signal handlers may walk in
/// it, also while a thread refreshes it: neither waits for the other.
///
/// A child after `fork` may walk in its copy without preparation. Each refresh in the child returns
/// `CFIPACK_STATUS_REFUSED`: a thread of the parent may hold the loader's lock at the fork, and nothing releases the lock
/// in the child. If no other thread of the parent could be in `dlopen`, `dlclose` or `dl_iterate_phdr` then, the child
/// may create modules of its own. Otherwise `cfipack_modules_of_process` may wait forever in the child, as `dlopen` does
/// there.
///
/// The child is known by its process number. In a new PID namespace it may have the number of its parent: do not refresh
/// there.
#[derive(Debug)]
pub struct cfipack_process_modules(());

impl Opaque for cfipack_process_modules {
    type State = ProcessModules;
}

/// Options of `cfipack_modules_of_process`. The defaults are zero in all fields except `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cfipack_process_options {
    /// `sizeof(cfipack_process_options)`
    pub size: u32,
    /// 1 to make the tables of all files. 0 to make the table of a file in the first refresh after a walk came to the
    /// file's code.
    pub all_files: u8,
    /// Must be 0.
    pub reserved: [u8; 3],
    /// How many bytes all tables and their indices may have; 0 means 64 MiB. A file whose table does not fit has no
    /// table. While a table is made, it needs about as many bytes more as the file's `.eh_frame` has.
    pub memory: u64,
}

// SAFETY: integers without padding.
unsafe impl SizedOptions for cfipack_process_options {
    const DEFAULT: Self = Self { size: 0, all_files: 0, reserved: [0; 3], memory: 0 };
}

impl cfipack_process_options {
    fn get(&self) -> Result<Options, cfipack_status> {
        if self.reserved != [0; 3] {
            return Err(InvalidArgument);
        }
        let options = Options::new().with_all_files(flag(self.all_files)?);
        match usize::try_from(self.memory).map_err(|_| InvalidArgument)? {
            0 => Ok(options),
            memory => Ok(options.with_memory(memory)),
        }
    }
}

/// What a refresh found.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct cfipack_refreshed {
    /// The number of loaded files with code.
    pub files: u64,
    /// The number of these files with a table.
    pub tables: u64,
    /// The number of files whose tables need more memory than is left.
    pub too_large: u64,
    /// The bytes of all tables and their indices. This includes older tables that a walk still uses.
    pub memory: u64,
    /// 1 if files were loaded or unloaded, or tables were made, since the last refresh.
    pub is_changed: u8,
    /// 1 if files were unloaded since the last refresh. Walks that began before this refresh may have used rows of an
    /// unloaded file for another file at its place, and nothing else says so: discard these walks.
    pub has_unloaded: u8,
    /// Always 0.
    pub reserved: [u8; 6],
}

/// Finds the files that this process has loaded, by `dl_iterate_phdr`. A file with a `.sframe` in memory has this
/// table. For other files, the library makes a table of their `.eh_frame`. `given` may be null for the default
/// options. `message` may be null; otherwise it gets a description of the error. Only on Linux. Free the modules with
/// `cfipack_process_modules_free`.
///
/// # Safety
/// Each pointer is null or points to a value of its type.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_modules_of_process(
    out: *mut *mut cfipack_process_modules,
    given: *const cfipack_process_options,
    message: *mut cfipack_message,
) -> cfipack_status {
    // SAFETY: promised by the caller.
    unsafe { handle::create(out, message, || Ok(ProcessModules::new(options(given)?.get()?))) }
}

/// Finds the files that are loaded now, and makes the tables that walks have missed. `refreshed` may be null. If
/// nothing has changed, this takes about a microsecond. While it makes tables, other threads cannot load or unload
/// files. Do not call it in a signal handler. Returns `CFIPACK_STATUS_REFUSED` if another thread is refreshing,
/// and in a child after `fork`.
///
/// Call it after each `dlopen`: until then walks end in the code of the new file. Call it after each `dlclose`, before
/// anything else is mapped, such as another file or generated code: otherwise it may lie where the old file was, and
/// walks would use the old file's rows.
/// A walk never reads memory that `dlclose` has unmapped, because tables are copies.
///
/// # Safety
/// `modules` is null or comes from `cfipack_modules_of_process`, `refreshed` is null or writable.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_process_modules_refresh(
    modules: *const cfipack_process_modules,
    refreshed: *mut cfipack_refreshed,
) -> cfipack_status {
    call(|| {
        // A call that fails must not refresh, so check the pointer first.
        // SAFETY: promised by the caller.
        unsafe { write_optional(refreshed, cfipack_refreshed::default())? };
        // SAFETY: promised by the caller.
        let found = unsafe { handle::get(modules) }?.refresh().map_err(|_| Refused)?;
        let found = cfipack_refreshed {
            files: found.files.to_u64(),
            tables: found.tables.to_u64(),
            too_large: found.too_large.to_u64(),
            memory: found.memory.to_u64(),
            is_changed: found.is_changed.into(),
            has_unloaded: found.has_unloaded.into(),
            reserved: [0; 6],
        };
        // SAFETY: promised by the caller.
        unsafe { write_optional(refreshed, found) }
    })
}

/// The loaded files and generated code. A registered region comes first: it may lie where an unloaded file was.
struct WithGenerated<'p> {
    modules: CurrentModules<'p>,
    generated: &'p Reader,
}

impl AddressSpace for WithGenerated<'_> {
    fn arch(&self) -> Arch {
        self.modules.arch()
    }

    /// Regions come and go during a walk, so their rows are in no cache.
    fn generation(&self) -> Generation {
        Generation::NONE
    }

    fn lookup(&self, pc: Address) -> Result<Option<Frame>, Error> {
        self.generated.lookup(pc).map_or_else(|| self.modules.lookup(pc), |frame| Ok(Some(frame)))
    }

    fn is_start(&self, frame: &StackFrame) -> bool {
        self.modules.is_start(frame)
    }

    fn is_code(&self, pc: Address) -> bool {
        self.modules.is_code(pc) || self.generated.lookup(pc).is_some()
    }

    fn follows_call(&self, pc: Address) -> Option<bool> {
        self.modules.follows_call(pc)
    }
}

/// Walks up the stack of a thread of this process as `cfipack_walk` does. `generated` may be null; otherwise the walk
/// also goes through the code that is registered there, and does not use the thread's cache. Returns
/// `CFIPACK_STATUS_INVALID_ARGUMENT` if that registry is for another architecture than this process.
/// Async-signal-safe, even in a handler that interrupts a refresh or a call of the registry.
///
/// # Safety
/// The conditions of `cfipack_walk`; `modules` is null or comes from `cfipack_modules_of_process`; `generated` is null
/// or a reader.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_process_modules_walk(
    modules: *const cfipack_process_modules,
    generated: *const cfipack_registry_reader,
    thread: *const cfipack_thread,
    frames: *mut cfipack_frame,
    capacity: usize,
    count: *mut usize,
    end: *mut u32,
) -> cfipack_status {
    call(|| {
        // SAFETY: promised by the caller.
        let modules = unsafe { handle::get(modules) }?.current();
        if generated.is_null() {
            // SAFETY: promised by the caller.
            return unsafe { walk_in(&modules, thread, frames, capacity, count, end) };
        }
        // SAFETY: promised by the caller.
        let generated = unsafe { handle::get(generated) }?;
        if generated.arch() != modules.arch() {
            return Err(InvalidArgument);
        }
        let space = WithGenerated { modules, generated };
        // SAFETY: promised by the caller.
        unsafe { walk_in(&space, thread, frames, capacity, count, end) }
    })
}

/// Frees the modules. Does nothing for null. No walk may use them any more, also not in a signal handler.
///
/// # Safety
/// `modules` is null or comes from `cfipack_modules_of_process`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfipack_process_modules_free(modules: *mut cfipack_process_modules) {
    // SAFETY: promised by the caller.
    unsafe { handle::free(modules) };
}
