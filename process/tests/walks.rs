//! Walks stacks of this process in a signal handler, and compares them with libgcc's backtraces in the same handler.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, RwLock};

use cfipack_decoder::sframe::Registers;
use cfipack_decoder::walk::{End, StackFrame, Walk};
use cfipack_format::{Address, Register};
use cfipack_process::{Options, ProcessModules, Refreshed};

unsafe extern "C" {
    fn backtrace(out: *mut *mut c_void, len: c_int) -> c_int;
}

/// One handler at a time: its modules, and what it found.
static TURN: Mutex<()> = Mutex::new(());
static MODULES: AtomicPtr<ProcessModules> = AtomicPtr::new(std::ptr::null_mut());
static FOUND: Mutex<Option<Sample>> = Mutex::new(None);

/// The files that are loaded. Tests that count them read it, and a test that loads a file writes it.
static FILES: RwLock<()> = RwLock::new(());

struct Sample {
    frames: Vec<StackFrame>,
    end: Option<End>,
    theirs: Vec<u64>,
}

/// The numbers that DWARF gives the registers, as places in the kernel's array.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RDX,
    libc::REG_RCX,
    libc::REG_RBX,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_RBP,
    libc::REG_RSP,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Returns the address after the stack of this thread.
unsafe fn stack_end() -> u64 {
    // SAFETY: the thread is running.
    unsafe {
        let mut attributes = std::mem::zeroed();
        let (mut start, mut size) = (std::ptr::null_mut(), 0);
        assert_eq!(libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes), 0);
        assert_eq!(libc::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size), 0);
        libc::pthread_attr_destroy(&raw mut attributes);
        start.addr() as u64 + size as u64
    }
}

extern "C" fn on_signal(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let mut theirs = [std::ptr::null_mut(); 256];
    // SAFETY: the kernel gives the context. This thread alone raises the signal, so the handler may allocate.
    unsafe {
        let machine = &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let register = |place: c_int| machine[place as usize] as u64;
        let others: Vec<_> = (0..16).map(|n| (Register(n), register(REGISTERS[usize::from(n)]))).collect();
        let (sp, fp, pc) = (register(libc::REG_RSP), register(libc::REG_RBP), register(libc::REG_RIP));
        let registers = Registers { sp, fp: Some(fp), lr: None, others: &others };
        let top = stack_end();
        let memory = |address: Address| {
            let is_stack = address.0 >= sp - 128 && address.0 <= top - 8;
            is_stack.then(|| std::ptr::with_exposed_provenance::<u64>(address.0 as usize).read_unaligned())
        };
        let modules = (*MODULES.load(Ordering::Relaxed)).current();
        let mut walk = Walk::new(&modules, Address(pc), registers, memory);
        let frames = walk.by_ref().collect();
        let len = backtrace(theirs.as_mut_ptr(), 256) as usize;
        let theirs = theirs[..len].iter().map(|&frame| frame.addr() as u64).skip_while(|&frame| frame != pc);
        *FOUND.lock().unwrap() = Some(Sample { frames, end: walk.end(), theirs: theirs.collect() });
    }
}

/// Walks a stack of this thread.
#[inline(never)]
fn sample(modules: &ProcessModules) -> Sample {
    let _turn = TURN.lock().unwrap();
    // SAFETY: the lock is held until the handler has returned.
    unsafe {
        MODULES.store(std::ptr::from_ref(modules).cast_mut(), Ordering::Relaxed);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1), 0);
        FOUND.lock().unwrap().take().expect("the handler has run")
    }
}

fn assert_is_complete(sample: &Sample) {
    let ours: Vec<_> = sample.frames.iter().map(|frame| frame.pc.0).collect();
    assert_eq!((&ours, sample.end), (&sample.theirs, Some(End::Outermost)));
    assert!(ours.len() > 4 && !sample.frames.iter().any(|frame| frame.found_by.is_guess()));
}

#[test]
fn walks_equal_libgccs() {
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new().with_all_files(true));
    assert_is_complete(&sample(&modules));
    let again = modules.refresh().unwrap();
    assert!(!again.is_changed && again.tables >= 3 && again.memory > 0, "{again:?}");
}

#[test]
fn files_get_tables_when_walks_come_to_them() {
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new());
    let Refreshed { tables: 0, memory: 0, files, .. } = modules.refresh().unwrap() else {
        panic!("no walk has needed a table")
    };
    let mut last = 0;
    // Each round adds a table at least: libc's, the program's, and so on.
    for _ in 0..files {
        let found = sample(&modules);
        if found.end == Some(End::Outermost) && !found.frames.iter().any(|frame| frame.found_by.is_guess()) {
            break;
        }
        let refreshed = modules.refresh().unwrap();
        assert!(refreshed.is_changed && refreshed.tables > last, "{refreshed:?}");
        last = refreshed.tables;
    }
    assert_is_complete(&sample(&modules));
    assert!(last < files, "not every file has code of this stack");
}

