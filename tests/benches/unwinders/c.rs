//! Opens C unwinders if they are installed.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

use cfipack_tests::profile::recording::{FP, SP, Sample};

/// Opens an unwinder for the stack of a sample.
type Open = fn(&Sample) -> Result<Unwinder, String>;

pub struct Unwinder {
    /// Walks the stack of this thread, and returns the number of frames.
    pub walk: Box<dyn Fn() -> usize>,
    pub is_slow: bool,
}

/// All unwinders, by name.
pub const UNWINDERS: [(&str, Open); 5] = [
    ("libgcc, _Unwind_Backtrace", |_| backtrace(c"libgcc_s.so.1")),
    ("LLVM's libunwind, _Unwind_Backtrace", |_| backtrace(c"libunwind.so.1")),
    ("HP's libunwind, unw_step", |_| hp_steps()),
    ("HP's libunwind, unw_backtrace", |_| hp_backtrace()),
    ("libdw, dwfl_getthread_frames", libdw),
];

/// A limit that no stack here reaches.
const DEPTH: usize = 256;

/// A library that stays open.
struct Library(*mut c_void, &'static CStr);

impl Library {
    fn open(name: &'static CStr) -> Result<Self, String> {
        // SAFETY: the name ends with a zero.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            Err(format!("no {}", name.to_string_lossy()))
        } else {
            Ok(Self(library, name))
        }
    }

    /// The address of a function.
    ///
    /// # Safety
    /// `F` is the type of a pointer to it.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is open.
        let address = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("{} has no {}", self.1.to_string_lossy(), name.to_string_lossy()));
        }
        // SAFETY: promised by the caller.
        Ok(unsafe { std::mem::transmute_copy(&address) })
    }
}

fn quick(walk: impl Fn() -> usize + 'static) -> Result<Unwinder, String> {
    Ok(Unwinder { walk: Box::new(walk), is_slow: false })
}

type Visit = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

extern "C" fn count(_context: *mut c_void, count: *mut c_void) -> c_int {
    // SAFETY: it is the argument below.
    unsafe { *count.cast::<usize>() += 1 };
    0
}

/// Makes an unwinder of `_Unwind_Backtrace`, called as profilers do: a callback takes each frame's address.
fn backtrace(name: &'static CStr) -> Result<Unwinder, String> {
    let library = Library::open(name)?;
    // SAFETY: the type by the Itanium ABI.
    let walk: unsafe extern "C" fn(Visit, *mut c_void) -> c_int =
        unsafe { library.function(c"_Unwind_Backtrace")? };
    quick(move || {
        let mut frames = 0_usize;
        // SAFETY: the argument is that of `count`.
        unsafe { walk(count, (&raw mut frames).cast()) };
        frames
    })
}

fn hp_steps() -> Result<Unwinder, String> {
    let library = Library::open(c"libunwind.so.8")?;
    // SAFETY: the types by libunwind.h: a context is a ucontext_t, a cursor 127 words.
    let (context, init, step) = unsafe {
        let context: unsafe extern "C" fn(*mut libc::ucontext_t) -> c_int =
            library.function(c"_Ux86_64_getcontext")?;
        let init: unsafe extern "C" fn(*mut u64, *mut libc::ucontext_t) -> c_int =
            library.function(c"_ULx86_64_init_local")?;
        let step: unsafe extern "C" fn(*mut u64) -> c_int = library.function(c"_ULx86_64_step")?;
        (context, init, step)
    };
    quick(move || {
        let (mut cursor, mut frames) = ([0_u64; 127], 1);
        // SAFETY: all zeros is a context; the pointers lead to what the functions expect.
        unsafe {
            let mut registers: libc::ucontext_t = std::mem::zeroed();
            context(&mut registers);
            init(cursor.as_mut_ptr(), &mut registers);
            while step(cursor.as_mut_ptr()) > 0 {
                frames += 1;
            }
        }
        frames
    })
}

fn hp_backtrace() -> Result<Unwinder, String> {
    let library = Library::open(c"libunwind.so.8")?;
    // SAFETY: the type by libunwind.h.
    let walk: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
        unsafe { library.function(c"unw_backtrace")? };
    quick(move || {
        let mut frames = [null_mut(); DEPTH];
        // SAFETY: as many as fit.
        unsafe { walk(frames.as_mut_ptr(), DEPTH as c_int) as usize }
    })
}

/// elfutils' `Dwfl_Callbacks`.
#[repr(C)]
struct Callbacks {
    find_elf: *const c_void,
    find_debuginfo: Option<extern "C" fn() -> c_int>,
    section_address: *const c_void,
    debuginfo_path: *const c_void,
}

/// elfutils' `Dwfl_Thread_Callbacks`.
#[repr(C)]
struct ThreadCallbacks {
    next_thread: extern "C" fn(*mut c_void, *mut c_void, *mut *mut c_void) -> c_int,
    get_thread: extern "C" fn(*mut c_void, c_int, *mut c_void, *mut *mut c_void) -> bool,
    memory_read: extern "C" fn(*mut c_void, u64, *mut u64, *mut c_void) -> bool,
    set_initial_registers: extern "C" fn(*mut c_void, *mut Thread) -> bool,
    detach: *const c_void,
    thread_detach: *const c_void,
}

/// The thread that libdw walks, made of the sample's stack and registers.
struct Thread {
    stack: Vec<u8>,
    start: u64,
    registers: [u64; 17],
    set: unsafe extern "C" fn(*mut c_void, c_int, u32, *const u64) -> bool,
    set_pc: unsafe extern "C" fn(*mut c_void, u64),
}

extern "C" fn no_debuginfo() -> c_int {
    -1
}

extern "C" fn next_thread(_dwfl: *mut c_void, _of: *mut c_void, _thread: *mut *mut c_void) -> c_int {
    0
}

extern "C" fn get_thread(_dwfl: *mut c_void, _tid: c_int, of: *mut c_void, thread: *mut *mut c_void) -> bool {
    // SAFETY: libdw's memory for the thread.
    unsafe { *thread = of };
    true
}

extern "C" fn memory_read(_dwfl: *mut c_void, address: u64, word: *mut u64, of: *mut c_void) -> bool {
    // SAFETY: the argument of `dwfl_attach_state`.
    let thread = unsafe { &*of.cast::<Thread>() };
    let at = address.wrapping_sub(thread.start) as usize;
    let Some(bytes) = thread.stack.get(at..).and_then(|rest| rest.first_chunk()) else { return false };
    // SAFETY: libdw's memory for the word.
    unsafe { *word = u64::from_le_bytes(*bytes) };
    true
}

extern "C" fn set_initial_registers(thread: *mut c_void, of: *mut Thread) -> bool {
    // SAFETY: as above.
    unsafe {
        let of = &*of;
        (of.set_pc)(thread, of.registers[16]);
        (of.set)(thread, 0, 17, of.registers.as_ptr())
    }
}

/// Makes an unwinder of libdw for this process: files from `/proc`, the stack by callbacks.
fn libdw(sample: &Sample) -> Result<Unwinder, String> {
    let library = Library::open(c"libdw.so.1")?;
    let pid = std::process::id() as c_int;
    // SAFETY: the types by libdwfl.h.
    unsafe {
        let begin: unsafe extern "C" fn(*const Callbacks) -> *mut c_void = library.function(c"dwfl_begin")?;
        let report: unsafe extern "C" fn(*mut c_void, c_int) -> c_int =
            library.function(c"dwfl_linux_proc_report")?;
        let end: unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void) -> c_int =
            library.function(c"dwfl_report_end")?;
        let attach: unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            c_int,
            *const ThreadCallbacks,
            *mut c_void,
        ) -> bool = library.function(c"dwfl_attach_state")?;
        let frames: unsafe extern "C" fn(*mut c_void, c_int, Visit, *mut c_void) -> c_int =
            library.function(c"dwfl_getthread_frames")?;
        let callbacks = Box::leak(Box::new(Callbacks {
            find_elf: library.function(c"dwfl_linux_proc_find_elf")?,
            find_debuginfo: Some(no_debuginfo),
            section_address: null_mut(),
            debuginfo_path: null_mut(),
        }));
        let mut registers = [0; 17];
        registers[..16].copy_from_slice(&sample.registers);
        registers[16] = sample.pc;
        debug_assert!(registers[SP] != 0 && FP < 16);
        let thread = Box::leak(Box::new(Thread {
            stack: sample.stack.clone(),
            start: sample.registers[SP],
            registers,
            set: library.function(c"dwfl_thread_state_registers")?,
            set_pc: library.function(c"dwfl_thread_state_register_pc")?,
        }));
        let thread_callbacks = Box::leak(Box::new(ThreadCallbacks {
            next_thread,
            get_thread,
            memory_read,
            set_initial_registers,
            detach: null_mut(),
            thread_detach: null_mut(),
        }));
        let dwfl = begin(callbacks);
        if dwfl.is_null() || report(dwfl, pid) != 0 || end(dwfl, null_mut(), null_mut()) != 0 {
            return Err("libdw does not read this process".into());
        }
        if !attach(dwfl, null_mut(), pid, thread_callbacks, (&raw mut *thread).cast()) {
            return Err("libdw does not attach to this process".into());
        }
        let walk = move || {
            let mut count_of = 0_usize;
            frames(dwfl, pid, count, (&raw mut count_of).cast());
            count_of
        };
        Ok(Unwinder { walk: Box::new(walk), is_slow: true })
    }
}