#[test]
fn tables_stay_within_their_memory() {
    let _files = FILES.read().unwrap();
    let all = ProcessModules::new(Options::new().with_all_files(true)).refresh().unwrap();
    assert_eq!(all.too_large, 0);
    let exact = ProcessModules::new(Options::new().with_all_files(true).with_memory(all.memory));
    assert_eq!(exact.refresh().unwrap(), all);
    for memory in [1, all.memory / 2, all.memory - 1] {
        let some = ProcessModules::new(Options::new().with_all_files(true).with_memory(memory));
        let refreshed = some.refresh().unwrap();
        assert!(refreshed.memory <= memory && refreshed.too_large > 0, "{memory}: {refreshed:?}");
        assert_eq!(refreshed.tables + refreshed.too_large, all.tables);
        // A walk ends, or says that it guesses.
        let sample = sample(&some);
        let is_equal = sample.theirs.iter().eq(sample.frames.iter().map(|frame| &frame.pc.0));
        let is_said = sample.frames.iter().any(|frame| frame.found_by.is_guess());
        assert!(is_equal || is_said || sample.end != Some(End::Outermost), "{memory}");
    }
}

/// In a child after `fork`, another thread of the parent may hold the loader's lock forever. Walks do not need it.
#[test]
fn a_child_walks_and_does_not_refresh() {
    // No other test holds a lock at the fork.
    let _files = FILES.write().unwrap();
    let modules = ProcessModules::new(Options::new().with_all_files(true));
    // SAFETY: the child only compares, takes samples, and ends.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let is_complete = sample(&modules).end == Some(End::Outermost);
            libc::_exit(c_int::from(is_complete) + 2 * c_int::from(modules.refresh().is_err()));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 3, "{status:#x}");
    assert!(modules.refresh().is_ok());
}

/// Of the mapped files, those parts are code that the kernel executes.
#[test]
fn code_is_what_the_kernel_maps_as_code() {
    use cfipack_decoder::walk::AddressSpace;
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let files: Vec<_> = maps.lines().filter(|line| line.contains('/')).collect();
    for line in &files {
        let (range, flags) = line.split_once(' ').unwrap();
        let [start, end] = [0, 1].map(|n| u64::from_str_radix(range.split('-').nth(n).unwrap(), 16).unwrap());
        let middle = Address(start.midpoint(end));
        assert_eq!(modules.current().is_code(middle), flags[..4].contains('x'), "{line}");
    }
    assert!(files.len() > 8, "{maps}");
}

/// Without a table of the program, the first thread's stack ends in the code at the entry: where its call returns to, glibc
/// has `hlt`.
#[test]
fn the_first_thread_started_before_hlt() {
    use cfipack_decoder::walk::{AddressSpace, FoundBy};
    const HLT: u8 = 0xf4;
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new());
    // SAFETY: no conditions.
    let entry = unsafe { libc::getauxval(libc::AT_ENTRY) };
    let current = modules.current();
    let frame = |pc| StackFrame { pc: Address(pc), sp: 0, is_exact: false, found_by: FoundBy::Table };
    let starts: Vec<_> = (entry..entry + 64).filter(|&pc| current.is_start(&frame(pc))).collect();
    let [start] = starts[..] else { panic!("{starts:x?}") };
    // SAFETY: code of this program.
    assert_eq!(unsafe { *std::ptr::with_exposed_provenance::<u8>(start as usize) }, HLT);
    assert!(!current.is_start(&StackFrame { is_exact: true, ..frame(start) }));
}

/// Return addresses as libgcc finds them follow calls. Nearly all addresses a byte before follow none.
#[test]
fn guesses_are_checked_by_the_code() {
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new());
    let theirs = sample(&modules).theirs;
    let current = modules.current();
    let ends = |pc: u64| {
        let registers = Registers { sp: 0x7000, fp: Some(0x7000), lr: None, others: &[] };
        let read = |address: Address| [0, pc].get((address.0 as usize - 0x7000) / 8).copied();
        let mut walk = Walk::new(&current, Address(theirs[0]), registers, read);
        (walk.by_ref().count(), walk.end())
    };
    for pc in &theirs[1..] {
        assert_eq!(ends(*pc), (2, Some(End::GuessedNull)), "{pc:#x}");
    }
    let refused = theirs[1..].iter().filter(|pc| ends(**pc - 1) == (1, Some(End::NoRow))).count();
    assert!(refused * 2 > theirs.len(), "{refused} of {}", theirs.len());
}

/// A walk keeps the modules that it started with, and their memory is counted until the walk ends.
#[test]
fn a_refresh_does_not_wait_for_a_walk() {
    let _files = FILES.read().unwrap();
    let modules = ProcessModules::new(Options::new());
    let walk = modules.current();
    sample(&modules);
    assert!(modules.refresh().unwrap().is_changed);
    let generation = |modules: &cfipack_process::CurrentModules<'_>| {
        use cfipack_decoder::walk::AddressSpace;
        modules.generation()
    };
    assert_ne!(generation(&walk), generation(&modules.current()));
}

/// Without a refresh between `dlclose` and the next `dlopen`, walks may use an old file's rows. The next refresh says so.
#[test]
fn a_refresh_says_that_files_were_unloaded() {
    let _files = FILES.write().unwrap();
    let all = Options::new().with_all_files(true);
    let modules = ProcessModules::new(all);
    // SAFETY: glibc's own libraries, which nothing else uses.
    let open = |name: &std::ffi::CStr| unsafe {
        let file = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        assert!(!file.is_null(), "{name:?}");
        file
    };
    // SAFETY: opened above, and not used any more.
    let close = |file| assert_eq!(unsafe { libc::dlclose(file) }, 0);
    let first = open(c"libanl.so.1");
    let loaded = modules.refresh().unwrap();
    assert!(loaded.is_changed && !loaded.has_unloaded, "{loaded:?}");
    close(first);
    let second = open(c"libBrokenLocale.so.1");
    let replaced = modules.refresh().unwrap();
    assert!(replaced.has_unloaded && replaced.files == loaded.files, "{replaced:?}");
    // The new file has its own table, even at the old file's place.
    let fresh = ProcessModules::new(all).refresh().unwrap();
    assert_eq!((replaced.tables, replaced.memory), (fresh.tables, fresh.memory));
    let again = modules.refresh().unwrap();
    assert!(!again.is_changed && !again.has_unloaded, "{again:?}");
    close(second);
    assert!(modules.refresh().unwrap().has_unloaded);
}

/// A file with a `.sframe` and without `.eh_frame_hdr`: libgcc's backtrace ends there, and ours goes on.
#[test]
#[ignore = "needs gcc, and GNU as 2.40 or later"]
fn tables_in_files_are_used() {
    use std::process::{Command, Stdio};
    let _files = FILES.write().unwrap();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("with-sframe.so");
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O1", "-Wa,--gsframe", "-Wl,--no-eh-frame-hdr", "-xc", "-", "-o"])
        .arg(&path);
    let mut gcc = gcc.stdin(Stdio::piped()).spawn().expect("this test needs gcc");
    let source = b"int call(int (*next)(void *), void *data) { volatile int more[9] = {1}; return next(data) + more[0]; }";
    std::io::Write::write_all(&mut gcc.stdin.take().unwrap(), source).unwrap();
    assert!(gcc.wait().unwrap().success());

    extern "C" fn next(data: *mut c_void) -> c_int {
        // SAFETY: these are the modules and the sample below.
        let (modules, sampled) = unsafe { &mut *data.cast::<(ProcessModules, Option<Sample>)>() };
        *sampled = Some(sample(modules));
        1
    }
    let modules = ProcessModules::new(Options::new().with_all_files(true));
    let before = modules.refresh().unwrap();
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the file has this function.
    let (file, call) = unsafe {
        let file = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!file.is_null());
        type Call = extern "C" fn(extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
        (file, std::mem::transmute::<*mut c_void, Call>(libc::dlsym(file, c"call".as_ptr())))
    };
    let after = modules.refresh().unwrap();
    assert_eq!((after.files, after.tables), (before.files + 1, before.tables + 1));
    let mut data = (modules, None::<Sample>);
    assert_eq!(call(next, (&raw mut data).cast()), 2);
    let (modules, Some(sample)) = data else { panic!("no sample") };
    let ours: Vec<_> = sample.frames.iter().map(|frame| frame.pc.0).collect();
    assert!(
        ours.starts_with(&sample.theirs) && ours.len() > sample.theirs.len(),
        "{ours:x?} {:x?}",
        sample.theirs
    );
    assert_eq!(sample.end, Some(End::Outermost));
    assert!(!sample.frames.iter().any(|frame| frame.found_by.is_guess()));
    // SAFETY: nothing uses the file any more.
    assert_eq!(unsafe { libc::dlclose(file) }, 0);
    let last = modules.refresh().unwrap();
    assert_eq!((last.files, last.tables, last.memory), (before.files, before.tables, before.memory));
}
